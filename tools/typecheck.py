"""`tox -e types`: mypy --strict over the project, then over each other distribution in a run of its own.

One run for all is not possible: two distributions may both have a module `tests.test_kind`. One run each is also what
their authors see, who have our installed wheel and not this repository.

Run: `python -m tools.typecheck`. Exit 0 when every run is clean, else 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def distributions(root: Path = ROOT) -> tuple[Path, ...]:
    """The folders of the distributions beside the main one: contrib/* and, for tests, tests/dist/*."""
    found = [*root.glob("contrib/*/pyproject.toml"), *root.glob("tests/dist/*/pyproject.toml")]
    return tuple(sorted(file.parent for file in found))


def main() -> int:
    """Run them all, even after one failed: a reader wants every finding at once."""
    results = [_run(ROOT, [path for path in _main_paths() if (ROOT / path).exists()], {})]
    results += [_run(folder, list(_sources(folder)), {"MYPYPATH": "src"}) for folder in distributions()]
    return 1 if any(results) else 0


def _main_paths() -> list[str]:
    """`files` of the configuration. mypy itself refuses to start when one of them does not exist yet."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    paths: list[str] = settings["tool"]["mypy"]["files"]
    return paths


def _sources(folder: Path) -> Iterator[str]:
    return (name for name in ("src", "tests") if (folder / name).is_dir())


def _run(folder: Path, paths: list[str], environment: dict[str, str]) -> int:
    where = folder.relative_to(ROOT).as_posix()
    print(f"mypy --strict in {where}: {' '.join(paths)}", flush=True)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", *paths]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
