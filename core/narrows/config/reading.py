"""Reads the files and puts them together: a later file may add, never change or loosen what an earlier one declared.

So security owns one file and the platform another. Every file is read before anything is refused. Source: DESIGN 11.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from narrows.config.places import Path, places
from narrows.config.secrecy import HIDDEN, is_secret
from narrows.config.tree import Place, Report, Tree, dotted
from narrows.errors import Problem

DEEPEST: Final = 24
"""Levels of tables and lists; more are a mistake, and would exhaust the stack of whoever reads them."""

CLOSED: Final = (
    "attributes",
    "constraints",
    "providers",
    "authenticators",
    "plugins",
    "sinks",
    "targets",
    "routes",
    "tenants",
    "keys",
    "operators",
)
"""Named tables of these groups cannot be added to by a later file: what a rule leaves out is part of the rule, and a
proxy that is added to a provider would change where its traffic goes."""

WIDER_MODES: Final = ("open", "host")
"""What a later file may not say of `[auth] mode` once an earlier one has keys: who has none would be let in."""

_INT_BITS = 63
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_QUOTED = re.compile(r"\(.*\)|'.*'|\".*\"")


class Source(NamedTuple):
    """One file, parsed."""

    file: str
    data: dict[str, Any]
    places: dict[Path, int]


def read_files(paths: Sequence[str | FilePath], report: Report) -> None:
    """Read and merge these files into the report's tree."""
    tree = report.tree
    tree.files = tuple(dict.fromkeys(str(path) for path in paths))
    if len(tree.files) < len(paths):
        report.add("contradiction", (), "a file is given twice", remedy="Give each file once.")
    for file in tree.files:
        text = _text(file, report)
        source = None if text is None else parse(text, file, report)
        if source is None:
            report.partial = True
        else:
            merge(source, report)


def parse(text: str, file: str, report: Report) -> Source | None:
    """One file's data and places, or None where it is not TOML."""
    try:
        data = tomllib.loads(text)
        found = places(text)
    except RecursionError:
        _refuse(report, "not_toml", file, 1, "lists and tables are nested too deeply", "Write it flatter.")
        return None
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        message, line = _syntax(str(error), text)
        _refuse(report, "not_toml", file, line, f"this is not TOML: {message}",
                "Correct that line; texts stand in quotes, tables in [brackets].")  # fmt: skip
        return None
    if not data:
        _refuse(report, "empty_config", file, 1, "the file says nothing",
                "Write at least a provider, a target and a route, or leave the file out.")  # fmt: skip
        return None
    deepest = max(found, key=len)
    if len(deepest) > DEEPEST:
        _refuse(report, "not_toml", file, found[deepest], f"more than {DEEPEST} tables and lists inside each other",
                "Write it flatter.")  # fmt: skip
        return None
    return Source(file, data, found)


def merge(source: Source, report: Report) -> None:
    """Add one file to the tree. What it repeats stays as it was, and is a problem that names both places."""
    tree = report.tree
    shift: dict[Path, int] = {}
    _merge(tree.data, source.data, (), source, report, shift)
    for path, line in source.places.items():
        for array, length in shift.items():
            if path[: len(array)] == array and len(path) > len(array):
                path = (*array, int(path[len(array)]) + length, *path[len(array) + 1 :])
        tree.places.setdefault(path, Place(source.file, line))


def odd_values(tree: Tree, report: Report) -> None:
    """Refuse what TOML has and no setting takes: dates, infinite and huge numbers. They are taken out, to go on checking."""
    for table, key, value, path in list(_leaves(tree.data, ())):
        if isinstance(value, datetime | date | time):
            message, remedy = "is a date or time; no setting takes one", "Write it as text, in quotes."
        elif isinstance(value, float) and not math.isfinite(value):
            message, remedy = "is no finite number", "Write a number, or leave the key out."
        elif isinstance(value, int) and value.bit_length() > _INT_BITS:
            message, remedy = "is too large a number", "Write one that 64 bits can hold."
        else:
            continue
        report.add("wrong_type", path, f"{path[-1]!r} {message}", remedy=remedy)
        report.silence(path)
        if isinstance(table, dict):
            del table[key]
        else:
            table[key] = ""  # keeps the places of the other elements


def _merge(
    old: dict[str, Any], new: dict[str, Any], path: Path, source: Source, report: Report, shift: dict[Path, int]
) -> None:
    first = report.tree.places.get(path)
    for key, value in new.items():
        here = (*path, key)
        if key not in old:
            # Of the files before this one: the places of this one's own keys are not noted yet.
            keys = next((at for at in report.tree.places if at[:1] == ("keys",)), None)
            if key == "auth" and not path and keys is not None and _wider(value):
                _redefined(report, ("auth", "mode"), source, report.tree.places[keys],
                           "opens what needs a key", "who has none would be let in")  # fmt: skip
            if first is not None and _closed(path):
                _redefined(report, here, source, first,
                           f"adds to [{dotted(path)}]", "what it leaves out there is part of it")  # fmt: skip
            old[key] = value
        elif isinstance(old[key], dict) and isinstance(value, dict):
            _merge(old[key], value, here, source, report, shift)
        elif _is_array(old[key]) and _is_array(value) and not _closed(path):
            shift[here] = len(old[key])
            old[key] += value
        else:
            _redefined(report, here, source, report.tree.places.get(here), f"declares {dotted(here)!r} again",
                       "the first declaration holds")  # fmt: skip


def _redefined(report: Report, path: Path, source: Source, first: Place | None, what: str, why: str) -> None:
    where = f" {first.file} line {first.line}" if first is not None else " an earlier file"
    report.add(
        "policy_redefined",
        path,
        f"this file {what}, declared in{where}; {why}",
        remedy="A later file may add tables, never change or loosen what an earlier one declared: change it there.",
        place=Place(source.file, source.places.get(path, 1)),
    )


def _closed(path: Path) -> bool:
    return (len(path) >= 2 and path[0] in CLOSED) or path[:1] == ("auth",)


def _wider(auth: object) -> bool:
    return isinstance(auth, dict) and auth.get("mode") in WIDER_MODES


def _is_array(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _text(file: str, report: Report) -> str | None:
    try:
        raw = FilePath(file).read_bytes()
    except FileNotFoundError:
        _refuse(
            report, "no_such_file", file, None, "there is no such file", "Check the name and the working directory."
        )
    except IsADirectoryError:
        _refuse(report, "is_directory", file, None, "this is a directory, not a file",
                "Name the files in it: `narrows check policy.toml routes.toml`.")  # fmt: skip
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else None
        _refuse(report, "unreadable_file", file, None, f"the file cannot be read: {reason or 'no valid name'}",
                "Check its permissions.")  # fmt: skip
    else:
        return _decoded(raw, file, report)
    return None


def _decoded(raw: bytes, file: str, report: Report) -> str | None:
    remedy = "Save it as UTF-8, without a byte order mark."
    if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        _refuse(report, "not_utf8", file, 1, "the file begins with a byte order mark", remedy)
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _refuse(report, "not_utf8", file, line, "the file is not UTF-8", remedy)
        return None


def _refuse(report: Report, code: str, file: str, line: int | None, message: str, remedy: str) -> None:
    report.append(Problem(code, message, file=file, line=line, remedy=remedy))


def _syntax(message: str, text: str) -> tuple[str, int]:
    """tomllib's message without what it quotes of the file, and the line."""
    found = _AT_LINE.search(message)
    line = int(found[1]) if found else text.count("\n") + 1 if "end of document" in message else 1
    message = (
        message[: found.start()] if found else message.replace(" (at end of document)", ", at the end of the file")
    )
    return _QUOTED.sub(lambda quoted: HIDDEN if is_secret(quoted[0]) else quoted[0], message), line


def _leaves(value: Any, path: Path) -> Iterator[tuple[Any, Any, Any, Path]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        here = (*path, key)
        if isinstance(inner, dict | list):
            yield from _leaves(inner, here)
        else:
            yield value, key, inner, here
