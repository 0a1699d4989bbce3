"""The configuration while it is checked: its data, where each key was written, and what has been found wrong so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from narrows.config import secrecy
from narrows.config.places import Path
from narrows.errors import Problem


class Place(NamedTuple):
    """A line, from 1, in a file as its name was given."""

    file: str
    line: int


def dotted(path: Path) -> str:
    """A path as people read it: "targets.us.region"."""
    return ".".join(str(part) for part in path)


@dataclass(slots=True)
class Tree:
    """The merged files. `spelt` remembers misspelt keys that were repaired to go on checking: repaired path -> the path
    in the file. `aside` holds what was taken out of `data` on purpose: options of rankers, parts not built yet."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, Place] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    spelt: dict[Path, Path] = field(default_factory=dict)
    aside: dict[Path, Any] = field(default_factory=dict)

    def table(self, *path: str) -> Mapping[str, Any]:
        """The table of that path; empty where there is none, or where something else stands there."""
        found: Any = self.data
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def tables(self, group: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The named tables of a group, in the order of the files: ("us", {…}) of `[targets.us]`."""
        return ((name, table) for name, table in self.table(group).items() if isinstance(table, dict))

    def written(self, path: Path) -> Path:
        """The path as it stands in the file, misspelt or not."""
        for end in range(len(path), 0, -1) if self.spelt else ():
            if path[:end] in self.spelt:
                return (*self.spelt[path[:end]], *path[end:])
        return path

    def place(self, path: Path) -> Place | None:
        """Where a path was written, or its nearest ancestor."""
        path = self.written(path)
        while path:
            if path in self.places:
                return self.places[path]
            path = path[:-1]
        return Place(self.files[0], 1) if self.files else None


_SHORTEST_HIDDEN = 8
"""A shorter secret is not looked for in texts: it would be found in every other word. Its path is silent anyway."""


class Report:
    """Collects problems, each once and at its place. What looks like a secret never gets into one."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.partial = False  # a file could not be read: what refers to its content cannot be judged
        self._found: list[Problem] = []
        self._secrets: set[str] = set()
        self._silent: set[Path] = set()

    def add(
        self,
        code: str,
        path: Path,
        message: str,
        *,
        remedy: str,
        suggestion: str | None = None,
        severity: Literal["problem", "warning"] = "problem",
        at: Path | None = None,
        place: Place | None = None,
    ) -> None:
        """Add one. `at`: whose line to show, where that is not the path's; `place`: the line itself."""
        written = self.tree.written(path)
        if any(written[:end] in self._silent for end in range(1, len(written) + 1)):
            return
        message = message if message.endswith((".", "…")) else f"{message}."
        while len(written) > 1 and isinstance(written[-1], int):
            written = written[:-1]  # a path names keys; the line is the element's own
        file, line = place or self.tree.place(at or path) or (None, None)
        self.append(Problem(code, message, dotted(written), file, line, suggestion, remedy, severity))

    def append(self, problem: Problem) -> None:
        """Add one that has its place already."""
        self._found.append(problem)

    def secret(self, path: Path, text: str, message: str, remedy: str) -> None:
        """Add a plaintext key: `text` is hidden in every problem, and nothing else is said about that path."""
        if len(text) >= _SHORTEST_HIDDEN:
            self._secrets.add(text)
        self.add("plaintext_key", path, message, remedy=remedy)
        self.silence(path)

    def silence(self, path: Path) -> None:
        """Nothing more is said about that path and what is below it: one problem there is enough."""
        self._silent.add(self.tree.written(path))

    def problems(self, severity: Literal["problem", "warning"] = "problem") -> tuple[Problem, ...]:
        """What was found, in the order of the files and their lines."""
        order = {file: place for place, file in enumerate(self.tree.files)}
        hidden = sorted(self._secrets, key=len, reverse=True)
        found = dict.fromkeys(
            secrecy.censored(problem, hidden) for problem in self._found if problem.severity == severity
        )
        return tuple(sorted(found, key=lambda one: (order.get(one.file or "", -1), one.line or 0)))
