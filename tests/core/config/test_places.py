"""The scanner finds what tomllib finds, at the line where a person finds it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.config.places import Path, places

TRICKY = st.sampled_from(
    ["", "a", "x y", "#", "[x]", "]", "{", "},", '"', "'", '""', "'''", "\\", "=", ".", "a\nb", "é", "🙂", '"""']
)
SCALARS = st.one_of(TRICKY, st.booleans(), st.integers(-5, 5), st.floats(-1, 1), st.sampled_from([10**6, 1e100]))
KEYS = st.sampled_from(["a", "b-c", "d_1", "7", "e.f", "g h", "", 'q"q', "r'r", "s\\s", "é", "#", "[t]", "="])
LISTS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
TABLES = st.recursive(
    st.dictionaries(KEYS, LISTS, max_size=3),
    lambda inner: st.dictionaries(KEYS, st.one_of(LISTS, inner, st.lists(inner, min_size=1, max_size=3)), max_size=3),
    max_leaves=8,
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Writer:
    """Writes a document as TOML in a random style, and notes the line of each key and list element."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Path, int] = {}

    def either(self) -> bool:
        return self.draw(st.booleans())

    def note(self, path: Path) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def noise(self) -> None:
        """Space and comments where a line may begin."""
        self.text += self.draw(st.sampled_from(["", "", "\n", "  ", "\t", "# [not.a.table] = \"x\" '''\n", "\r\n"]))

    def key(self, name: str) -> str:
        if _BARE.fullmatch(name) and self.either():
            return name
        if "'" not in name and self.either():
            return f"'{name}'"
        return basic(name)

    def table(self, path: Path, table: Mapping[str, Any], header: list[str]) -> None:
        later: list[tuple[str, Any]] = []
        for name, value in table.items():
            if (isinstance(value, dict) or is_array(value)) and self.either():
                later.append((name, value))
            else:
                self.noise()
                self.pair(path, name, value)
                self.text += self.draw(st.sampled_from(["", " ", ' # ]} """ \''])) + "\n"
        for name, value in later:
            inner, dotted = (*path, name), [*header, self.key(name)]
            for place, row in enumerate(value if isinstance(value, list) else [value]):
                self.noise()
                at = (*inner, place) if isinstance(value, list) else inner
                self.note(at)
                self.lines.setdefault(inner, self.lines[at])
                space = self.draw(st.sampled_from(["", " "]))
                head = f"{space}{f'{space}.{space}'.join(dotted)}{space}"
                self.text += f"[[{head}]]\n" if isinstance(value, list) else f"[{head}]# x\n"
                self.table(at, row, dotted)

    def pair(self, path: Path, name: str, value: Any) -> None:
        self.note((*path, name))
        self.text += self.key(name)
        if isinstance(value, dict) and len(value) == 1 and self.either():  # a dotted key
            ((inner, deeper),) = value.items()
            self.text += self.draw(st.sampled_from([".", " . "]))
            self.pair((*path, name), inner, deeper)
            return
        self.text += self.draw(st.sampled_from(["=", " = "]))
        self.value((*path, name), value)

    def value(self, path: Path, value: Any) -> None:
        if isinstance(value, dict):
            self.text += "{ "
            for place, (name, inner) in enumerate(value.items()):
                self.text += ", " if place else ""
                self.pair(path, name, inner)
            self.text += " }"
        elif isinstance(value, list):
            self.text += "["
            for place, inner in enumerate(value):
                self.text += self.draw(st.sampled_from(["", " ", "\n", "\n  # ]\n", "\r\n"]))
                self.note((*path, place))
                self.value((*path, place), inner)
                self.text += "," if place < len(value) - 1 else self.draw(st.sampled_from(["", ",", "\n", " ,\n"]))
            self.text += "]"
        elif isinstance(value, str):
            self.text += self.string(value)
        else:
            self.text += json.dumps(value)

    def string(self, value: str) -> str:
        styles = [
            basic(value),
            f'"""{value.replace(chr(92), chr(92) * 2).replace(chr(34) * 3, chr(92) + chr(34) * 3)}"""',
        ]
        if "'" not in value:
            styles.append(f"'''{value}'''")
        if "'" not in value and "\n" not in value:
            styles.append(f"'{value}'")
        chosen = self.draw(st.sampled_from(styles))
        try:
            same = tomllib.loads(f"x = {chosen}")["x"] == value
        except tomllib.TOMLDecodeError:  # three quotes at the end of a multi-line string
            same = False
        return chosen if same else styles[0]


def basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def is_array(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every path of a document, tables and list elements included."""
    items: Iterator[tuple[str | int, object]]
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for part, inner in items:
        yield (*path, part)
        yield from paths(inner, (*path, part))


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, dict[str, Any], dict[Path, int]]:
    """A TOML text, what it says, and the line of each path."""
    document = draw(TABLES)
    writer = Writer(draw)
    writer.table((), document, [])
    return writer.text, document, writer.lines


@given(texts())
def test_it_finds_every_path_of_tomllib_and_its_line(written: tuple[str, dict[str, Any], dict[Path, int]]) -> None:
    text, document, lines = written
    assert tomllib.loads(text) == document, "the writer writes TOML"

    found = places(text)

    assert set(found) == set(paths(document))
    assert found == lines


LONG = '''# a comment with a [table] and a "quote
top = 1

[targets.eu]
region = "eu" # ] } """
"quoted.key" = 2
'literal key' = 3
dotted . inner . deep = 4
inline = { a = 1, b.c = 2, "d" = { e = [1, 2] } }
list = [
  "one", # "]"
  "two",
  [ 3,
    4 ],
]
text = """
[not.a.table]
key = 1 \\""" still
"""
literal = \'\'\'
# no comment
\'\'\'\'\'
when = 1979-05-27 07:32:00Z
after = 5

[[rows]]
a = 1
[rows.sub]
b = 2
[[rows.sub.deep]]
c = 3
[[rows]]
a = 4
[rows.sub]
b = 5
[ "x" . 'y'.z ]
u = "\\u00e9"
"\\u00e9" = 6
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("targets",), 4),
        (("targets", "eu"), 4),
        (("targets", "eu", "region"), 5),
        (("targets", "eu", "quoted.key"), 6),
        (("targets", "eu", "literal key"), 7),
        (("targets", "eu", "dotted", "inner", "deep"), 8),
        (("targets", "eu", "inline", "b", "c"), 9),
        (("targets", "eu", "inline", "d", "e", 1), 9),
        (("targets", "eu", "list"), 10),
        (("targets", "eu", "list", 1), 12),
        (("targets", "eu", "list", 2), 13),
        (("targets", "eu", "list", 2, 1), 14),
        (("targets", "eu", "text"), 16),
        (("targets", "eu", "literal"), 20),
        (("targets", "eu", "when"), 23),
        (("targets", "eu", "after"), 24),
        (("rows", 0, "a"), 27),
        (("rows", 0, "sub", "b"), 29),
        (("rows", 0, "sub", "deep", 0, "c"), 31),
        (("rows", 1), 32),
        (("rows", 1, "a"), 33),
        (("rows", 1, "sub", "b"), 35),
        (("x", "y", "z"), 36),
        (("x", "y", "z", "é"), 38),
    ],
)
def test_each_form_of_key_has_its_line(path: Path, line: int) -> None:
    assert places(LONG)[path] == line


def test_an_example_of_every_form_is_read_whole() -> None:
    assert set(places(LONG)) == set(paths(tomllib.loads(LONG)))


def test_carriage_returns_are_no_lines_of_their_own() -> None:
    assert places("a = 1\r\n\r\nb = '''\r\n'''\r\nc = 2\r\n") == {("a",): 1, ("b",): 3, ("c",): 5}


def test_an_empty_text_has_no_place() -> None:
    assert places("") == places("\n# nothing\n") == {}
