"""The enum names every provider kind that there is: one that is built and not listed here fails."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

from narrows.registry import Registry
from tests.equivalence.kinds import Kind

ROOT = Path(__file__).parents[2]
KINDS = {f"providers.{kind}" for kind in Kind}


def providers(names: object) -> set[str]:
    assert isinstance(names, (list, set, dict))
    return {name for name in names if name.startswith("providers.")}


def test_every_kind_that_is_written_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert providers(project["entry-points"]["narrows"]) == KINDS


def test_every_kind_that_is_installed_has_a_row() -> None:
    ours = [entry for entry in entry_points(group="narrows") if entry.dist is not None and entry.dist.name == "narrows"]
    assert providers({entry.name for entry in ours}) == KINDS


def test_every_kind_that_a_configuration_can_name_has_a_row() -> None:
    kinds = [kind.name for kind in Registry().of("providers") if kind.distribution == "narrows"]
    assert providers(kinds) == KINDS
