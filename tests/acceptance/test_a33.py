"""A33 (BerriAI/litellm#18708): the ledger's database was out of connections, and authentication itself failed.

That p99 stays within 10 % is measured, not tested: `python -m benchmarks.ledger locked`.
"""

from __future__ import annotations

import threading
import time
from hashlib import sha256
from typing import ClassVar

import pytest

from narrows import Decision, Gateway, Sink, hookimpl
from narrows.server import Application
from narrows.testing import RecordingProvider
from tests.core.ledger.support import until
from tests.e2e.support import CHAT, Serve, chat, plain_client
from tests.support.config import basic_config

KEY = "nrw_a33"
QUEUE = 10
ASKED = 200


class Blocks(Sink):
    """A store that blocks for ever, until the test lets it go."""

    go: ClassVar[threading.Event]
    kept: ClassVar[list[str]]
    threads: ClassVar[set[int]]

    @hookimpl
    def record(self, decision: Decision) -> None:
        """Keeps it, once it may."""
        Blocks.threads.add(threading.get_ident())
        Blocks.go.wait(60)
        Blocks.kept.append(decision.id)


def test_a33_a_store_that_blocks_for_ever_costs_no_request_anything(
    serve: Serve, provider: RecordingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows.recorders.FLUSH_SECS", 0.3)
    Blocks.go, Blocks.kept, Blocks.threads = threading.Event(), [], set()
    more = (
        f'\n[auth]\nmode = "keys"\n[keys.ci]\nsha256 = "{sha256(KEY.encode()).hexdigest()}"\n'
        f'[sinks.blocks]\nkind = "blocks"\nqueue = {QUEUE}\n'
    )
    text = basic_config({"eu": provider.base_url}, more=more)
    gateway = Gateway.from_text(text, kinds={"sinks.blocks": Blocks})
    recorders, server_threads = gateway.engine.recorders, threading.enumerate()
    try:
        with serve(Application(gateway)) as server, plain_client(server.url) as client:
            client.headers["authorization"] = f"Bearer {KEY}"
            Blocks.go.set()
            assert client.post(CHAT, json=chat("chat")).status_code == 200  # the control: it is kept
            until(lambda: len(Blocks.kept) == 1)
            Blocks.go.clear()
            answers = [client.post(CHAT, json=chat("chat")) for _ in range(ASKED)]
            assert {answer.status_code for answer in answers} == {200}
            assert client.post(CHAT, json=chat("chat"), headers={"authorization": "Bearer no"}).status_code == 401
            assert provider.count() == 1 + ASKED
            until(lambda: (recorders.queued, recorders.dropped) == (QUEUE, ASKED - QUEUE + 1))
            stopping = time.monotonic()
        assert time.monotonic() - stopping < 5
        assert (recorders.queued, recorders.dropped) == (0, ASKED + 1)
    finally:
        Blocks.go.set()
    assert len(Blocks.threads) == 1  # one thread is asked, and it serves nobody
    assert not Blocks.threads & {thread.ident for thread in server_threads}
