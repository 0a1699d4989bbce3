"""The table's keys are a guard that is really compiled: the real types command runs on a copy with a newcomer in it.

The suite that this one is modelled on had its guard in a file that its type check did not read. For two releases a third
of the kinds were asserted nowhere, and everything was green.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("core", "plugins", "tests/equivalence", "tests/support", "tools", "pyproject.toml")
LAST_KIND = '    ECHO = "echo"\n'
LAST_GUARANTEE = '    EXPLAIN = "explain"\n'


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """As much of the repository as the types command reads for this table, with a cache of its own."""
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return tmp_path


def type_check(root: Path) -> tuple[int, list[str], str]:
    """What `tox -e types` runs: its exit code, its errors, and all that it said."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MYPY", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-m", "tools.typecheck"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if " error: " in line], done.stdout + done.stderr


def add(file: Path, last: str, newcomer: str) -> None:
    source = file.read_text("utf-8")
    assert source.count(last) == 1, f"{file.name} does not end its enum with {last!r}"
    file.write_text(source.replace(last, f"{last}    {newcomer}\n"), "utf-8")


def test_a_kind_without_a_row_and_a_guarantee_without_a_check_do_not_pass_the_type_check(copy: Path) -> None:
    code, errors, output = type_check(copy)
    assert (code, errors) == (0, []), output

    add(copy / "tests/equivalence/kinds.py", LAST_KIND, 'NEW_KIND = "new_kind"')
    add(copy / "tests/equivalence/guarantees.py", LAST_GUARANTEE, 'NEW_GUARANTEE = "new_guarantee"')
    code, errors, output = type_check(copy)
    assert code == 1, output
    assert len(errors) == 2, output
    for error, newcomer in zip(errors, ("Kind.NEW_KIND", "Guarantee.NEW_GUARANTEE"), strict=True):
        assert error.startswith("tests/equivalence/table.py")
        assert 'Argument 1 to "assert_never"' in error
        assert newcomer in error
