"""`python -m tools.reference` fills the marked places of docs/; `--check` says which pages are stale, and exits 1."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.reference.codes import codes
from tools.reference.commands import commands
from tools.reference.hooks import hooks
from tools.reference.keys import keys
from tools.reference.kinds import kinds, kinds_at_a_glance
from tools.reference.marks import Part, filled, pages
from tools.reference.metrics import metrics
from tools.reference.names import names, testing_names
from tools.reference.spans import attributes, spans, stages
from tools.reference.text import Undocumented

DOCS = Path(__file__).resolve().parents[2] / "docs"
PARTS: Mapping[str, Part] = {
    "attributes": attributes,
    "codes": codes,
    "commands": commands,
    "hooks": hooks,
    "keys": keys,
    "kinds": kinds,
    "kinds_at_a_glance": kinds_at_a_glance,
    "metrics": metrics,
    "names": names,
    "spans": spans,
    "stages": stages,
    "testing_names": testing_names,
}


def stale(folder: Path = DOCS) -> dict[Path, str]:
    """The pages that do not say what the code says, with what they should. Raises Undocumented."""
    wanted = {path: filled(path.read_text("utf-8"), PARTS) for path in pages(folder)}
    return {path: text for path, text in wanted.items() if text != path.read_text("utf-8")}


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.reference [--check]", file=sys.stderr)
        return 2
    try:
        found = stale()
    except Undocumented as missing:
        print(f"reference: {missing}", file=sys.stderr)
        return 1
    for path, text in found.items():
        print(f"reference: {path.relative_to(DOCS.parent)} {'is stale' if arguments else 'written'}")
        if not arguments:
            path.write_text(text, "utf-8")
    if found and arguments:
        print("reference: run `python -m tools.reference`", file=sys.stderr)
    return 1 if found and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
