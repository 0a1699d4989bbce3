"""What the rules on labels share: how words are compared, how several are written, and the lines that a file lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from narrows import Target

_OWN_KEY = {
    "region": '"…"',
    "processing_region": '"…"',
    "jurisdiction": '"…"',
    "class": '"…"',
    "tier": '"…"',
    "zero_retention": "true  # or false",
    "no_training": "true  # or false",
    "output_uses": '["…"]',
}
"""Labels with a key of their own in `[targets.NAME]`, and what stands behind it. Others stand under `labels`."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def fold(word: str) -> str:
    """A word as it is compared: without case and surrounding space, like the attributes of requests."""
    return word.strip().casefold()


def folded(words: Iterable[str] | None) -> frozenset[str]:
    """The words as they are compared. None (a label that is not declared) is the empty set."""
    return frozenset(fold(word) for word in words or ())


def either(words: Iterable[str]) -> str:
    """ "eu", "eu or us", "eu, uk or us"."""
    *most, last = sorted(words)
    return f"{', '.join(most)} or {last}" if most else last


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    return next(iter(get_close_matches(fold(word), sorted(known), n=1)), None)


def undeclared(targets: Sequence[Target], label: str) -> str | None:
    """A text that names the targets without this label and prints the lines to add, or None where all declare it."""
    without = [target.name for target in targets if not target.label_set(label)]
    if not without:
        return None
    line = f"{label} = {_OWN_KEY[label]}" if label in _OWN_KEY else f'labels = {{ {key(label)} = "…" }}'
    who = f"target {without[0]} declares" if len(without) == 1 else f"targets {', '.join(without)} declare"
    tables = "\n".join(f"[targets.{key(name)}]\n{line}" for name in without)
    return f"{who} no {label}, which this rule compares. Add what is true of each:\n{tables}"


def key(name: str) -> str:
    """A name as a key of TOML."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
