"""The targets still allowed, and why the others went. A set of candidates can only shrink.

A plugin is offered a `Candidates` and answers with a smaller one; there is no method that adds. Sets are bitmasks over
a route's pool, so the check after every plugin is one and-not at any size. Source: DESIGN section 3, "The guard".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from narrows.decision import Excluded
from narrows.errors import ContractViolation
from narrows.types import Exclusion, Target

_CACHED_DEMANDS = 4096
_CACHED_TARGETS = 4_000_000
_CACHED_TELLINGS = 256
_DEMAND_BYTES = 1024
_CODE_CHARS = 64
_WHY_CHARS = 200


D_contra = TypeVar("D_contra", bound=Hashable, contravariant=True)


class Excludes(Protocol[D_contra]):
    """The pure half of a constraint: why one target cannot meet one demand."""

    def excludes(self, demand: D_contra, target: Target) -> Exclusion | None: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """Targets that one rule removed, grouped by reason. `mask` is the union of the groups' masks."""

    constraint: str
    mask: int
    groups: tuple[tuple[Exclusion, int], ...]


class Pool:
    """The targets of one route in its order. Remembers which of them each demand excludes, and how that is told.

    The memory is bounded: demands times targets, oldest first out. `excludes` is pure, so forgetting is harmless.
    """

    __slots__ = ("_index", "_most", "_names", "_rows", "_verdicts", "full", "targets")

    def __init__(self, targets: Sequence[Target]) -> None:
        self.targets: tuple[Target, ...] = tuple(targets)
        self.full: int = (1 << len(self.targets)) - 1
        self._index = {id(target): place for place, target in enumerate(self.targets)}
        self._verdicts: dict[tuple[str, Hashable], Cut] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._rows: dict[Cut, tuple[Excluded, ...]] = {}
        self._most = max(64, min(_CACHED_DEMANDS, _CACHED_TARGETS // (len(self.targets) or 1)))

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def cached(self) -> int:
        """How many verdicts are remembered."""
        return len(self._verdicts)

    def place(self, target: object) -> int | None:
        """Where this very target stands in the pool, or None for a stranger."""
        return self._index.get(id(target))

    def members(self, mask: int) -> Iterator[Target]:
        """The targets of a mask, in pool order, lazily."""
        bits = bin(mask)[:1:-1]
        place = bits.find("1")
        while place >= 0:
            yield self.targets[place]
            place = bits.find("1", place + 1)

    def names(self, mask: int) -> tuple[str, ...]:
        """Their names. Remembered: each decision tells some of the same few sets."""
        known = self._names.get(mask)
        if known is None:
            if len(self._names) >= _CACHED_TELLINGS:
                self._names.clear()
            known = self._names[mask] = tuple(target.name for target in self.members(mask))
        return known

    def rows(self, cut: Cut) -> tuple[Excluded, ...]:
        """What a cut removed and why, one row a target and reason. Remembered likewise."""
        known = self._rows.get(cut)
        if known is None:
            if len(self._rows) >= _CACHED_TELLINGS:
                self._rows.clear()
            known = self._rows[cut] = tuple(
                Excluded(target.name, cut.constraint, exclusion.code, exclusion.why)
                for exclusion, mask in cut.groups
                for target in self.members(mask & cut.mask)
            )
        return known

    def mask_of(self, keep: Callable[[Target], bool]) -> int:
        """The mask of every target that `keep` says yes to."""
        mask = 0
        for place, target in enumerate(self.targets):
            if keep(target):
                mask |= 1 << place
        return mask

    def verdict(self, constraint: str, rule: Excludes[Any], demand: Hashable, prefix: str = "") -> Cut:
        """Which targets this demand excludes, and why; judged once, then remembered.

        Raises TypeError for a demand that is not hashable, ValueError for one that is no JSON of at most 1 KB.
        """
        key = (constraint, demand)
        found = self._verdicts.get(key)
        if found is not None:
            return found
        if len(msgspec.json.encode(demand)) > _DEMAND_BYTES:
            raise ValueError(f"a demand is at most {_DEMAND_BYTES} bytes of JSON")
        groups: dict[Exclusion, int] = {}
        for place, target in enumerate(self.targets):
            exclusion = rule.excludes(demand, target)
            if exclusion is not None:
                reason = _reason(exclusion, prefix)
                groups[reason] = groups.get(reason, 0) | 1 << place
        mask = 0
        for part in groups.values():
            mask |= part
        cut = Cut(constraint, mask, tuple(groups.items()))
        if len(self._verdicts) >= self._most:
            self._verdicts.pop(next(iter(self._verdicts)), None)
        self._verdicts[key] = cut
        return cut


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The targets still allowed. Iterate it, ask `in` and `len`, compare with `<=`; answer with fewer.

    Every method returns a new set; what is offered to a plugin never changes, and changing it by force is found out.
    """

    _pool: Pool
    _mask: int
    _cuts: tuple[Cut, ...] = ()

    def without(self, target: Target, code: str, why: str) -> Candidates:
        """This set less one target. Removing one that is not in it changes nothing. Raises TypeError for a name."""
        if not isinstance(target, Target):
            raise TypeError(f"remove a target, not {article(target)}; a name would remove nothing")
        place = self._pool.place(target)
        return self if place is None else self._less(1 << place, code, why)

    def only(self, predicate: Callable[[Target], bool], code: str, why: str) -> Candidates:
        """This set less every target that the predicate says no to. Judge each target by itself: comparing targets
        is ranking."""
        gone = 0
        for target in self:
            if not predicate(target):
                gone |= 1 << self._pool._index[id(target)]
        return self._less(gone, code, why)

    def __iter__(self) -> Iterator[Target]:
        return self._pool.members(self._mask)

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __contains__(self, target: object) -> bool:
        place = self._pool.place(target)
        return place is not None and bool(self._mask >> place & 1)

    def __le__(self, other: Candidates) -> bool:
        return self._pool is other._pool and not self._mask & ~other._mask

    def __repr__(self) -> str:
        return f"<Candidates {len(self)} of {len(self._pool)}>"

    def _less(self, gone: int, code: str, why: str) -> Candidates:
        gone &= self._mask
        if not gone:
            return self
        cut = Cut("", gone, ((Exclusion(code, why), gone),))
        return Candidates(self._pool, self._mask & ~gone, (*self._cuts, cut))

    def _cut(self, cut: Cut) -> Candidates:
        gone = self._mask & cut.mask
        if not gone:
            return self
        return Candidates(self._pool, self._mask & ~gone, (*self._cuts, Cut(cut.constraint, gone, cut.groups)))


class Guard:
    """What stood before one call of a plugin, as plain values, and the check of its answer against them.

    The offered object itself is never trusted again: it may have been changed by force. Every violation is raised,
    never asserted, because `python -O` drops asserts.
    """

    __slots__ = ("_cuts", "_hook", "_mask", "_offered", "_plugin", "_pool", "_prefix")

    def __init__(self, plugin: str, offered: Candidates, prefix: str = "", hook: str = "narrow") -> None:
        """`prefix`: what a stranger's codes begin with; "" for those that are qualified already."""
        self._plugin, self._offered, self._prefix, self._hook = plugin, offered, prefix, hook
        self._pool, self._mask, self._cuts = offered._pool, offered._mask, offered._cuts

    def accept(self, answer: object) -> Candidates:
        """The set that goes on: built here, from the pool, a mask within the mask, and reasons for all that went.

        Raises ContractViolation naming the plugin.
        """
        offered = self._offered
        if offered._pool is not self._pool or offered._mask != self._mask or offered._cuts is not self._cuts:
            raise self._violation("it changed the candidates it was offered instead of returning a smaller set")
        if answer is None or answer is offered:
            return Candidates(self._pool, self._mask, self._cuts)
        if type(answer) is not Candidates:
            raise self._violation(f"it returned {article(answer)}; return the candidates it was offered, or fewer")
        if answer._pool is not self._pool:
            raise self._violation("it returned candidates of another pool than it was offered")
        mask = answer._mask
        if type(mask) is not int or mask & ~self._mask:
            raise self._violation("it returned a target that it was not offered; a set of candidates can only shrink")
        if type(answer._cuts) is not tuple or answer._cuts[: len(self._cuts)] != self._cuts:
            raise self._violation("it changed earlier exclusions; they belong to the rules that made them")
        cuts = self._stamped(answer._cuts[len(self._cuts) :], self._mask & ~mask)
        return Candidates(self._pool, mask, self._cuts + cuts)

    def _stamped(self, cuts: tuple[Cut, ...], gone: int) -> tuple[Cut, ...]:
        """The new cuts under the plugin's own name; together they must explain exactly what went."""
        explained = 0
        stamped = []
        for cut in cuts:
            if type(cut) is not Cut:
                raise self._violation("an exclusion it gave is not one; use `without` or `only`")
            reasons = 0
            for exclusion, part in cut.groups:
                if not _explains(exclusion):
                    raise self._violation("it removed a target without a reason; give a code and a why, as text")
                reasons |= part
            explained |= cut.mask & reasons
            groups = tuple((_reason(e, self._prefix), m) for e, m in cut.groups) if self._prefix else cut.groups
            stamped.append(Cut(self._plugin, cut.mask, groups))
        if gone & ~explained:
            names = ", ".join(target.name for target in self._pool.members(gone & ~explained))
            raise self._violation(f"it removed {names} without a reason; use `without` or `only` with a code and a why")
        if explained & ~gone:
            raise self._violation("it gave a reason for a target that it did not remove")
        return tuple(stamped)

    def _violation(self, reason: str) -> ContractViolation:
        return ContractViolation(self._plugin, self._hook, reason)


def _explains(exclusion: object) -> bool:
    """Is it a reason? None is no text, though it could be printed as one."""
    if not isinstance(exclusion, Exclusion):
        return False
    code: object = exclusion.code
    why: object = exclusion.why
    return isinstance(code, str) and isinstance(why, str) and code != "" and why != ""


def _reason(exclusion: object, prefix: str) -> Exclusion:
    if not isinstance(exclusion, Exclusion):
        raise TypeError(f"a reason is an Exclusion(code, why), not {article(exclusion)}")
    code = str(exclusion.code)
    if prefix and code:
        code = f"{prefix}.{code}"
    if code == exclusion.code and len(code) <= _CODE_CHARS and len(exclusion.why) <= _WHY_CHARS:
        return exclusion
    return Exclusion(code[:_CODE_CHARS], str(exclusion.why)[:_WHY_CHARS])


def article(value: object) -> str:
    """What kind of thing it is, for a sentence: "a list", "an int". Never the value itself."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
