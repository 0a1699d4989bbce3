"""Why no target is left: the full matrix, its code, its message, and the nearest way out.

A refusal asks every rule about every target, so the order of the rules changes nothing in its code. Targets that the
caller is not granted do not exist here: not counted, not named. Source: DESIGN section 9, "Errors".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from narrows.candidates import Cut, Pool
from narrows.types import Exclusion

MONEY = frozenset({"price", "unpriced", "unaffordable"})
_MOST_REASONS = 12
_Group: TypeAlias = Callable[[bool, str], bool]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's cut of the whole granted pool. `assumed`: it stands on a demand that only silence made."""

    cut: Cut
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """Targets whose first failing rule this is: the shape of an error's `exclusions`."""

    constraint: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The refusal of a request that no target may serve."""

    code: str
    message: str
    exclusions: tuple[Counted, ...]
    closest: str | None
    blocked_by: tuple[str, ...]


def exhausted(route: str, pool: Pool, granted: int, findings: Sequence[Finding]) -> Exhausted:
    """What to tell the caller. `findings`: every exclusion of every granted target, in the order of the rules."""
    rows = tuple(_first_failing(granted, findings))
    counts: dict[tuple[str, str], int] = {}
    for constraint, exclusion, count in rows:
        counts[constraint, exclusion.code] = counts.get((constraint, exclusion.code), 0) + count
    place, blocked_by = nearest(pool, granted, findings)
    closest = pool.targets[place].name if place is not None else None
    message = f'0 of {granted.bit_count()} targets eligible on "{route}": {_told(rows)}.'
    if closest is not None:
        message += f" Closest: {closest}, blocked only by {', '.join(f'[{name}]' for name in blocked_by)}."
    return Exhausted(
        code_of(granted, findings),
        message,
        tuple(Counted(constraint, code, count) for (constraint, code), count in counts.items()),
        closest,
        blocked_by,
    )


def code_of(granted: int, findings: Sequence[Finding]) -> str:
    """The stable code: the first line of DESIGN's list that some target fits with *all* its exclusions."""
    return _decided(granted, findings)[0]


def _decided(granted: int, findings: Sequence[Finding]) -> tuple[str, int]:
    """The code, and the targets that decided it."""
    if not findings:
        return "no_eligible_target", granted  # "all of none" would fit any line
    if fits := _fits(granted, findings, lambda _, code: code == "override"):
        return "override_no_target", fits
    if fits := _fits(granted, findings, lambda _, code: code in MONEY):
        unaffordable = _union(findings, lambda _, code: code == "unaffordable")
        return "budget_exhausted" if fits & unaffordable else "cost_ceiling", fits
    if fits := _fits(granted, findings, lambda assumed, _: assumed):
        return "attribute_missing", fits
    if fits := _fits(granted, findings, lambda _, code: code == "context_window" or code.startswith("capability.")):
        return "no_capable_target", fits
    return "no_eligible_target", granted


def nearest(pool: Pool, granted: int, findings: Sequence[Finding]) -> tuple[int | None, tuple[str, ...]]:
    """The target that the fewest constraints block, and which, among those that decided the code: a refusal that speaks
    of ability must not point at a target which policy blocks. Bit planes count all targets at once."""
    granted = _decided(granted, findings)[1]
    blocked: dict[str, int] = {}
    for finding in findings:
        blocked[finding.cut.constraint] = blocked.get(finding.cut.constraint, 0) | finding.cut.mask & granted
    planes: list[int] = []
    for mask in blocked.values():
        carry = mask
        for level, plane in enumerate(planes):
            planes[level], carry = plane ^ carry, plane & carry
        if carry:
            planes.append(carry)
    fewest = granted
    for plane in reversed(planes):
        fewest = fewest & ~plane or fewest
    if not fewest:
        return None, ()
    lowest = fewest & -fewest
    return lowest.bit_length() - 1, tuple(name for name, mask in blocked.items() if mask & lowest)


def _fits(granted: int, findings: Iterable[Finding], group: _Group) -> int:
    """The targets all of whose exclusions are of that group."""
    return granted & ~_union(findings, lambda assumed, code: not group(assumed, code))


def _union(findings: Iterable[Finding], group: _Group) -> int:
    mask = 0
    for finding in findings:
        for exclusion, part in finding.cut.groups:
            if group(finding.assumed, exclusion.code):
                mask |= part & finding.cut.mask
    return mask


def _first_failing(granted: int, findings: Iterable[Finding]) -> Iterable[tuple[str, Exclusion, int]]:
    """Every granted target once, under its first failing rule, grouped by reason."""
    left = granted
    for finding in findings:
        for exclusion, part in finding.cut.groups:
            here = part & finding.cut.mask & left
            if here:
                left &= ~here
                yield finding.cut.constraint, exclusion, here.bit_count()


def _told(rows: Sequence[tuple[str, Exclusion, int]]) -> str:
    counts: dict[tuple[str, str], int] = {}
    for constraint, exclusion, count in rows:
        key = (exclusion.why, constraint)
        counts[key] = counts.get(key, 0) + count
    told = [f"{count} {why} [{constraint}]" for (why, constraint), count in list(counts.items())[:_MOST_REASONS]]
    rest: dict[str, int] = {}
    for (_, constraint), count in list(counts.items())[_MOST_REASONS:]:
        rest[constraint] = rest.get(constraint, 0) + count
    told += [f"{count} for other reasons [{constraint}]" for constraint, count in rest.items()]
    return ", ".join(told) or "the route has none for you"
