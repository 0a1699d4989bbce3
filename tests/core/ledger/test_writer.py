"""One sink's thread: batches, trying again, giving up, stopping. Nothing is lost that is not counted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from narrows.ledger import Gap, LedgerUnavailable
from tests.core.ledger.support import Kept, until, writing


def test_what_is_offered_is_recorded_and_flushed_in_order_in_one_other_thread() -> None:
    with writing() as run:
        run.offer(*range(300 - 201), 1_000)
        until(lambda: run.writer.queue.pending == 0)
        run.stop()
    assert run.kept.of("policy") == [("a1" * 32, "the policy")]  # once, before the first
    names = [name for name, _ in run.kept.calls]
    assert names[:3] == ["open", "policy", "record"]
    assert names[-2:] == ["flush", "close"]
    assert run.kept.of("record") == [f"dec_{n:04}" for n in (*range(99), 1_000)]
    assert len(run.kept.threads) == 1
    assert threading.get_ident() not in run.kept.threads
    assert (run.failures, run.writer.queue.dropped) == ([], 0)


def test_a_row_is_there_within_a_second_also_after_a_long_sleep() -> None:
    with writing() as run:
        for n in range(3):
            time.sleep(0.06)
            started = time.monotonic()
            run.offer(n)
            until(lambda n=n: len(run.kept.of("flush")) > n)  # type: ignore[misc]
            assert time.monotonic() - started < 1


def test_a_flush_that_fails_is_called_again_and_what_does_not_fit_meanwhile_is_a_gap() -> None:
    kept, down = Kept(), threading.Event()
    down.set()
    kept.raises["flush"] = lambda _: OSError("text") if down.is_set() else None
    with writing(kept, limit=5) as run:
        run.offer(0)
        until(lambda: len(run.failures) >= 2)
        run.offer(*range(1, 8))
        assert (run.writer.queue.pending, run.writer.queue.dropped) == (5, 3)
        down.clear()
        until(lambda: kept.of("gap"))
        run.stop()
    assert Counter(kept.of("record")) == Counter(f"dec_{n:04}" for n in range(5))  # none twice
    assert kept.of("gap") == [Gap(5.0, 7.0, 3, "queue_full")]
    assert [loud for _, loud in run.failures] == [True] + [False] * (len(run.failures) - 1)  # told once a minute
    assert {name for name, _ in run.failures} == {"OSError"}


def test_a_store_that_refuses_everything_loses_nothing_when_it_is_back() -> None:
    kept, down = Kept(), threading.Event()
    down.set()
    kept.raises["record"] = lambda _: OSError() if down.is_set() else None
    with writing(kept) as run:
        run.offer(*range(20))
        until(lambda: len(run.failures) >= 4)
        down.clear()
        until(lambda: run.writer.queue.pending == 0)
    assert Counter(kept.of("record")) == Counter(f"dec_{n:04}" for n in range(20))
    assert run.writer.queue.dropped == 0


def test_a_decision_that_alone_fails_is_given_up_and_leaves_a_gap() -> None:
    kept = Kept()
    kept.raises["record"] = lambda ident: ValueError() if ident in ("dec_0000", "dec_0001") else None
    with writing(kept) as run:
        run.offer(0, 1)
        n = 1
        while not kept.of("gap") and n < 30:
            n += 1
            run.offer(n)
            until(lambda n=n: f"dec_{n:04}" in kept.of("record"))  # type: ignore[misc]  # nobody waits behind it
        run.stop()
    (gap,) = kept.of("gap")
    assert gap == Gap(0.0, 1.0, 2, "write_failed")
    assert n >= 4  # not at the first failure: it may have been the store
    assert run.writer.queue.dropped == 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_asynchronous_methods_are_awaited_on_the_gateways_kind_of_loop(backend: Literal["asyncio", "trio"]) -> None:
    kept, seen = Kept(), set()

    async def answer() -> None:
        await anyio.lowlevel.checkpoint()
        seen.add(anyio.get_cancelled_exc_class().__module__.partition(".")[0])

    kept.answers = dict.fromkeys(["open", "policy", "record", "gap", "flush", "close"], lambda _: answer())
    with writing(kept, backend=backend) as run:
        run.offer(1, 2)
        run.stop()
    assert kept.of("record") == ["dec_0001", "dec_0002"]
    assert seen == {backend}


def test_a_late_answer_is_a_failure_also_from_one_that_swallows_its_cancellation() -> None:
    kept = Kept()

    async def late(_: object) -> None:
        try:
            await anyio.sleep(10)
        except anyio.get_cancelled_exc_class():
            return

    kept.answers["record"] = late
    with writing(kept, deadline_secs=0.02) as run:
        run.offer(1)
        until(lambda: run.failures)
        assert run.failures[0] == ("Late", True)
        assert run.writer.queue.pending == 1


@pytest.mark.parametrize("error", [LedgerUnavailable("locked"), ValueError("the secret")])
def test_a_sink_that_is_unavailable_is_opened_again_and_one_that_cannot_work_is_refused(error: Exception) -> None:
    kept, down = Kept(), threading.Event()
    down.set()
    kept.raises["open"] = lambda _: error if down.is_set() else None
    with writing(kept) as run:
        if isinstance(error, LedgerUnavailable):
            assert run.writer.refusal is None
            run.offer(1)
            down.clear()
            until(lambda: kept.of("record"))
        else:
            assert run.writer.refusal is error
            run.stop()
            assert (kept.calls, run.failures) == ([], [])


def test_a_stop_is_bounded_and_what_is_left_is_counted() -> None:
    kept = Kept()
    kept.raises["flush"] = lambda _: OSError()
    with writing(kept) as run:
        run.offer(*range(50))
        until(lambda: run.failures)
        started = time.monotonic()
        run.stop(0.2)
        assert time.monotonic() - started < 2
        assert (run.writer.queue.pending, run.writer.queue.dropped) == (0, 50)
        assert kept.of("close") == [None]


def test_a_sink_that_never_comes_back_is_left_behind() -> None:
    kept, hang = Kept(), threading.Event()
    kept.answers["record"] = lambda _: hang.wait(30)
    try:
        with writing(kept) as run:
            run.offer(1, 2, 3)
            until(lambda: kept.of("record"))
            run.writer.stop(0)
            run.writer.wait_ended(0.05)
            assert (run.writer.queue.pending, run.writer.queue.dropped) == (0, 3)
            hang.set()
            run.writer.wait_ended(5)
            assert run.writer.queue.dropped == 3  # it came back, and is not counted a second time
    finally:
        hang.set()


def test_a_thread_that_ends_by_itself_keeps_nobody_waiting() -> None:
    kept = Kept()
    kept.raises["record"] = lambda _: SystemExit()
    with writing(kept) as run:
        run.offer(1)
        until(lambda: run.writer.queue.dropped == 1)
        run.offer(2)
        assert run.failures == [("SystemExit", True)]
        assert run.writer.queue.dropped == 2


def test_nothing_is_asked_of_a_sink_that_has_nothing_to_do() -> None:
    with writing() as run:
        time.sleep(0.15)
        run.stop()
    assert [name for name, _ in run.kept.calls] == ["open", "close"]
