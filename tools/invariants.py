"""docs/invariants.md as data: what must hold, the test that guards it, and the one-line patch that breaks it.

The document is written for people; this module only finds the entries. `tools/mutants.py` runs them, and
tests/architecture checks on every run that each patch still applies and each test still exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DOCUMENT = "docs/invariants.md"

HEADING = re.compile(r"^### +(INV-[0-9A-Z-]*[0-9A-Z])(?: +(?P<title>.+))?$")


class Unreadable(Exception):
    """docs/invariants.md does not follow its format. The message names the line."""


@dataclass(frozen=True, slots=True)
class Patch:
    """`old` is one whole line of `file`, without its indentation; `new` stands in its place, indented the same."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """One entry. `tests` are pytest node ids; `line` is where the entry begins in the document."""

    id: str
    title: str
    sentence: str
    tests: tuple[str, ...]
    patch: Patch
    line: int


def parse(text: str) -> tuple[Invariant, ...]:
    """Every entry of the document, in order. Raises `Unreadable` for an entry that lacks a part or repeats an id.

    An entry is a heading `### INV-… title`, a paragraph (the sentence), a line `Test:` with node ids in backticks (more
    may follow on the next lines), and a fenced `patch` block. Entries inside other fences are examples and not read.
    """
    entries: list[tuple[int, str, str, list[tuple[str, int, str]]]] = []
    for number, fence, line in _lines(text):
        heading = HEADING.match(line) if not fence else None
        if heading:
            entries.append((number, heading[1], heading["title"] or "", []))
        elif not fence and re.match(r"^#{1,3} +INV\b", line):
            raise Unreadable(f"{DOCUMENT}:{number}: write the heading as `### INV-name title`, not {line!r}")
        elif not fence and re.match(r"^#{1,3} ", line):
            entries.append((number, "", "", []))  # an ordinary section ends the entry above it
        elif entries:
            entries[-1][3].append((fence, number, line))
    found = tuple(_entry(number, ident, title, body) for number, ident, title, body in entries if ident)
    for index, invariant in enumerate(found):
        if invariant.id in {earlier.id for earlier in found[:index]}:
            raise Unreadable(f"{DOCUMENT}:{invariant.line}: {invariant.id} is used twice; give this one its own id")
    return found


def _lines(text: str) -> Iterable[tuple[int, str, str]]:
    """Each line with its number and the kind of fence it stands in ("" outside; the fence lines themselves left out)."""
    fence, ticks = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"^(`{3,})(\S*)", line)
        if mark and not ticks:
            ticks, fence = mark[1], mark[2] or "text"
        elif mark and mark[1] == ticks and not mark[2]:
            ticks, fence = "", ""
        else:
            yield number, fence, line


def _entry(number: int, ident: str, title: str, body: Sequence[tuple[str, int, str]]) -> Invariant:
    where = f"{DOCUMENT}:{number}: {ident}"
    prose = [line.strip() for fence, _, line in body if not fence]
    start = next((index for index, line in enumerate(prose) if re.match(r"^Tests?:", line)), None)
    if start is None:
        raise Unreadable(f"{where} has no `Test:` line; name the pytest node id that guards it, in backticks")
    stop = next((index for index in range(start, len(prose)) if not prose[index]), len(prose))
    tests = tuple(re.findall(r"`([^`]+)`", " ".join(prose[start:stop])))
    if not tests or not all("::" in test for test in tests):
        raise Unreadable(f"{where}: `Test:` needs pytest node ids in backticks, `tests/file.py::test_name`")
    sentence = " ".join(line for line in prose[:start] if line)
    if not sentence:
        raise Unreadable(f"{where} does not say what must hold; write one sentence under its heading")
    return Invariant(ident, title, sentence, tests, _patch(where, body), number)


def _patch(where: str, body: Sequence[tuple[str, int, str]]) -> Patch:
    lines = [line for fence, _, line in body if fence == "patch" and line.strip()]
    files = [line.removeprefix("file:").strip() for line in lines if line.startswith("file:")]
    old = [line[1:].strip() for line in lines if line.startswith("-")]
    new = [line[1:].strip() for line in lines if line.startswith("+")]
    if not (len(files) == len(old) == len(new) == 1 and len(lines) == 3 and old[0]):
        raise Unreadable(f"{where} needs one fenced `patch` block: a `file:` line, one `-` line and one `+` line")
    if old == new:
        raise Unreadable(f"{where}: the patch changes nothing")
    return Patch(files[0], old[0], new[0])


def apply(patch: Patch, source: str) -> str:
    """The patched text. Raises ValueError unless `old` is exactly one line of `source` (indentation aside)."""
    lines = source.splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.strip() == patch.old]
    if len(places) != 1:
        count = "no line" if not places else f"{len(places)} lines"
        raise ValueError(f"{count} of {patch.file} read {patch.old!r}; the patch needs exactly one")
    line = lines[places[0]]
    indent = line[: len(line) - len(line.lstrip())]
    lines[places[0]] = f"{indent}{patch.new}\n" if patch.new else "\n"
    return "".join(lines)
