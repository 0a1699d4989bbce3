"""`tools/coverage_floor.py`: what it says at, below and above the floor; and the floor never sinks."""

from __future__ import annotations

import sys
import tomllib
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tools.coverage_floor import Measured, floors_of_history, judge, main, measured, read_floor

FILES = {"core/narrows/a.py": 3, "core/narrows/b.py": 0, "plugins/narrows_plugins/c.py": 7}


def test_the_floor_is_a_percentage() -> None:
    assert 0 < read_floor() <= 100


def test_the_floor_never_sinks() -> None:
    before = list(floors_of_history())
    if not before:
        pytest.skip("no history here")
    commit, highest = max(before, key=lambda found: found[1])
    assert read_floor() >= highest, f"it was {highest} in {commit}"


def test_below_the_floor_fails_and_names_the_files_that_miss_most() -> None:
    code, lines = judge(Measured(95.999, FILES), 96)
    assert code == 1
    assert "7 lines and branches not reached in plugins/narrows_plugins/c.py" in lines[0]
    assert "core/narrows/a.py" in lines[1]
    assert "95.99 % is below the floor of 96 %" in lines[2]
    assert len(lines) == 3


@pytest.mark.parametrize(("percent", "asked"), [(96.0, False), (97.0, False), (97.01, True), (100.0, True)])
def test_above_the_floor_passes_and_asks_to_raise_it(percent: float, asked: bool) -> None:
    code, lines = judge(Measured(percent, FILES), 96)
    assert code == 0
    assert any("raise the floor" in line for line in lines) == asked


def test_the_report_is_read() -> None:
    summary = {"missing_lines": 2, "missing_branches": 1}
    report = {"totals": {"percent_covered": 99.5}, "files": {"x.py": {"summary": summary}}}
    assert measured(report) == Measured(99.5, {"x.py": 3})


@pytest.mark.parametrize(("arguments", "tests_exit", "code"), [([], 1, 1), (["tests/core"], 0, 0)])
def test_failed_tests_and_a_part_of_the_tests_are_not_judged(
    arguments: list[str], tests_exit: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> object:
        commands.append(command)
        return type("Done", (), {"returncode": tests_exit})()

    monkeypatch.setattr("tools.coverage_floor.subprocess.run", run)
    assert main(arguments) == code
    assert commands == [[sys.executable, "-m", "coverage", "run", "-m", "pytest", *arguments]]


def test_one_environment_measures_and_the_others_need_no_coverage() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    assert not [line for line in groups["test"] if "coverage" in str(line)]
    tox = (ROOT / "tox.ini").read_text("utf-8")
    assert tox.count("tools.coverage_floor") == 1
