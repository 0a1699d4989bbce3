"""What a ranker answers, and how much of it is taken: an order of what is left, and closed words that say why.

An order outside the candidates is a violation and refuses the request. What a ranker says of itself never does: a
reason or a signal of another shape is dropped, and the plugin is named and counted. Source: DESIGN sections 3 and 10.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import TypeAlias

from narrows.candidates import Candidates, article
from narrows.errors import ContractViolation
from narrows.types import Target

Signal: TypeAlias = bool | int | float | str

MOST_SIGNALS = 16
MOST_CHARS = 64
"""Of a word; what is longer is cut."""

_WORD = re.compile(r"[a-z][a-z0-9_]*")
_LARGEST = 2**53
"""A larger integer would not come back from JSON as itself."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranker's answer that says why. It stands in the decision, so it holds no text of the request.

    `targets`: best first, a prefix of the candidates; None keeps their order. `reason`: one word from a closed list of
    the ranker's own ("drawn"). `signals`: what the order stands on, by words of the same kind: numbers, booleans, words
    and names of targets of the route. A word is made of a to z, 0 to 9 and underscores.
    """

    targets: Sequence[Target] | None = None
    reason: str = ""
    signals: Mapping[str, Signal] = field(default_factory=dict)


class Tickets:
    """Numbers the ranked requests of each route: 0, 1, 2, … One for each gateway, so a reload does not begin again."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def take(self, route: str) -> int:
        """The number of this request."""
        ticket = self.peek(route)
        self._given[route] += 1
        return ticket

    def peek(self, route: str) -> int:
        """The number that the next request gets: what explain is shown."""
        return self._given[route]


def accept_order(plugin: str, candidates: Candidates, answer: object) -> tuple[int, ...]:
    """The places of a ranker's answer: a prefix of what is left, without strangers and repeats. None keeps the order.

    Raises ContractViolation naming the plugin.
    """
    if isinstance(answer, Ranked):
        answer = answer.targets
    if answer is None:
        return ()
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence):
        raise ContractViolation(plugin, "rank", f"it returned {article(answer)}; return a list of targets, best first")
    places = []
    seen = 0
    for target in _read(plugin, answer):
        place = candidates._pool.place(target)
        if place is None or not candidates._mask >> place & 1:
            raise ContractViolation(plugin, "rank", "it added a target that was not among the candidates")
        if seen >> place & 1:
            raise ContractViolation(plugin, "rank", "it named a target twice")
        seen |= 1 << place
        places.append(place)
    return tuple(places)


def accept_reason(plugin: str, candidates: Candidates, answer: object) -> tuple[str, Mapping[str, Signal]]:
    """The reason and the signals of a ranker's answer, clipped to `MOST_SIGNALS` and `MOST_CHARS`; none for a plain order.

    Raises ContractViolation naming the plugin, and never repeating a value.
    """
    if not isinstance(answer, Ranked):
        return "", {}
    given: object = answer.signals
    if not isinstance(given, Mapping):
        raise ContractViolation(plugin, "rank", f"its signals are {article(given)}; give a mapping of words to numbers")
    reason = _word(answer.reason) if answer.reason != "" else ""
    if reason is None:
        raise ContractViolation(plugin, "rank", "its reason is no word of a to z, 0 to 9 and underscores")
    names = {target.name for target in candidates._pool.targets}
    signals: dict[str, Signal] = {}
    for key, value in _items(plugin, given):
        name, taken = _word(key), _signal(value, names)
        if name is None:
            raise ContractViolation(plugin, "rank", "the name of a signal is no word of a to z, 0 to 9 and underscores")
        if taken is None:
            said = f"its signal {name!r} is {article(value)} that is neither a number, a word nor a target's name"
            raise ContractViolation(plugin, "rank", said)
        signals[name] = taken
    return reason, signals


def _word(given: object) -> str | None:
    return given[:MOST_CHARS] if isinstance(given, str) and _WORD.fullmatch(given) else None


def _signal(given: object, names: set[str]) -> Signal | None:
    """The value, if it is one that a record may hold. Exact types: a subclass may print as anything."""
    if type(given) is bool:
        return given
    if type(given) is int:
        return given if abs(given) <= _LARGEST else None
    if type(given) is float:
        return given if isfinite(given) else None
    if type(given) is str:
        return given if given in names else _word(given)
    return None


def _items(plugin: str, signals: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    """The signals, one at a time: a mapping of its own may fail, or never end."""
    try:
        yield from islice(signals.items(), MOST_SIGNALS)
    except Exception as error:  # noqa: BLE001 - its own code again
        raise ContractViolation(plugin, "rank", f"its signals cannot be read: {type(error).__name__}") from None


def _read(plugin: str, answer: Sequence[object]) -> Iterator[object]:
    """The items of a ranker's answer, one at a time: a sequence of its own may fail, or never end."""
    try:
        yield from answer
    except Exception as error:  # noqa: BLE001 - its own code again
        raise ContractViolation(plugin, "rank", f"its answer cannot be read: {type(error).__name__}") from None
