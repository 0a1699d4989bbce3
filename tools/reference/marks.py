"""Pages with marked places: what stands between two marks is generated, what stands around them is ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

Part: TypeAlias = Callable[[], str]
_PLACE = re.compile(r"<!-- generated: (\w+) -->\n(.*?)<!-- end: \1 -->", re.DOTALL)
_MARK = re.compile(r"<!-- (?:generated|end): \w+ -->")


def filled(text: str, parts: Mapping[str, Part]) -> str:
    """The page with each of its places filled. Raises ValueError where a mark is alone, or names no part."""

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name not in parts:
            raise ValueError(f"there is no part {name!r}; there are {', '.join(sorted(parts))}")
        return f"<!-- generated: {name} -->\n\n{parts[name]().strip()}\n\n<!-- end: {name} -->"

    if len(_MARK.findall(text)) != 2 * len(_PLACE.findall(text)):
        raise ValueError("a mark stands alone; write <!-- generated: NAME --> and below it <!-- end: NAME -->")
    return _PLACE.sub(fill, text)


def places(text: str) -> tuple[str, ...]:
    """The names of the parts that a page holds."""
    return tuple(found[1] for found in _PLACE.finditer(text))


def pages(folder: Path) -> Iterator[Path]:
    """Every page below a folder that has a marked place."""
    for path in sorted(folder.rglob("*.md")):
        if _MARK.search(path.read_text("utf-8")):
            yield path
