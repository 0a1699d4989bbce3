"""The hold: money that budget plugins grant before egress, and what happens to it afterwards.

Asked after narrowing, because a hold over targets that a rule removed would refuse falsely. In file order each allowance
is asked for the worst case of the dearest target left; what lies above its grant goes before the next one is asked; then
all are set to the worst case of what is left. Source: DESIGN section 2, "Hold"; ADR 0004.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction

from narrows import money, tokens
from narrows.calls import Calls, Impl
from narrows.candidates import Candidates, Guard
from narrows.errors import ContractViolation
from narrows.request import Sizes
from narrows.types import Allowance, Target, Usage

_METHODS = ("room", "hold", "settle", "release")


@dataclass(frozen=True, slots=True)
class Held:
    """One budget plugin's allowance."""

    plugin: str
    allowance: Allowance


class Asked:
    """An allowance as the core asks it: through the hook loop, so that what fails is counted, named and refused.

    Its methods raise PluginError, and ContractViolation for an answer that is no amount.
    """

    def __init__(self, calls: Calls, impl: Impl, allowance: Allowance) -> None:
        self._calls, self._impl, self._allowance = calls, impl, allowance

    def room(self) -> int:
        """Micro-USD."""
        return self._amount(self._ask("room"))

    def hold(self, amount: int) -> int:
        """Micro-USD."""
        return self._amount(self._ask("hold", amount))

    def settle(self, usage: Usage) -> None:
        """Once."""
        self._ask("settle", usage)

    def release(self) -> None:
        """Once."""
        self._ask("release")

    def _ask(self, name: str, *arguments: object) -> object:
        method = partial(getattr(self._allowance, name), *arguments)
        return self._calls.begin(replace(self._impl, function=method, arguments=()))

    def _amount(self, granted: object) -> int:
        if type(granted) is not int:
            reason = f"its allowance grants {type(granted).__name__}, not an integer of micro-USD"
            raise self._calls.violated(ContractViolation(self._impl.plugin, "budget", reason))
        return granted


class Holding:
    """The allowances of one request. Empty where no budget plugin has an opinion."""

    def __init__(self, held: Iterable[Held]) -> None:
        self._held = tuple(held)
        self._charged = 0
        self._done = False

    def __bool__(self) -> bool:
        return bool(self._held)

    def cover(self, candidates: Candidates, sizes: Sizes, *, dry: bool) -> Candidates:
        """The candidates that every allowance covers. `dry` (explain) asks for room and changes nothing."""
        if not self._held:
            return candidates
        costs = {id(target): worst_case(sizes, target) for target in candidates}
        for held in self._held:
            guard = Guard(held.plugin, candidates, hook="budget")
            priced = candidates.only(
                lambda t: costs[id(t)] is not None, "unpriced", "has no price, and a budget is set"
            )
            dearest = max((costs[id(t)] or 0 for t in priced), default=0)
            granted = held.allowance.room() if dry else held.allowance.hold(dearest)
            left = f"may cost more than the {money.usd(max(granted, 0))} USD that are left"
            candidates = guard.accept(priced.only(_within(costs, granted), "unaffordable", left))
        if not dry:
            dearest = max((costs[id(t)] or 0 for t in candidates), default=0)
            for held in self._held:
                held.allowance.hold(dearest)
        return candidates

    def top_up(self, target: Target, sizes: Sizes) -> bool:
        """Before each egress: is this attempt covered, beside what earlier ones may have cost?"""
        if not self._held:
            return True
        cost = worst_case(sizes, target)
        if cost is None:
            return False
        needed = self._charged + cost
        return all(held.allowance.hold(needed) >= needed for held in self._held)

    def charge(self, cost_micro_usd: int) -> None:
        """Remember what an attempt cost; the next top-up comes on top of it."""
        self._charged += cost_micro_usd

    def close(self, usage: Usage) -> None:
        """Settle, then release, in reverse order. Every plugin is asked, whatever another one raises.

        Raises the first exception at the end.
        """
        if self._done:
            return
        self._done = True
        failures: list[Exception] = []
        for held in reversed(self._held):
            _attempt(partial(held.allowance.settle, usage), failures)
            _attempt(held.allowance.release, failures)
        if failures:
            raise failures[0]


def _within(costs: Mapping[int, int | None], most: int) -> Callable[[Target], bool]:
    return lambda target: (costs[id(target)] or 0) <= most


def worst_case(sizes: Sizes, target: Target) -> int | None:
    """The most one attempt at this target can cost, in micro-USD, or None where it has no price."""
    return money.worst_case(sizes.at_most, sizes.max_output, sizes.n, target)


def most_output(sizes: Sizes, target: Target) -> int:
    """The most tokens that one attempt at this target can answer with."""
    return tokens.most_output(sizes.max_output, target.max_output_tokens, target.context_window) * sizes.n


def check_allowance(plugin: str, answer: object) -> Allowance:
    """The answer of a budget plugin, if it is an allowance. Raises ContractViolation naming the plugin."""
    missing = [name for name in _METHODS if not callable(getattr(answer, name, None))]
    if missing:
        raise ContractViolation(
            plugin, "budget", f"its answer has no {', '.join(missing)}; return an Allowance, a Denial or None"
        )
    waiting = [name for name in _METHODS if iscoroutinefunction(getattr(answer, name))]
    if waiting:
        reason = f"it would have to be awaited in {', '.join(waiting)}; it never waits"
        raise ContractViolation(plugin, "budget", reason)
    return answer  # type: ignore[return-value]  # a protocol, checked by its methods


def _attempt(step: Callable[[], object], failures: list[Exception]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - another plugin's money must still be given back
        failures.append(error)


def costs_of(sizes: Sizes, targets: Sequence[Target]) -> tuple[int, int, tuple[str, ...]]:
    """The least and the most the request can cost among these targets, in micro-USD, and those without a price, of which
    nothing is known (explain)."""
    most = {target.name: worst_case(sizes, target) for target in targets}
    known = [cost for cost in most.values() if cost is not None]
    prices = [target.price.input for target in targets if target.price.input is not None]
    least = [money.tokens_cost(sizes.at_least, price) for price in prices]
    unpriced = tuple(name for name, cost in most.items() if cost is None)
    return min(least, default=0), max(known, default=0), unpriced
