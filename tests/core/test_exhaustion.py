"""The refusal: counts that add up, a code by five lines, and the nearest way out, against the naive way per target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Exclusion, Target
from narrows.candidates import Cut, Pool
from narrows.exhaustion import Counted, Finding, code_of, exhausted, nearest
from tests.properties.reference import Row, closest, decided

CODES = ["override", "price", "unpriced", "unaffordable", "context_window", "capability.tools", "attribute_mismatch"]
RULES = ["residency", "cap", "capability", "override"]
COUNT = 6


def pool(count: int = COUNT) -> Pool:
    return Pool([Target(f"t{place}", "p", "echo", "m") for place in range(count)])


@st.composite
def findings(draw: st.DrawFn, least: int = 0) -> list[Finding]:
    """Cuts of some rules; a rule may have several (one a demand), a cut several reasons."""
    found = []
    for _ in range(draw(st.integers(least, 6))):
        groups: dict[Exclusion, int] = {}
        for place in range(COUNT):
            code = draw(st.none() | st.sampled_from(CODES))
            if code is not None:
                reason = Exclusion(code, f"why {code}")
                groups[reason] = groups.get(reason, 0) | 1 << place
        mask = sum(groups.values())
        found.append(Finding(Cut(draw(st.sampled_from(RULES)), mask, tuple(groups.items())), draw(st.booleans())))
    return found


def rows(found: Sequence[Finding], granted: int) -> dict[str, list[Row]]:
    """Every exclusion of every granted target, in order."""
    return {
        f"t{place}": [
            (finding.cut.constraint, reason.code, finding.assumed)
            for finding in found
            for reason, part in finding.cut.groups
            if part & finding.cut.mask & 1 << place
        ]
        for place in range(COUNT)
        if granted >> place & 1
    }


everything = st.integers(1, (1 << COUNT) - 1)


def emptying(found: Sequence[Finding], granted: int) -> list[Finding]:
    """With a last rule that excludes what is left, so that nobody remains, as in every refusal."""
    left = granted
    for finding in found:
        left &= ~finding.cut.mask
    last = Finding(Cut("last", left, ((Exclusion("class", "class is not private"), left),)))
    return [*found, last] if left else list(found)


@settings(deadline=None)  # a busy machine is not a finding
@given(findings(), everything)
def test_the_counts_add_up_to_the_granted_targets(found: list[Finding], granted: int) -> None:
    full = emptying(found, granted)
    told = exhausted("chat", pool(), granted, full)
    assert sum(row.count for row in told.exclusions) == granted.bit_count()
    first = Counter((reasons[0][0], reasons[0][1]) for reasons in rows(full, granted).values())
    assert {(row.constraint, row.code): row.count for row in told.exclusions} == first
    assert len({(row.constraint, row.code) for row in told.exclusions}) == len(told.exclusions)
    assert told.message.startswith(f'0 of {granted.bit_count()} targets eligible on "chat": ')


@settings(deadline=None)
@given(findings(), everything)
def test_the_code_is_the_first_line_that_some_target_fits(found: list[Finding], granted: int) -> None:
    full = emptying(found, granted)
    told = exhausted("chat", pool(), granted, full)
    assert told.code == code_of(granted, full) == decided(rows(full, granted))[0]


@settings(deadline=None)
@given(findings(least=1), everything, st.randoms(use_true_random=False))
def test_order_changes_no_code_and_no_way_out(found: list[Finding], granted: int, random: Random) -> None:
    full = emptying(found, granted)
    told, again = (exhausted("chat", pool(), granted, some) for some in (full, random.sample(full, len(full))))
    assert (told.code, told.closest) == (again.code, again.closest)
    assert sorted(told.blocked_by) == sorted(again.blocked_by)


@settings(deadline=None)
@given(findings(), everything)
def test_the_closest_has_the_fewest_blocking_constraints(found: list[Finding], granted: int) -> None:
    """Of those that decided the code: a refusal that speaks of ability does not point at a target that policy blocks."""
    full = emptying(found, granted)
    told = exhausted("chat", pool(), granted, full)
    assert told.closest is not None
    assert (told.closest, set(told.blocked_by)) == closest(rows(full, granted))
    assert len(set(told.blocked_by)) == len(told.blocked_by)
    reasons = rows(full, granted)
    for name in decided(reasons)[1]:
        assert len({row[0] for row in reasons[name]}) >= len(told.blocked_by)
    blocked = ", ".join(f"[{name}]" for name in told.blocked_by)
    assert told.message.endswith(f". Closest: {told.closest}, blocked only by {blocked}.")


@settings(deadline=None)
@given(findings(), everything)
def test_a_target_that_is_not_granted_is_neither_counted_nor_named(found: list[Finding], granted: int) -> None:
    """As if it did not exist: the same refusal as over a pool without it."""
    full = emptying(found, granted)
    told = exhausted("chat", pool(), granted, full)
    only = [
        Finding(
            Cut(f.cut.constraint, f.cut.mask & granted, tuple((r, m & granted) for r, m in f.cut.groups)), f.assumed
        )
        for f in full
    ]
    assert told == exhausted("chat", pool(), granted, only)
    hidden = [f"t{place}" for place in range(COUNT) if not granted >> place & 1]
    assert not any(name in told.message for name in hidden)
    assert told.closest not in hidden


@settings(deadline=None)
@given(findings())
def test_nothing_excluded_is_the_nearest_of_all(found: list[Finding]) -> None:
    reasons = rows(found, (1 << COUNT) - 1)
    place, blocked_by = nearest(pool(), (1 << COUNT) - 1, found)
    free = [name for name, one in reasons.items() if not one]
    if free:
        assert (f"t{place}", blocked_by) == (free[0], ())
        assert closest(reasons) is None


def test_nobody_granted_has_no_way_out() -> None:
    assert nearest(pool(), 0, []) == (None, ())


# ---- the example of the design, and its five lines --------------------------------------------------------------------


def cut(constraint: str, code: str, why: str, *places: int, assumed: bool = False) -> Finding:
    mask = sum(1 << place for place in places)
    return Finding(Cut(constraint, mask, ((Exclusion(code, why), mask),)), assumed)


def test_the_message_names_counts_and_the_nearest_way_out() -> None:
    sonnet = Pool([Target(name, "p", "echo", "m") for name in ("a", "b", "c", "sonnet")])
    told = exhausted(
        "chat",
        sonnet,
        0b1111,
        [
            cut("residency", "attribute_mismatch", "region is not eu", 0, 1),
            cut("capability", "capability.vision", "has no image input", 1, 2),
            cut("override", "override", "disabled by an operator", 2, 3),
        ],
    )
    assert told.message == (
        '0 of 4 targets eligible on "chat": 2 region is not eu [residency], 1 has no image input [capability], '
        "1 disabled by an operator [override]. Closest: sonnet, blocked only by [override]."
    )
    assert told.exclusions == (
        Counted("residency", "attribute_mismatch", 2),
        Counted("capability", "capability.vision", 1),
        Counted("override", "override", 1),
    )


def test_the_nearest_is_blocked_by_fewest() -> None:
    """t0 by three, t1 by one that cuts it twice, t2 by two."""
    found = [
        cut("residency", "attribute_mismatch", "region is not eu", 0, 2),
        cut("team", "attribute_mismatch", "team is not a", 0, 1, 2),
        cut("team", "attribute_mismatch", "team is not b", 1),
        cut("zone", "attribute_mismatch", "zone is not c", 0),
    ]
    assert nearest(pool(3), 0b111, found) == (1, ("team",))
    assert nearest(pool(3), 0b101, found) == (2, ("residency", "team"))
    assert nearest(pool(3), 0b001, found) == (0, ("residency", "team", "zone"))


MATCH = ("residency", "attribute_mismatch", "region is not eu")
OVER = ("override", "override", "disabled")
PRICE = ("cap", "price", "too dear")
POOR = ("cap", "unaffordable", "too dear for what is left")
TOOLS = ("capability", "capability.tools", "cannot call tools")
WINDOW = ("context_window", "context_window", "too small")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([cut(*OVER, 0), cut(*MATCH, 1)], "override_no_target"),
        ([cut(*OVER, 0, 1), cut(*MATCH, 0, 1)], "no_eligible_target"),
        ([cut(*OVER, 0), cut(*PRICE, 0), cut(*MATCH, 1)], "no_eligible_target"),
        ([cut(*PRICE, 0), cut(*MATCH, 1)], "cost_ceiling"),
        ([cut("cap", "unpriced", "has no price", 0), cut(*MATCH, 1)], "cost_ceiling"),
        ([cut(*PRICE, 0), cut(*POOR, 0), cut(*MATCH, 1)], "budget_exhausted"),
        ([cut(*PRICE, 0), cut(*POOR, 1), cut(*MATCH, 1)], "cost_ceiling"),
        ([cut(*MATCH, 0, 1, assumed=True)], "attribute_missing"),
        ([cut(*MATCH, 0, assumed=True), cut(*MATCH, 1)], "attribute_missing"),
        ([cut(*MATCH, 0, 1, assumed=True), cut(*MATCH, 0, 1)], "no_eligible_target"),
        ([cut(*PRICE, 0, 1, assumed=True)], "cost_ceiling"),
        ([cut(*TOOLS, 0), cut(*MATCH, 1)], "no_capable_target"),
        ([cut(*TOOLS, 0), cut(*WINDOW, 0), cut(*MATCH, 1)], "no_capable_target"),
        ([cut(*TOOLS, 0), cut(*MATCH, 0, 1)], "no_eligible_target"),
        ([cut(*TOOLS, 0, 1), cut(*MATCH, 0, 1, assumed=True)], "no_eligible_target"),
        ([cut(*MATCH, 0, 1)], "no_eligible_target"),
        ([cut("duty", "business_hours.off_duty", "off duty", 0, 1)], "no_eligible_target"),
        ([cut("mine", "price.own", "a third party's code is no code of ours", 0, 1)], "no_eligible_target"),
        ([cut(*MATCH, 0), cut(*TOOLS, 0), cut(*PRICE, 1)], "cost_ceiling"),
        ([cut(*OVER, 0), cut(*PRICE, 1)], "override_no_target"),
    ],
)
def test_the_five_lines(found: list[Finding], code: str) -> None:
    assert code_of(0b11, found) == code
    assert code_of(0b11, found[::-1]) == code


def test_many_reasons_are_summed_up() -> None:
    """A message stays readable whatever the targets declare; its counts still add up."""
    many = Pool([Target(f"t{place}", "p", "echo", "m") for place in range(40)])
    found = [cut("residency", "attribute_mismatch", f"region is r{place}", place) for place in range(40)]
    told = exhausted("chat", many, many.full, found)
    assert told.message.count("region is r") == 12
    assert "28 for other reasons [residency]" in told.message
    assert told.exclusions == (Counted("residency", "attribute_mismatch", 40),)
