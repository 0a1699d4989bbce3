"""A17 (maximhq/bifrost PR#6802, #828): abandoned streams pinned upstream connections for ever."""

from __future__ import annotations

from narrows.testing import Answer, Stream, event
from tests.e2e.support import SOON, Stage, next_served, nothing_left

FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello there"}}]})


def test_a17_50_streams_abandoned_at_their_first_chunk_do_not_pin_a_pool_of_4(chain: Stage) -> None:
    with nothing_left(chain, "small"):
        chain.provider.script("small", Stream((FIRST,), end=False))
        waiting = [chain.caller("small") for _ in range(50)]
        for number in range(50):
            served = next_served(waiting, b"Hello there")
            assert chain.provider.open_connections <= 4
            waiting.remove(served)
            served.leave()
            chain.provider.wait_closed(number + 1, SOON)
        chain.provider.script("small", Answer())
        assert chain.ask("small").status_code == 200
        assert chain.counts("small") == (51,)
