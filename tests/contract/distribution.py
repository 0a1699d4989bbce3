"""Installs the hostile plugins the way a stranger's come: as a distribution with entry points, in a folder of the path."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from narrows import Block

PACKAGE = "narrows_hostile"
SOURCES = Path(__file__).parent / "hostile"
KINDS: Mapping[str, tuple[str, str]] = {
    "authenticators.hostile_believes": ("callers", "Believes"),
    "authenticators.hostile_recognises": ("callers", "Recognises"),
    "constraints.hostile_rules": ("constraints", "Rules"),
    "plugins.hostile_allows": ("budgets", "Allows"),
    "plugins.hostile_authorizes": ("callers", "Authorizes"),
    "plugins.hostile_classifies": ("upstreams", "Classifies"),
    "plugins.hostile_narrows": ("narrowers", "Narrows"),
    "plugins.hostile_remembers": ("rememberers", "Remembers"),
    "plugins.hostile_widens_later": ("rememberers", "WidensLater"),
    "providers.hostile_answers": ("upstreams", "Answers"),
    "providers.hostile_sends": ("upstreams", "Sends"),
    "rankers.hostile_ranks": ("rankers", "Ranks"),
    "sinks.hostile_keeps": ("sinks", "Keeps"),
    "sinks.hostile_records": ("sinks", "Records"),
}
"""Kind -> module and class."""


def install(folder: Path) -> Path:
    """Put the distribution into a folder, which then has to stand on `PYTHONPATH`. Returns the folder."""
    shutil.copytree(SOURCES, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / f"{PACKAGE}-0.0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: narrows-hostile\nVersion: 0.0.1\n", "utf-8")
    points = [f"{kind} = {PACKAGE}.{module}:{name}\n" for kind, (module, name) in KINDS.items()]
    (metadata / "entry_points.txt").write_text(f"[narrows]\n{''.join(points)}", "utf-8")
    return folder


def kinds() -> dict[str, type[Block]]:
    """The same kinds as a host's own, for a gateway in this process."""
    return {kind: getattr(import_module(f"tests.contract.hostile.{at}"), name) for kind, (at, name) in KINDS.items()}
