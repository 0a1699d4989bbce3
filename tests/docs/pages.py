"""The pages of the documentation as the tests read them: blocks of code with the words before them, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
QUESTIONS = DOCS / "explanation" / "questions.md"
CONFIGURATION = DOCS / "reference" / "configuration.md"
HTTP = DOCS / "reference" / "http.md"
CODES = DOCS / "reference" / "exclusion-codes.md"
FAILOVER = DOCS / "explanation" / "failover.md"
OPERATE = DOCS / "how-to" / "operate.md"
CONSTRAINT = DOCS / "how-to" / "write-a-constraint.md"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"(`{3,})(\w*)")
_HEADING = re.compile(r"(#{1,6}) (.+)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`[^`]*`")
_NO_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is where its source begins; `before`: the words that lead to it, since the block or the
    heading before it; `heading`: what it stands under."""

    page: Path
    line: int
    language: str
    source: str
    heading: str
    before: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    """What stands in one file. `prose` is the text without its blocks; `sections`: heading -> the text below it, tables
    included, up to the next heading of the same or a higher level."""

    path: Path
    blocks: tuple[Block, ...]
    headings: tuple[tuple[int, str], ...]
    prose: str

    def of(self, language: str) -> tuple[Block, ...]:
        """The blocks of a language."""
        return tuple(block for block in self.blocks if block.language == language)

    def section(self, heading: str) -> str:
        """The prose below the one heading that holds this text, with everything below it. Raises ValueError."""
        lines, level, found = self.prose.splitlines(), 0, []
        for line in lines:
            title = _HEADING.fullmatch(line)
            if title is not None and level and len(title[1]) <= level:
                break
            if title is not None and not level and heading in title[2]:
                level = len(title[1])
            if level:
                found.append(line)
        if not found:
            raise ValueError(f"{self.path.name} has no heading with {heading!r}")
        return "\n".join(found)

    def anchors(self) -> frozenset[str]:
        """What a link may name behind `#`, as GitHub makes it of the headings."""
        found: dict[str, int] = {}
        for _, title in self.headings:
            slug = _NO_ANCHOR.sub("", title.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
        return frozenset(slug if not n else f"{slug}-{n}" for slug, most in found.items() for n in range(most + 1))

    def links(self) -> tuple[str, ...]:
        """The targets of all links to other places of the repository."""
        targets = _LINK.findall(_CODE_SPAN.sub("`code`", self.prose))
        return tuple(target for target in targets if "://" not in target and not target.startswith("mailto:"))


@cache
def page(path: Path) -> Page:
    """The page of that file."""
    blocks = tuple(_blocks(path))
    lines = path.read_text("utf-8").splitlines()
    fenced = {n for block in blocks for n in range(block.line - 1, block.line + block.source.count("\n") + 1)}
    prose = [line for n, line in enumerate(lines, 1) if n not in fenced]
    headings = [(len(found[1]), found[2]) for found in map(_HEADING.fullmatch, prose) if found is not None]
    return Page(path, blocks, tuple(headings), "\n".join(prose))


def every(language: str) -> tuple[Block, ...]:
    """The blocks of a language on every page."""
    return tuple(block for path in PAGES for block in page(path).of(language))


def _blocks(path: Path) -> Iterator[Block]:
    heading, before, source = "", list[str](), list[str]()
    fence = language = ""
    start = 0
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        opened = _FENCE.fullmatch(line)
        title = _HEADING.fullmatch(line)
        if fence:
            if line.startswith(fence) and not line.strip("`"):
                yield Block(path, start, language, "".join(f"{one}\n" for one in source), heading, "\n".join(before))
                fence, before = "", []
            else:
                source.append(line)
        elif opened is not None:
            fence, language, source, start = opened[1], opened[2], [], number + 1
        elif title is not None:
            heading, before = title[2], []
        else:
            before.append(line)
    if fence:
        raise ValueError(f"{path}: the block at line {start} is never closed")
