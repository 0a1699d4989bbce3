"""`tools/licences.py` against planted metadata: what it accepts, and everything that it must refuse."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from tools import licences
from tools.licences import ALLOWED, VAGUE, findings, installed, is_allowed, main


class Planted(Distribution):
    """A distribution of which only the metadata exists."""

    def __init__(self, name: str, *lines: str) -> None:
        self._text = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1", *lines, ""])

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(path)


def said(*lines: str, vague: Mapping[str, tuple[str, str]] | None = None) -> list[str]:
    """What is found of one distribution with these lines in its metadata."""
    return [finding.what for finding in findings({"planted": Planted("planted", *lines)}, vague or {})]


MIT = "Classifier: License :: OSI Approved :: MIT License"
BSD = "Classifier: License :: OSI Approved :: BSD License"


@pytest.mark.parametrize(
    "lines",
    [
        ("License-Expression: MIT",),
        ("License-Expression: Apache-2.0 AND (MIT OR GPL-3.0-only)",),
        ("License: BSD-3-Clause", BSD),
        (MIT,),
        ("License: the MIT licence", MIT),
    ],
)
def test_an_allowed_licence_passes(lines: tuple[str, ...]) -> None:
    assert said(*lines) == []


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (("License-Expression: GPL-3.0-only",), "GPL-3.0-only is not allowed"),
        (("License-Expression: MIT AND AGPL-3.0-or-later",), "is not allowed"),
        (("License-Expression: Apache-2.0 WITH LLVM-exception",), "is not allowed"),
        (("License-Expression: MIT AND",), "cannot be read"),
        (("License: GPL-2.0-only", MIT), "GPL-2.0-only is not allowed"),
        (("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",), "GPL-3.0-only is not"),
        ((), "names no licence"),
        (("License: BSD",), "names no licence"),
        (("License: Apache 2.0", BSD), "names no licence"),
        ((MIT, BSD), "names no licence"),
    ],
)
def test_anything_else_is_a_finding(lines: tuple[str, ...], what: str) -> None:
    (finding,) = said(*lines)
    assert what in finding


def test_a_row_for_vague_metadata_decides_and_must_be_needed() -> None:
    assert said("License: BSD", vague={"planted": ("BSD-3-Clause", "its LICENSE")}) == []
    assert "is not allowed" in said("License: GPLv3", vague={"planted": ("GPL-3.0-only", "its COPYING")})[0]
    (stale,) = said("License-Expression: MIT", vague={"planted": ("MIT", "once vague")})
    assert "take its row out" in stale
    (gone,) = said("License-Expression: MIT", vague={"elsewhere": ("MIT", "left long ago")})
    assert "not installed" in gone


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-2.0-only OR MIT", True),
        ("GPL-2.0-only AND MIT", False),
        ("MIT OR GPL-2.0-only AND GPL-3.0-only", True),
        ("(MIT OR GPL-2.0-only) AND GPL-3.0-only", False),
    ],
)
def test_or_is_a_choice_and_and_is_both(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) == allowed


@pytest.mark.parametrize("text", ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "©", "AND MIT"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|end"):
        is_allowed(text)


def test_the_walk_follows_extras_and_markers() -> None:
    world = {
        "root": Planted(
            "root", 'Requires-Dist: one[more]>=1 ; extra == "all"', 'Requires-Dist: no ; python_version < "3"'
        ),
        "one": Planted("one", 'Requires-Dist: Two_2 ; extra == "more"', "Requires-Dist: root"),
        "two-2": Planted("Two_2"),
    }

    def find(name: str) -> Distribution:
        if name not in world:
            raise PackageNotFoundError(name)
        return world[name]

    assert set(installed("root[all]", find)) == {"root", "one", "two-2"}
    assert set(installed("root", find)) == {"root"}
    with pytest.raises(PackageNotFoundError):
        installed("nobody", find)


def test_what_is_installed_here_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    count = len(installed())
    assert count > 30
    assert capsys.readouterr().out == f"licences: {count} of {count} are allowed\n"


def test_every_decision_has_a_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(ALLOWED.values())
    assert all(reason for _, reason in VAGUE.values())
    monkeypatch.setattr(licences, "ALLOWED", {})
    monkeypatch.setattr(licences.is_allowed, "__defaults__", ({},))
    assert main([]) == 1
    assert f"licences: 0 of {len(installed())} are allowed" in capsys.readouterr().out
