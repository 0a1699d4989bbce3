"""What does not fit is dropped, counted and told of once; strangers cannot push callers out; everything is accounted for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from narrows import Gap
from narrows.ledger.queue import BURST, LONGEST_SECS, PER_SEC, QUIET_SECS, Queue
from tests.core.ledger.support import decision


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def queue(limit: int) -> tuple[Queue, Clock]:
    clock = Clock()
    return Queue(limit, clock), clock


def offer(to: Queue, *numbers: int, principal: str | None = "ci") -> None:
    for n in numbers:
        to.offer(decision(n, principal), "the policy")


def test_a_full_queue_drops_and_tells_of_it_once_there_is_room() -> None:
    full, _ = queue(4)
    offer(full, *range(10))
    assert (full.pending, full.dropped, full.gaps()) == (4, 6, [])
    taken = full.take(10)
    assert [entry.decision.ts for entry in taken] == [0, 1, 2, 3]
    offer(full, 10)
    assert (full.pending, full.dropped, full.gaps()) == (4, 7, [])  # in the sink's hands is not yet written
    full.done(2)
    assert full.gaps() == [Gap(4.0, 10.0, 7, "queue_full")]
    assert full.gaps(final=True) == []
    offer(full, 11)
    assert (full.pending, full.dropped) == (3, 7)


def test_one_jam_is_one_gap_however_many_batches_it_lasts() -> None:
    full, _ = queue(10)
    for n in range(50):
        offer(full, *range(n * 3, n * 3 + 3))
        if full.pending == 10:
            full.done(len(full.take(2)))
            assert full.gaps() == []
    dropped = full.dropped
    assert dropped > 20
    full.done(len(full.take(5)))
    (gap,) = full.gaps()
    assert (gap.count, gap.reason) == (dropped, "queue_full")


def test_strangers_have_a_share_of_their_own() -> None:
    flooded, clock = queue(100_000)
    offer(flooded, *range(BURST + 500), principal=None)
    assert (flooded.pending, flooded.dropped) == (BURST, 500)
    offer(flooded, *range(2_000, 7_000))
    assert (flooded.pending, flooded.dropped) == (BURST + 5_000, 500)  # callers are not meant
    clock.now += 10
    offer(flooded, *range(8_000, 8_100), principal=None)
    assert flooded.dropped == 500 + 100 - 10 * PER_SEC


def test_a_flood_of_strangers_is_one_gap_when_it_is_over_and_one_a_minute() -> None:
    flooded, clock = queue(10)
    offer(flooded, *range(20), principal=None)
    assert flooded.pending == 1  # a tenth of so small a queue
    assert flooded.gaps() == []
    clock.now += QUIET_SECS
    assert flooded.gaps() == [Gap(1.0, 19.0, 19, "unauthenticated")]
    for n in range(100, 100 + int(LONGEST_SECS) + 1):
        offer(flooded, *[n] * 5, principal=None)
        assert (n < 100 + LONGEST_SECS) or flooded.gaps()
        clock.now += 1


def test_half_of_the_queue_is_the_callers_however_long_nothing_is_written() -> None:
    stuck, clock = queue(40)
    for n in range(1_000):
        offer(stuck, n, principal=None)
        clock.now += 60
    assert stuck.pending == 21
    offer(stuck, *range(2_000, 2_019))
    assert stuck.pending == 40


def test_a_closed_queue_counts_what_comes_too_late() -> None:
    closed, _ = queue(4)
    offer(closed, 1)
    closed.close()
    offer(closed, 2)
    assert (closed.pending, closed.dropped) == (1, 1)
    closed.abandon()
    closed.done(1)  # a sink that comes back after all changes nothing
    assert (closed.pending, closed.dropped) == (0, 2)


@given(st.lists(st.one_of(st.booleans(), st.integers(0, 7)), max_size=60), st.integers(1, 12))
def test_every_decision_is_written_pending_or_dropped_and_every_dropped_one_is_in_a_gap(
    steps: list[bool | int], limit: int
) -> None:
    some, clock = queue(limit)
    offered = written = told = hand = 0
    for step in steps:
        if isinstance(step, bool):
            offer(some, offered, principal="ci" if step else None)
            offered += 1
        elif step % 3 == 0:
            hand += len(some.take(step))
        elif step % 3 == 1 and hand:
            some.done(1)
            hand, written = hand - 1, written + 1
        else:
            clock.now += step
        told += sum(gap.count or 0 for gap in some.gaps())
        assert some.pending <= limit
        assert offered == written + some.pending + some.dropped
    told += sum(gap.count or 0 for gap in some.gaps(final=True))
    assert told == some.dropped
