"""A store is asked in a worker thread: a few at a time, for so long, and a place that is given back is given back once."""

from __future__ import annotations

import threading

import anyio
import pytest

from narrows.ledger import LedgerUnavailable, Reads

pytestmark = pytest.mark.anyio


async def test_the_answer_comes_from_another_thread() -> None:
    reads = Reads(places=1)
    for _ in range(3):
        assert await reads.ask(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await reads.ask(lambda: 1 // 0)
    assert await reads.ask(lambda: 7) == 7


async def test_a_store_that_hangs_costs_its_reader_an_error() -> None:
    reads, go = Reads(places=2, seconds=0.05), threading.Event()
    try:
        for _ in range(2):
            with pytest.raises(LedgerUnavailable, match="did not answer"):
                await reads.ask(lambda: go.wait(10))
        with pytest.raises(LedgerUnavailable, match="too many"):  # both threads hang: no third one is started
            await reads.ask(lambda: 7)
    finally:
        go.set()
    with anyio.fail_after(10):
        while True:
            try:
                assert await reads.ask(lambda: 7) == 7
            except LedgerUnavailable:
                await anyio.sleep(0.01)
            else:
                break
    assert [await reads.ask(lambda: 7) for _ in range(4)] == [7] * 4


async def test_a_caller_that_leaves_before_a_thread_began_gives_its_place_back() -> None:
    reads = Reads(places=1)
    for _ in range(3):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await reads.ask(lambda: 7)
        assert scope.cancelled_caught
    with anyio.fail_after(5):
        while True:
            try:
                assert await reads.ask(lambda: 7) == 7
            except LedgerUnavailable:
                await anyio.sleep(0.01)
            else:
                break
