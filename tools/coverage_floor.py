"""`tox -e py311`: the tests under branch coverage of core and plugins, held against a floor that only rises.

One environment measures, because measuring slows the tests down; the others run them bare. What tests start as processes
of its own is not measured. The floor is the number in tools/coverage-floor.txt, in per cent of lines and branches. Below
it the run fails and names the files with most that no test reached. More than a point above, it asks to raise the floor.
tests/tools/test_coverage_floor.py sees to it that it never sinks.

Run: `python -m tools.coverage_floor [pytest arguments]` with `coverage` installed. With arguments only a part of the
tests runs, and nothing is judged. Exit code: pytest's, else 1 below the floor, else 0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.typecheck import ROOT

FLOOR: Final = ROOT / "tools" / "coverage-floor.txt"
MOST_NAMED: Final = 10
ROOM: Final = 1.0
"""Points above the floor before the run asks to raise it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """`percent` of lines and branches together. `missed`: file -> how many of them no test reached."""

    percent: float
    missed: Mapping[str, int]


def read_floor(path: Path = FLOOR) -> float:
    """The number. Raises ValueError where the file holds anything else."""
    return float(path.read_text("utf-8"))


def measured(report: Mapping[str, Any]) -> Measured:
    """What coverage's JSON report says."""
    missed = {
        name: found["summary"]["missing_lines"] + found["summary"]["missing_branches"]
        for name, found in report["files"].items()
    }
    return Measured(report["totals"]["percent_covered"], missed)


def judge(found: Measured, floor: float) -> tuple[int, list[str]]:
    """The exit code and what to say. Cut, not rounded, to two digits: 95.999 is below 96."""
    percent = int(found.percent * 100) / 100
    if percent < floor:
        worst = sorted(found.missed.items(), key=lambda file: (-file[1], file[0]))[:MOST_NAMED]
        return 1, [
            *(f"coverage: {count} lines and branches not reached in {name}" for name, count in worst if count),
            f"coverage: {percent:.2f} % is below the floor of {floor:g} %; test what is new, the floor does not sink",
        ]
    lines = [f"coverage: {percent:.2f} %, the floor is {floor:g} %"]
    if percent > floor + ROOM:
        lines.append(f"coverage: raise the floor: write {int(percent)} into {FLOOR.relative_to(ROOT).as_posix()}")
    return 0, lines


def main(arguments: Sequence[str]) -> int:
    """Run the tests and judge."""
    with tempfile.TemporaryDirectory(prefix="narrows-coverage-") as place:
        environment = {**os.environ, "COVERAGE_FILE": str(Path(place) / "data")}

        def coverage(*words: str) -> int:
            command = [sys.executable, "-m", "coverage", *words]
            return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

        failed = coverage("run", "-m", "pytest", *arguments)
        if failed or arguments:
            return failed
        report = Path(place) / "report.json"
        # `combine` is what maps the installed wheel's files to those of the tree; see [tool.coverage.paths].
        for step in (("combine", "-q"), ("json", "-q", "-o", str(report))):
            failed = coverage(*step)
            if failed:
                return failed
        code, lines = judge(measured(json.loads(report.read_text("utf-8"))), read_floor())
    print(*lines, sep="\n", flush=True)
    return code


def floors_of_history(path: Path = FLOOR) -> Iterator[tuple[str, float]]:
    """Every floor that was committed, with its commit, newest first. Nothing where this is no clone."""
    listed = _git("log", "--format=%H", "--", path.relative_to(ROOT).as_posix())
    for commit in (listed or "").split():
        text = _git("show", f"{commit}:{path.relative_to(ROOT).as_posix()}")
        if text is not None:
            yield commit, float(text)


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
