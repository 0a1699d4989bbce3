"""Where each key of a TOML text stands: its path -> its line. `tomllib` reads values and keeps no positions.

The text must be one that `tomllib` has accepted; of that grammar only what moves the reading position matters here.
A path holds table names, keys and the places of list elements: ("routes", "chat", "targets", 1).
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t]*+")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_STRINGS = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'  # content may end with one or two quotes of its own
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]++")


def places(text: str) -> dict[Path, int]:
    """The line, from 1, where each table, key and list element is first written; tables that are only implied by a
    longer name stand where that name does."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.counted, self.line = 0, 1
        self.found: dict[Path, int] = {}
        self.lists: dict[Path, int] = {}  # arrays of tables: how many elements there are

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self.more():
            if self.text.startswith("[[", self.at):
                table = self.header(2, appends=True)
            elif self.text[self.at] == "[":
                table = self.header(1, appends=False)
            else:
                self.pair(table)
        return self.found

    # ---- the parts of the grammar ----------------------------------------------------------------------------------

    def header(self, brackets: int, *, appends: bool) -> Path:
        line = self.here()
        self.at += brackets
        path: Path = ()
        *outer, last = self.key()
        for name in outer:
            path = self.inside((*path, name))
        path = (*path, last)
        if appends:
            self.lists[path] = self.lists.get(path, 0) + 1
            self.note(path, line)
        path = self.inside(path)
        self.note(path, line)
        self.at += brackets
        return path

    def inside(self, path: Path) -> Path:
        """A table's path; of an array of tables its latest element."""
        return (*path, self.lists[path] - 1) if path in self.lists else path

    def pair(self, table: Path) -> None:
        line = self.here()
        path = (*table, *self.key())
        self.note(path, line)
        self.at += 1  # "="
        self.skip(_SPACE)
        self.value(path)

    def key(self) -> list[str]:
        """A dotted key; ends before "=" or "]"."""
        names = []
        while True:
            self.skip(_SPACE)
            names.append(self.name())
            self.skip(_SPACE)
            if self.text[self.at] != ".":
                return names
            self.at += 1

    def name(self) -> str:
        quoted = self.text[self.at] in "\"'"
        written = self.take(_STRINGS if quoted else _BARE)
        if not quoted:
            return written
        if "\\" not in written:
            return written[1:-1]
        (name,) = tomllib.loads(f"{written} = 0")
        return name

    def value(self, path: Path) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.take(_STRINGS)
        elif first == "[":
            self.at += 1
            index = 0
            while self.more() and self.text[self.at] != "]":
                self.note((*path, index), self.here())
                self.value((*path, index))
                self.comma()
                index += 1
            self.at += 1
        elif first == "{":
            self.at += 1
            while self.more() and self.text[self.at] != "}":
                self.pair(path)
                self.comma()
            self.at += 1
        else:
            self.take(_SCALAR)

    # ---- the reading position --------------------------------------------------------------------------------------

    def comma(self) -> None:
        if self.more() and self.text[self.at] == ",":
            self.at += 1

    def more(self) -> bool:
        """Skip space, line ends and comments. Is something left?"""
        self.skip(_BETWEEN)
        return self.at < len(self.text)

    def skip(self, what: re.Pattern[str]) -> None:
        match = what.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def take(self, what: re.Pattern[str]) -> str:
        match = what.match(self.text, self.at)
        if match is None:
            raise ValueError(f"line {self.here()} is not TOML that tomllib accepted")
        self.at = match.end()
        return match.group()

    def here(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def note(self, path: Path, line: int) -> None:
        while path and path not in self.found:
            self.found[path] = line
            path = path[:-1]
