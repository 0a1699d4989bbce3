"""What is asked here was installed from wheels, and the command line says so."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
PACKAGES = {
    "narrows": "narrows",
    "narrows_plugins": "narrows",
    "narrows_example": "narrows-example",
    "narrows_probe": "narrows-probe",
}
ACTIVE = {
    "authenticators.probe_header": ("header", "narrows-probe", {"authenticate"}),
    "constraints.business_hours": ("duty", "narrows-example", {"check", "narrow"}),
    "plugins.example_budget": ("cap", "narrows-example", {"budget"}),
    "plugins.probe_objector": ("objector", "narrows-probe", {"authorize"}),
    "plugins.probe_verdicts": ("verdicts", "narrows-probe", {"classify_error"}),
    "providers.probe_local": ("inside", "narrows-probe", {"dispatch"}),
    "providers.probe_marked": ("marked", "narrows-probe", {"dispatch"}),
    "rankers.probe_reversed": ("probe_reversed", "narrows-probe", {"rank"}),
    "sinks.probe_file": ("file", "narrows-probe", {"record", "start", "stop"}),
}
"""Each kind that the configuration names: the block's name, the distribution, its hooks."""


@pytest.mark.parametrize("package", PACKAGES)
def test_it_comes_from_a_wheel(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_relative_to(sys.prefix)
    assert "site-packages" in Path(spec.origin).parts
    source = json.loads(distribution(PACKAGES[package]).read_text("direct_url.json") or "{}")
    assert "archive_info" in source, "an editable install, or one of a folder, proves nothing about the wheel"
    assert Path(spec.origin).with_name("py.typed").is_file()


def listed(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """What `plugins --json` printed, by kind."""
    assert (done.returncode, done.stderr) == (0, "")
    return {row["kind"]: row for row in json.loads(done.stdout)}


def test_the_kinds_that_a_file_names_are_active(narrows: Run, config: Path) -> None:
    rows = listed(narrows("plugins", config, "--json"))
    found = {kind: (rows[kind]["name"], rows[kind]["distribution"], {*rows[kind]["hooks"]}) for kind in ACTIVE}
    assert found == ACTIVE
    for kind in ACTIVE:
        assert rows[kind]["version"] == distribution(rows[kind]["distribution"]).version
        assert (rows[kind]["status"], rows[kind]["api"]) == ("active", 1)
    assert (rows["rankers.ordered"]["status"], rows["providers.echo"]["status"]) == ("active", "available")


def test_without_a_file_every_kind_is_available(narrows: Run) -> None:
    rows = listed(narrows("plugins", "--json"))
    assert {rows[kind]["status"] for kind in ACTIVE} == {"available"}
    assert {rows[kind]["distribution"] for kind in ACTIVE} == {"narrows-example", "narrows-probe"}


def test_the_configuration_of_these_tests_is_a_good_one(narrows: Run, config: Path) -> None:
    done = narrows("check", config, "--json")
    found = [problem for problem in json.loads(done.stdout)["problems"] if problem["severity"] == "problem"]
    assert (done.returncode, found) == (0, [])
