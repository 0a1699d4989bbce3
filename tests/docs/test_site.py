"""`tox -e docs` builds the site strictly: what is planted here must fail, each for its own reason."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command of tox, in a copy of the documentation."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    return tmp_path


def test_the_site_builds_and_asks_nobody_elsewhere(copy: Path) -> None:
    done = build(copy)
    assert done.returncode == 0, done.stderr
    pages = list((copy / "site").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))  # and the search
    fetched = [page.name for page in pages if 'src="http' in page.read_text("utf-8")]
    assert not fetched


def test_each_broken_link_and_each_lost_page_is_said(copy: Path) -> None:
    planted = {
        "[gone](reference/gone.md)": "reference/gone.md",
        "[gone](reference/http.md#gone)": "does not contain an anchor '#gone'",
        "[gone](/reference/http.md)": "absolute link",
        "![gone](images/gone.svg)": "images/gone.svg",
    }
    index = copy / "docs" / "index.md"
    index.write_text("\n\n".join([index.read_text("utf-8"), *planted, ""]), "utf-8")
    (copy / "docs" / "how-to" / "lost.md").write_text("# Lost\n", "utf-8")
    done = build(copy)
    assert done.returncode != 0
    assert not [line for line, said in planted.items() if said not in done.stderr]
    assert "how-to/lost.md" in done.stderr
    assert f"Aborted with {len(planted) + 1} warnings" in done.stdout


def test_tox_builds_strictly() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    assert tox["testenv:docs"]["commands"].startswith("mkdocs build --strict ")
