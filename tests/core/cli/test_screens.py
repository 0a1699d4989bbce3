"""The pictures in docs/images are what the commands print, and a change of one word would be noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import screens


@pytest.mark.parametrize("name", screens.SCREENS)
def test_the_picture_is_what_is_printed(name: str) -> None:
    assert screens.stale([name]) == [], "write it again: python -m tools.screens"


def test_another_word_is_stale_and_another_time_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = (screens.IMAGES / "explain.svg").read_text("utf-8")
    monkeypatch.setattr(screens, "IMAGES", tmp_path)
    monkeypatch.setattr(screens, "rendered", lambda name: before)
    assert screens.stale(["explain"]) == ["explain"], "it is not there"
    (tmp_path / "explain.svg").write_text(before, "utf-8")
    assert screens.stale(["explain"]) == []
    (tmp_path / "explain.svg").write_text(before.replace("residency", "residence"), "utf-8")
    assert screens.stale(["explain"]) == ["explain"]
    assert screens.main(["--check"]) == 1


def test_what_differs_from_run_to_run_is_masked() -> None:
    first = "2026-12-01 09:08:07.123 took 12 ms on http://127.0.0.1:4711, policy " + "ab" * 32
    other = "2026-12-02 19:18:17.456 took 47 ms on http://127.0.0.1:815, policy " + "cd" * 32
    assert screens.masked(first) == screens.masked(other)


def test_a_picture_fetches_nothing_when_it_is_shown() -> None:
    for name in screens.SCREENS:
        svg = (screens.IMAGES / f"{name}.svg").read_text("utf-8")
        assert not re.search(r"url\((?!#)|@font-face|@import|<image|<script|href", svg)
