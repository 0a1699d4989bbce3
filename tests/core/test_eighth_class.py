"""An eighth failure class cannot ship by accident: the type check refuses it until its failover is decided.

The real enum is edited in a copy of the engine and the real type check runs on the copy, before and after.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"
SEVENTH = '    INVALID_REQUEST = "invalid_request"\n'
EIGHTH = SEVENTH + '    EIGHTH = "eighth"\n'


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's sources, with a cache of their own so that the second check is a quick one."""
    root = tmp_path_factory.mktemp("eighth")
    shutil.copytree(CORE, root / "core", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def type_check(root: Path) -> subprocess.CompletedProcess[str]:
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--explicit-package-bases",
        "--config-file=",
        "--cache-dir=.cache",
    )
    return subprocess.run(
        (*command, "core/narrows/failover.py"),
        cwd=root,
        env={"MYPYPATH": "core"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_the_table_is_complete_and_an_eighth_class_is_refused(copy: Path) -> None:
    types = copy / "core" / "narrows" / "types.py"
    source = types.read_text(encoding="utf-8")
    assert source.count(SEVENTH) == 1

    control = type_check(copy)
    assert "failover.py" not in control.stdout, control.stdout
    assert control.returncode == 0, control.stdout + control.stderr

    types.write_text(source.replace(SEVENTH, EIGHTH), encoding="utf-8")
    refused = type_check(copy)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    complaints = [line for line in refused.stdout.splitlines() if "failover.py" in line and "error:" in line]
    assert len(complaints) == 1, refused.stdout
    assert 'Argument 1 to "assert_never"' in complaints[0]
    assert "EIGHTH" in complaints[0]
