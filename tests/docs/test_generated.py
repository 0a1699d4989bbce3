"""The generated parts of docs/reference are what the code says today, and nothing goes in there without a description."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from narrows import Constraint, Exclusion, Request, Target
from narrows.errors import STATUS
from narrows.hookspecs import EVERY_HOOK, Hooks
from narrows.registry import OWN_DISTRIBUTION, Kind, Registry
from narrows.telemetry import metrics_table, names
from tests.docs.pages import DOCS, ROOT, page
from tools.reference import hooks, kinds, metrics, spans
from tools.reference.__main__ import PARTS, stale
from tools.reference.keys import keys
from tools.reference.marks import filled, pages, places
from tools.reference.text import Undocumented, written

REFERENCE = DOCS / "reference"


def test_every_generated_page_is_what_the_code_says() -> None:
    assert not [str(path.relative_to(ROOT)) for path in stale()], "run `python -m tools.reference`"


def test_every_part_stands_on_a_page_once() -> None:
    standing = [name for path in pages(DOCS) for name in places(path.read_text("utf-8"))]
    assert sorted(standing) == sorted(PARTS)


def test_a_changed_page_is_stale_and_written_again(tmp_path: Path) -> None:
    copy = tmp_path / "hooks.md"
    text = (REFERENCE / "hooks.md").read_text("utf-8")
    copy.write_text(text.replace("401, closed", "never mind", 1), "utf-8")
    assert stale(tmp_path) == {copy: text}
    copy.write_text(text, "utf-8")
    assert stale(tmp_path) == {}


def test_check_says_which_pages_are_stale_and_exits_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    wrong = [sys.executable, "-m", "tools.reference", "check"]
    assert subprocess.run(wrong, cwd=ROOT, capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- generated: hooks -->\n", "stands alone"),
        ("<!-- generated: hooks -->\n<!-- end: kinds -->", "stands alone"),
        ("<!-- generated: nothing -->\n<!-- end: nothing -->", "no part 'nothing'"),
    ],
)
def test_a_mark_alone_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        filled(text, PARTS)


# ---- nothing is left out: what exists is counted from the software, not by the tool itself -------------------------


def test_every_hook_kind_metric_and_name_has_a_place() -> None:
    told = {path.stem: path.read_text("utf-8") for path in pages(DOCS)}
    assert not [hook for hook in EVERY_HOOK if f"### `{hook}`" not in told["hooks"]]
    own = [kind for kind in Registry().all() if kind.distribution == OWN_DISTRIBUTION]
    assert not [kind.name for kind in own if f"| `{kind.name}` |" not in told["kinds"]]
    options = {(kind.name, field.alias or name) for kind in own for name, field in kind.load().model_fields.items()}
    assert not [option for option in options if f"| `{option[1]}` |" not in told["kinds"]]
    assert not [code for code in STATUS if f"| `{code}` | {STATUS[code]} |" not in told["codes"]]
    assert not [metric.name for metric in metrics_table.TABLE if f"| `{metric.name}` |" not in told["metrics"]]
    attributes = {name for span in names.SPANS for name in (*span.attributes, *span.events)}
    assert not [name for name in attributes if f"| `{name}` |" not in told["spans"]]


def test_every_command_has_a_place() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "narrows", "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "200"}
    )
    listed = done.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    commands = [line.split()[0] for line in listed.splitlines()]
    assert {"demo", "serve", "check", "explain"} <= set(commands)
    assert [title.split()[1].strip("`") for _, title in page(REFERENCE / "commands.md").headings[1:]] == commands


# ---- nothing stands there without a meaning -------------------------------------------------------------------------


class Undescribed(Constraint[str]):
    def demands(self, request: Request) -> Iterable[str]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


class HalfDescribed(Undescribed):
    """A rule with an option of which nobody says what it does."""

    told: str = ""
    """What it does."""
    untold: str = ""


def described_kind(cls: type[Undescribed]) -> str:
    return "".join(kinds._kind(Kind("constraints.planted", OWN_DISTRIBUTION, "1", cls), Constraint))


def test_a_kind_without_a_docstring_is_refused() -> None:
    with pytest.raises(Undocumented, match=r"kind constraints\.planted has no description"):
        described_kind(Undescribed)


def test_an_option_without_a_text_is_refused() -> None:
    with pytest.raises(
        Undocumented, match=r"HalfDescribed\.untold has no description; write a docstring below `untold`"
    ):
        described_kind(HalfDescribed)


def without_help(patch: pytest.MonkeyPatch) -> Callable[[], str]:
    first, *rest = metrics_table.TABLE
    patch.setattr(metrics, "TABLE", (replace(first, help=" "), *rest))
    return metrics.metrics


def without_docstring(patch: pytest.MonkeyPatch) -> Callable[[], str]:
    patch.setattr(Hooks.narrow, "__doc__", None)
    return hooks.hooks


def without_meaning(patch: pytest.MonkeyPatch) -> Callable[[], str]:
    source = '"""Names."""\nTOLD: Final = "narrows.told"\n"""What it is."""\nUNTOLD: Final = "narrows.untold"\n'
    return lambda: str(list(spans.constants(source)))


@pytest.mark.parametrize("plant", [without_help, without_docstring, without_meaning])
def test_what_has_no_description_is_refused(
    plant: Callable[[pytest.MonkeyPatch], Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plant(monkeypatch)
    with pytest.raises(Undocumented, match="has no description"):
        part()


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str | None, "string"),
        (tuple[str, ...], "list of strings"),
        (Literal["a", "b", "c"], '`"a"`, `"b"` or `"c"`'),
        (Mapping[str, bool], "table: string → true or false"),
        (bool | int, "true or false or integer"),
    ],
)
def test_types_read_as_the_file_is_written(annotation: object, text: str) -> None:
    assert written(annotation) == text


def test_a_key_that_is_not_built_is_called_so() -> None:
    assert "| `operators` | the key itself |" in keys()
