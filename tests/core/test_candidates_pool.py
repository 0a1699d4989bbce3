"""The pool: masks and targets, verdicts judged once, and a memory that is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Exclusion, Target
from narrows.candidates import Candidates, Cut, Excludes, Pool


def targets(count: int) -> list[Target]:
    return [Target(f"t{place}", "p", "echo", "m", labels={"place": place}) for place in range(count)]


class Above(Excludes[Hashable]):
    """Excludes the targets that stand behind a place, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[Hashable] = Counter()

    def excludes(self, demand: Hashable, target: Target) -> Exclusion | None:
        self.asked[demand] += 1
        place = target.labels["place"]
        assert isinstance(place, int)
        assert isinstance(demand, int)
        return Exclusion("even" if place % 2 == 0 else "odd", f"stands behind {demand}") if place > demand else None


def names(pool: Pool, mask: int) -> list[str]:
    return [target.name for target in pool.members(mask)]


@settings(deadline=None)  # a busy machine is not a finding
@given(st.integers(0, 70), st.data())
def test_a_mask_is_its_targets_in_order(count: int, data: st.DataObject) -> None:
    pool = Pool(targets(count))
    chosen = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
    mask = sum(1 << place for place in chosen)
    assert names(pool, mask) == [f"t{place}" for place in sorted(chosen)]
    assert pool.mask_of(lambda target: target.labels["place"] in chosen) == mask
    assert (len(pool), pool.full.bit_count()) == (count, count)
    assert names(pool, pool.full) == [target.name for target in pool.targets]


def test_only_these_very_targets_have_a_place() -> None:
    one, two = targets(2)
    pool = Pool([one, two])
    assert (pool.place(one), pool.place(two)) == (0, 1)
    assert pool.place(targets(2)[0]) is None, "an equal one is a stranger"
    assert pool.place("t0") is None
    assert one not in Candidates(Pool(targets(2)), 3)


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(-1, 45), max_size=12))
def test_a_verdict_is_what_the_rule_says_of_each_target(count: int, demands: list[int]) -> None:
    pool, rule = Pool(targets(count)), Above()
    for demand in demands:
        cut = pool.verdict("above", rule, demand)
        assert cut.constraint == "above"
        assert names(pool, cut.mask) == [f"t{place}" for place in range(count) if place > demand]
        for reason, part in cut.groups:
            assert all(place % 2 == (reason.code == "odd") for place in range(count) if part >> place & 1)
            assert part & ~cut.mask == 0
    assert set(rule.asked.values()) <= {count}, "each demand is judged once, of each target"
    assert pool.cached == len(set(demands))


def test_two_constraints_of_one_kind_have_verdicts_of_their_own() -> None:
    pool, rule = Pool(targets(3)), Above()
    assert pool.verdict("one", rule, 0) is pool.verdict("one", rule, 0)
    assert pool.verdict("two", rule, 0) == Cut("two", 0b110, pool.verdict("one", rule, 0).groups)
    assert rule.asked == {0: 6}


def test_codes_of_a_third_party_begin_with_its_kind() -> None:
    (group,) = Pool(targets(2)).verdict("mine", Above(), 0, "my_kind").groups
    assert group[0] == Exclusion("my_kind.odd", "stands behind 0")


def test_a_code_and_a_reason_are_clipped() -> None:
    class Long(Above):
        def excludes(self, demand: Hashable, target: Target) -> Exclusion | None:
            return Exclusion("c" * 100, "w" * 1000)

    ((reason, _),) = Pool(targets(1)).verdict("long", Long(), 0).groups
    assert (len(reason.code), len(reason.why)) == (64, 200)


@pytest.mark.parametrize(
    ("demand", "error"),
    [("x" * 1022, None), ("x" * 1023, ValueError), (("é" * 600,), ValueError), ([1], TypeError), (object(), TypeError)],
)
def test_a_demand_is_hashable_and_json_of_one_kilobyte(demand: Hashable, error: type[Exception] | None) -> None:
    class Fits(Above):
        def excludes(self, demand: Hashable, target: Target) -> Exclusion | None:
            return None

    pool = Pool(targets(1))
    if error is None:
        assert pool.verdict("any", Fits(), demand).mask == 0
        return
    with pytest.raises(error):
        pool.verdict("any", Fits(), demand)
    assert pool.cached == 0


def test_what_is_no_exclusion_is_refused() -> None:
    class Says(Above):
        def excludes(self, demand: Hashable, target: Target) -> Exclusion | None:
            return "no"  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"a reason is an Exclusion\(code, why\), not a str"):
        Pool(targets(1)).verdict("says", Says(), 0)


def test_the_memory_is_bounded_and_forgetting_is_harmless() -> None:
    pool, rule = Pool(targets(2)), Above()
    for demand in range(100_000):
        pool.verdict("above", rule, demand)
    assert pool.cached == 4096
    assert names(pool, pool.verdict("above", rule, 0).mask) == ["t1"]
    assert rule.asked[0] == 4, "judged again: its first verdict was forgotten"
    assert pool.cached == 4096
    assert Pool(targets(100_000))._most == 64, "demands times targets"
