"""Did you mean: the known word that a misspelt one is nearest to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

_SHORT = 4


def nearest(word: str, known: Iterable[str], taken: Collection[str] = ()) -> str | None:
    """The known word that was probably meant, or None. Those that are `taken` (written already) are asked last."""
    words = list(dict.fromkeys(known))
    free = [name for name in words if name not in taken]
    return _nearest(word, free) or _nearest(word, words)


def listed(words: Iterable[str], most: int = 12) -> str:
    """Words for a text: "a, b and 3 more"."""
    every = list(words)
    rest = len(every) - most
    return ", ".join(every) if rest <= 0 else f"{', '.join(every[:most])} and {rest} more"


def _nearest(word: str, words: list[str]) -> str | None:
    plain = {_plain(name): name for name in reversed(words)}
    asked = _plain(word)
    if asked in plain:
        return plain[asked]
    found = get_close_matches(asked, plain, n=1, cutoff=0.5 if len(asked) <= _SHORT else 0.6)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.casefold().replace("-", "_")
