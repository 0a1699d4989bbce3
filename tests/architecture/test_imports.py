"""The import contracts of pyproject.toml, asked about small trees that break them one at a time.

`tox -e lint` asks the same contracts about the real source. Here we make sure that they would say no.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOUND = {
    "core/narrows/__init__.py": "from narrows.types import Target",
    "core/narrows/types.py": "Target = int",
    "core/narrows/calls.py": "import pluggy, anyio",
    "core/narrows/pipeline.py": "from narrows.calls import pluggy\nfrom narrows.upstream import client",
    "core/narrows/upstream/__init__.py": "",
    "core/narrows/upstream/client.py": "import httpx",
    "core/narrows/telemetry/__init__.py": "import prometheus_client\nfrom opentelemetry import trace",
    "core/narrows/server/__init__.py": "",
    "core/narrows/server/app.py": "from starlette.routing import Route\nfrom narrows.pipeline import client",
    "core/narrows/server/transport.py": "import httpx",
    "core/narrows/cli/__init__.py": "import typer, rich, uvicorn",
    "plugins/narrows_plugins/__init__.py": "",
    "plugins/narrows_plugins/narrow/__init__.py": "",
    "plugins/narrows_plugins/narrow/licence.py": "from narrows import Target",
    "plugins/narrows_plugins/record/__init__.py": "",
    "plugins/narrows_plugins/record/sql.py": "import sqlalchemy",
}
"""A tree in which every library is imported where it may be, so that a finding is never about the library being absent."""


def lint_imports(place: Path, changes: Mapping[str, str]) -> tuple[int, str]:
    """Ask the real contracts about the sound tree with these files changed or added: exit code and output."""
    shutil.copy(ROOT / "pyproject.toml", place)
    for name, source in {**SOUND, **changes}.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source + "\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["core", "plugins"])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_sound_tree_passes(tmp_path: Path) -> None:
    code, said = lint_imports(tmp_path, {})
    assert code == 0, said
    assert "0 broken" in said


def test_a_module_without_a_layer_is_found(tmp_path: Path) -> None:
    code, said = lint_imports(tmp_path, {"core/narrows/shortcuts.py": ""})
    assert code == 1, said
    assert "not listed as layers" in said
    assert "narrows.shortcuts" in said


@pytest.mark.parametrize(
    ("file", "source", "link"),
    [
        pytest.param(file, source, link, id=name)
        for name, file, source, link in [
            ("the engine imports a plugin", "core/narrows/pipeline.py", "import narrows_plugins.narrow.licence",
             "narrows is not allowed to import narrows_plugins"),
            ("an import points upwards", "core/narrows/types.py", "import narrows.pipeline",
             "narrows.types -> narrows.pipeline"),
            ("neighbours import each other", "core/narrows/calls.py", "import narrows.upstream.client",
             "narrows.calls -> narrows.upstream.client"),
            ("a plugin imports the inside of narrows", "plugins/narrows_plugins/narrow/licence.py",
             "from narrows.types import Target", "narrows_plugins.narrow.licence -> narrows.types"),
            ("a plugin imports a module as a name", "plugins/narrows_plugins/narrow/licence.py",
             "from narrows import calls", "narrows_plugins.narrow.licence -> narrows.calls"),
            ("httpx beside the seam", "core/narrows/pipeline.py", "import httpx", "narrows.pipeline -> httpx"),
            ("httpx elsewhere in server", "core/narrows/server/app.py", "import httpx", "narrows.server.app -> httpx"),
            ("httpx in a plugin", "plugins/narrows_plugins/narrow/licence.py", "import httpx",
             "narrows_plugins.narrow.licence -> httpx"),
            ("a vendor SDK", "plugins/narrows_plugins/narrow/licence.py", "import openai",
             "narrows_plugins.narrow.licence -> openai"),
            ("one event loop only", "core/narrows/upstream/client.py", "import asyncio",
             "narrows.upstream.client -> asyncio"),
            ("tracing elsewhere", "core/narrows/pipeline.py", "from opentelemetry import trace",
             "narrows.pipeline -> opentelemetry"),
            ("metrics elsewhere", "core/narrows/server/app.py", "import prometheus_client",
             "narrows.server.app -> prometheus_client"),
            ("pluggy elsewhere", "core/narrows/pipeline.py", "import pluggy", "narrows.pipeline -> pluggy"),
            ("starlette elsewhere", "core/narrows/pipeline.py", "import starlette.requests",
             "narrows.pipeline -> starlette"),
            ("the terminal elsewhere", "core/narrows/pipeline.py", "import rich.console", "narrows.pipeline -> rich"),
            ("a database in the engine", "core/narrows/pipeline.py", "import sqlalchemy",
             "narrows.pipeline -> sqlalchemy"),
        ]
    ],
)  # fmt: skip
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, source: str, link: str) -> None:
    code, said = lint_imports(tmp_path, {file: source})
    assert code == 1, said
    assert link in said
