"""The allowance by itself. The core calls it as `narrows.Allowance` says, so it is tested as that says."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest
from narrows_example import ExampleBudget
from pydantic import ValidationError

from narrows import Allowance, Principal, Request, Usage


def share(budget: ExampleBudget, caller: str = "ci") -> Allowance:
    return budget.budget(Request("support", Principal(caller)))


def usage(cost: int) -> Usage:
    return Usage(cost_micro_usd=cost)


@pytest.fixture
def budget() -> ExampleBudget:
    return ExampleBudget(cap_micro_usd=100)


def test_what_is_held_is_not_there_for_others(budget: ExampleBudget) -> None:
    first, second = share(budget), share(budget)
    assert first.hold(70) == 70
    assert second.hold(70) == 30
    assert share(budget).hold(1) == 0


def test_a_hold_is_set_not_added(budget: ExampleBudget) -> None:
    first = share(budget)
    assert (first.hold(70), first.hold(90), first.hold(20)) == (70, 90, 20)
    assert share(budget).hold(100) == 80


def test_room_is_what_hold_would_grant_and_changes_nothing(budget: ExampleBudget) -> None:
    first, second = share(budget), share(budget)
    first.hold(70)
    assert (first.room(), second.room(), second.room()) == (100, 30, 30)
    assert second.hold(1_000) == 30


def test_less_always_succeeds_also_where_the_cap_is_overdrawn(budget: ExampleBudget) -> None:
    first, second = share(budget), share(budget)
    first.hold(50)
    second.hold(50)
    second.settle(usage(400))
    assert (first.hold(50), first.hold(40), first.hold(41)) == (50, 40, 40)


def test_what_was_used_is_charged_once(budget: ExampleBudget) -> None:
    first = share(budget)
    first.hold(60)
    first.settle(usage(25))
    first.settle(usage(25))
    assert share(budget).room() == 100 - 60
    first.release()
    assert share(budget).room() == 100 - 25


def test_release_gives_back_once_and_ends_the_allowance(budget: ExampleBudget) -> None:
    first, second = share(budget), share(budget)
    first.hold(60)
    second.hold(40)
    first.release()
    first.release()
    assert second.room() == 100
    assert (first.room(), first.hold(10)) == (0, 0)


def test_money_spent_after_a_release_is_charged_all_the_same(budget: ExampleBudget) -> None:
    first = share(budget)
    first.hold(60)
    first.release()
    first.settle(usage(60))
    assert share(budget).room() == 40


def test_a_spent_cap_grants_nothing_and_never_less_than_nothing(budget: ExampleBudget) -> None:
    first = share(budget)
    first.settle(usage(250))
    first.release()
    assert (share(budget).room(), share(budget).hold(5), share(budget).hold(-5)) == (0, 0, 0)
    assert share(budget, "somebody-else").hold(5) == 5


def test_two_blocks_keep_two_books(budget: ExampleBudget) -> None:
    share(budget).hold(100)
    assert share(ExampleBudget(cap_micro_usd=100)).room() == 100


def test_callers_who_spend_nothing_are_forgotten(budget: ExampleBudget) -> None:
    for number in range(100):
        one = share(budget, f"caller-{number}")
        one.hold(10)
        one.settle(usage(0))
        one.release()
    assert not budget._book.held
    assert not budget._book.spent


def test_many_at_once_never_hold_more_than_the_cap(budget: ExampleBudget) -> None:
    granted: list[int] = []
    together = Barrier(8)

    def ask() -> None:
        together.wait()
        granted.extend([share(budget).hold(1) for _ in range(200)])

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(granted), sum(granted)) == (1600, 100)


def test_a_cap_is_zero_or_more() -> None:
    assert share(ExampleBudget(cap_micro_usd=0)).hold(1) == 0
    with pytest.raises(ValidationError):
        ExampleBudget(cap_micro_usd=-1)
