"""The lint rules of pyproject.toml, asked about small files that break them one at a time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = "from __future__ import annotations\n\n"


def ruff(place: Path, file: str, source: str, head: str = HEAD) -> str:
    """What ruff, with the real settings, says about one file of that name."""
    shutil.copy(ROOT / "pyproject.toml", place)
    target = place / file
    target.parent.mkdir(parents=True)
    target.write_text(head + source, "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("file", "source", "rule"),
    [
        ("core/narrows/pipeline.py", 'print("x")\n', "T201"),
        ("plugins/narrows_plugins/narrow/licence.py", 'print("x")\n', "T201"),
        ("core/narrows/pipeline.py", "def f(x: int) -> None:\n    assert x\n", "S101"),
        ("tools/build.py", "def f(x: int) -> None:\n    assert x\n", "S101"),
        ("core/narrows/pipeline.py", "try:\n    f = 1\nexcept Exception:\n    f = 2\n", "BLE001"),
        ("tests/core/test_x.py", "import core.narrows.types\n\nX = core\n", "TID251"),
        ("contrib/x/tests/test_x.py", "from plugins.narrows_plugins import narrow\n\nX = narrow\n", "TID251"),
        ("core/narrows/pipeline.py", "from .types import Target\n\nX = Target\n", "TID252"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, file: str, source: str, rule: str) -> None:
    assert rule in ruff(tmp_path, file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("core/narrows/cli/explain.py", 'print("x")\n'),
        ("tests/core/test_x.py", "X = 1\n\n\ndef test_x() -> None:\n    assert X == 1\n"),
        ("contrib/x/tests/test_x.py", "X = 1\n\n\ndef test_x() -> None:\n    assert X == 1\n"),
        ("core/narrows/pipeline.py", "from narrows.types import Target\n\nX = Target\n"),
    ],
)
def test_what_is_allowed_stays_allowed(tmp_path: Path, file: str, source: str) -> None:
    assert "All checks passed" in ruff(tmp_path, file, source)


def test_a_module_without_the_future_import_is_found(tmp_path: Path) -> None:
    assert "I002" in ruff(tmp_path, "core/narrows/pipeline.py", "X = 1\n", head="")
