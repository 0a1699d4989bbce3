"""`narrows plugins`: what is installed, what is used, and what is broken."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest

from narrows import registry
from narrows.registry import Kind
from tests.core.cli.commands import ECHO, narrows
from tests.support.config import write_config

ROW = {"name", "kind", "distribution", "version", "api", "hooks", "status"}


def test_without_files_everything_is_available() -> None:
    ran = narrows("plugins", "--json")
    rows = {row["kind"]: row for row in ran.json()}
    assert (ran.code, ran.stderr) == (0, "")
    assert all(set(row) >= ROW and row["status"] == "available" for row in rows.values())
    assert rows["constraints.attribute_match"] == {
        "name": "attribute_match",
        "path": None,
        "kind": "constraints.attribute_match",
        "distribution": "narrows",
        "version": version("narrows"),
        "api": 1,
        "hooks": ["narrow", "check"],
        "status": "available",
    }
    assert rows["providers.echo"]["hooks"] == ["dispatch"]
    assert rows["rankers.ordered"]["hooks"] == ["rank"]
    assert rows["plugins.error_classes"]["hooks"] == ["classify_error"]


def test_with_files_the_blocks_in_use_are_active(tmp_path: Path) -> None:
    ran = narrows("plugins", write_config(tmp_path, ECHO), "--json")
    active = {row["path"]: row for row in ran.json() if row["status"] == "active"}
    available = {row["kind"] for row in ran.json() if row["status"] == "available"}
    assert ran.code == 0
    assert {path: (row["name"], row["kind"]) for path, row in active.items()} == {
        "constraints.residency": ("residency", "constraints.attribute_match"),
        "constraints.capability": ("capability", "constraints.capability"),
        "constraints.context_window": ("context_window", "constraints.context_window"),
        "providers.echo": ("echo", "providers.echo"),
        "routes.chat.ordered": ("ordered", "rankers.ordered"),
        "routes.us-only.ordered": ("ordered", "rankers.ordered"),
        "plugins.error_classes": ("error_classes", "plugins.error_classes"),
    }
    assert "constraints.attribute_match" not in available
    assert "constraints.cost_ceiling" in available


def test_the_table_has_a_line_for_each(tmp_path: Path) -> None:
    ran = narrows("plugins", write_config(tmp_path, ECHO))
    assert (ran.code, ran.stderr) == (0, "")
    row = next(line.split() for line in ran.stdout.splitlines() if "constraints.residency" in line)
    assert row == [
        "constraints.residency", "constraints.attribute_match", "narrows", version("narrows"), "narrow,", "check", "active",
    ]  # fmt: skip


def test_a_file_that_does_not_load(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO.replace('kind = "echo"', 'kind = "ecko"'))
    ran = narrows("plugins", file)
    assert (ran.code, ran.stdout) == (2, "")
    assert "[unknown_kind]" in ran.stderr
    ran = narrows("plugins", file, "--json")
    assert ran.code == 2
    assert [problem["code"] for problem in ran.json()["problems"]] == ["unknown_kind"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Adds kinds to those that are installed."""
    before = tuple(registry._installed())

    def add(*kinds: Kind) -> None:
        monkeypatch.setattr(registry, "_installed", lambda: (*before, *kinds))

    return add


def kind(name: str, distribution: str, target: str) -> Kind:
    return Kind(name, distribution, "1.0", EntryPoint(name, target, "narrows"))


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module_here:Rule", "cannot be imported"),
        ("json:loads", "is no Constraint"),
    ],
)
def test_a_broken_kind_is_named_and_the_others_are_listed(
    installed: Callable[..., None], target: str, says: str
) -> None:
    installed(kind("constraints.hours", "acme-narrows", target))
    ran = narrows("plugins")
    assert ran.code == 2
    assert "constraints.cost_ceiling" in ran.stdout
    assert "constraints.hours" not in ran.stdout
    assert "kind 'constraints.hours' of distribution 'acme-narrows'" in ran.stderr
    assert says in ran.stderr
    document = narrows("plugins", "--json").json()
    assert [problem["code"] for problem in document["problems"]] == ["bad_plugin"]


def test_a_kind_that_two_distributions_claim(installed: Callable[..., None]) -> None:
    installed(kind("constraints.cost_ceiling", "acme-narrows", "json:loads"))
    ran = narrows("plugins")
    assert (ran.code, ran.stdout) == (2, "")
    assert "two distributions claim kind 'constraints.cost_ceiling': 'narrows' and 'acme-narrows'" in ran.stderr
