"""The guard's own functions, asked directly: what HTTP cannot show, and every forgery that hypothesis can think of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.candidates import Candidates, Cut, Guard, Pool
from narrows.errors import ContractViolation
from narrows.ranking import accept_order
from narrows.types import Exclusion, Target

SIZE = 6
TARGETS = tuple(Target(f"t{place}", "p", "k", "m") for place in range(SIZE))
POOL = Pool(TARGETS)
SECRET = "text of an exception"

masks = st.integers(min_value=0, max_value=POOL.full)


def removed(mask: int) -> Cut:
    """What an earlier rule removed."""
    return Cut("earlier", mask, ((Exclusion("attribute_mismatch", "region is not eu"), mask),))


def offered(mask: int) -> Candidates:
    """A set as the core offers it: whatever is gone has a reason."""
    gone = POOL.full & ~mask
    return Candidates(POOL, mask, (removed(gone),) if gone else ())


# ---- the set itself ----------------------------------------------------------------------------------------------

steps = st.lists(st.tuples(st.booleans(), masks), max_size=8)


def walk(start: Candidates, path: Sequence[tuple[bool, int]]) -> Iterator[Candidates]:
    """Every set on the way: `without` one target, or `only` those of a mask."""
    here = start
    for single, mask in path:
        if single:
            here = here.without(TARGETS[mask % SIZE], "gone", "it is gone")
        else:
            kept = frozenset(POOL.members(mask))
            here = here.only(kept.__contains__, "gone", "it is gone")
        yield here


@given(masks, steps)
def test_no_sequence_of_removals_ever_widens(mask: int, path: list[tuple[bool, int]]) -> None:
    before = offered(mask)
    guard = Guard("plugin", before)
    for after in walk(offered(mask), path):
        assert after <= offered(mask)
        assert set(after) <= set(POOL.members(mask))
        assert len(after) == len(tuple(after))
        assert after._cuts[: len(before._cuts)] == before._cuts
        accepted = guard.accept(after)
        assert accepted._mask == after._mask
        told = {target for cut in accepted._cuts for target in POOL.members(cut.mask)}
        assert told == set(TARGETS) - set(accepted)
        assert {cut.constraint for cut in accepted._cuts} <= {"earlier", "plugin"}


@given(masks, st.lists(st.permutations(range(SIZE)), min_size=2, max_size=2))
def test_the_order_of_removals_does_not_matter(mask: int, orders: list[list[int]]) -> None:
    gone = set(range(0, SIZE, 2))
    ends = []
    for order in orders:
        here = offered(mask)
        for place in order:
            if place in gone:
                here = here.without(TARGETS[place], "gone", "it is gone")
        ends.append(here._mask)
    assert ends[0] == ends[1] == mask & ~sum(1 << place for place in gone)


def test_removing_what_is_not_there_changes_nothing() -> None:
    here = offered(0b11)
    assert here.without(TARGETS[5], "gone", "it is gone") is here
    assert here.without(replace(TARGETS[0]), "gone", "it is gone") is here  # a target of another pool
    assert len(here.without(TARGETS[0], "gone", "it is gone")) == 1


def test_a_name_is_not_a_target() -> None:
    name: Any = "t0"
    with pytest.raises(TypeError, match="remove a target, not a str"):
        offered(0b11).without(name, "gone", "it is gone")


# ---- Guard.accept ------------------------------------------------------------------------------------------------

exclusions = st.sampled_from([Exclusion("code", "why"), Exclusion("", "why"), Exclusion("code", ""), "no exclusion"])
groups = st.lists(st.tuples(exclusions, masks), max_size=3).map(tuple)
cuts = st.builds(Cut, st.sampled_from(["", "earlier", "plugin"]), masks, groups)
forged = st.tuples(st.integers(min_value=-2, max_value=POOL.full), st.lists(cuts, max_size=3), st.booleans())


@given(masks, forged)
def test_whatever_is_forged_is_refused_or_smaller(mask: int, forgery: tuple[int, list[Cut], bool]) -> None:
    """Either a violation, or a subset in which every removal has a reason under the plugin's name."""
    before = offered(mask)
    forged_mask, new, keeps = forgery
    answer = Candidates(POOL, forged_mask, ((*before._cuts, *new) if keeps else tuple(new)))
    try:
        accepted = Guard("plugin", before).accept(answer)
    except ContractViolation:
        return
    assert accepted <= offered(mask)
    assert accepted._cuts[: len(before._cuts)] == before._cuts
    told = accepted._cuts[len(before._cuts) :]
    assert {cut.constraint for cut in told} <= {"plugin"}
    explained = 0
    for cut in told:
        for exclusion, part in cut.groups:
            assert exclusion.code
            assert exclusion.why
            explained |= cut.mask & part
    assert explained == mask & ~accepted._mask


def test_none_and_the_offered_set_remove_nothing() -> None:
    before = offered(0b111)
    for answer in (None, before):
        accepted = Guard("plugin", before).accept(answer)
        assert (accepted._mask, accepted._cuts) == (before._mask, before._cuts)
        assert accepted is not before  # what the plugin holds is not what goes on


def test_a_set_that_was_accepted_is_not_the_plugins_object() -> None:
    before = offered(0b111)
    answer = before.without(TARGETS[0], "gone", "it is gone")
    accepted = Guard("plugin", before).accept(answer)
    object.__setattr__(answer, "_mask", POOL.full)
    assert tuple(accepted) == TARGETS[1:3]


def test_a_set_over_another_pool_is_refused() -> None:
    answer = Candidates(Pool(TARGETS), 0b1)
    with pytest.raises(ContractViolation, match="of another pool"):
        Guard("plugin", Candidates(POOL, 0b11)).accept(answer)
    assert not answer <= Candidates(POOL, 0b11)


def test_a_violation_names_the_plugin_and_its_hook() -> None:
    with pytest.raises(ContractViolation) as caught:
        Guard("mine", offered(0b1), hook="rank").accept([])
    assert (caught.value.plugin, caught.value.hook) == ("mine", "rank")
    assert str(caught.value).startswith("plugin 'mine' broke the contract of hook 'rank': it returned a list")


def test_a_strangers_codes_carry_its_kind_and_stay_short() -> None:
    before = offered(0b11)
    accepted = Guard("mine", before, prefix="kind").accept(before.without(TARGETS[0], "c" * 100, "w" * 300))
    ((exclusion, mask),) = accepted._cuts[-1].groups
    assert (exclusion.code, exclusion.why, mask) == (f"kind.{'c' * 59}", "w" * 200, 0b1)


# ---- accept_order ------------------------------------------------------------------------------------------------


@given(masks, st.lists(st.integers(min_value=0, max_value=SIZE - 1), max_size=SIZE + 2))
def test_an_order_is_a_prefix_of_what_is_left(mask: int, places: list[int]) -> None:
    answer = [TARGETS[place] for place in places]
    allowed = len(set(places)) == len(places) and all(mask >> place & 1 for place in places)
    if allowed:
        assert accept_order("ranker", offered(mask), answer) == tuple(places)
        assert accept_order("ranker", offered(mask), tuple(answer)) == tuple(places)
    else:
        with pytest.raises(ContractViolation, match=r"added a target|named a target twice"):
            accept_order("ranker", offered(mask), answer)


class Endless(Sequence[Target]):
    """It always has one more."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Any:
        return TARGETS[0]


class Broken(Endless):
    """It has none."""

    def __getitem__(self, place: Any) -> Any:
        raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("t0", "returned a str"),
        (b"t0", "returned a bytes"),
        ({TARGETS[0]: 1}, "returned a dict"),
        ({TARGETS[0]}, "returned a set"),
        (iter(TARGETS), "returned a tuple_iterator"),
        (offered(0b1), "returned a Candidates"),
        (True, "returned a bool"),
        (["t0"], "added a target"),
        ([None], "added a target"),
        ([replace(TARGETS[0])], "added a target"),
        (Endless(), "named a target twice"),
        (Broken(), "cannot be read: RuntimeError"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_anything_else_is_no_order(answer: object, says: str) -> None:
    with pytest.raises(ContractViolation, match=says) as caught:
        accept_order("ranker", offered(POOL.full), answer)
    assert SECRET not in str(caught.value)
    assert accept_order("ranker", offered(POOL.full), None) == ()
