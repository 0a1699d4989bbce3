"""A18 (Portkey-AI/gateway#1797): the upstream was cut mid-answer, and the gateway ended its 200 cleanly."""

from __future__ import annotations

from narrows.testing import Stream, stream_events
from tests.e2e.support import Stage
from tests.support.sse import sse_events

TOKENS = stream_events("p", " ".join(f"token-{number}" for number in range(60)))


def test_a18_40_of_60_tokens_end_in_an_error_event_and_no_terminator(chain: Stage) -> None:
    forty = 1 + 40  # behind the role
    chain.provider.script("p", Stream(TOKENS[:forty], cut_at=len(b"".join(TOKENS[:forty]))))
    response = chain.ask("once", stream=True)
    events = sse_events(response.content)
    assert len(events) == forty + 1
    assert b"".join(TOKENS[:forty]) == response.content[: -len(events[-1].data) - len("data: \n\n")]
    assert '"code":"upstream_incomplete"' in events[-1].data
    assert b"[DONE]" not in response.content
    decision = chain.decision(response)
    assert (decision.outcome, decision.status) == ("upstream_incomplete", 200)
    assert chain.counts("p", "fb") == (1, 0)

    chain.provider.script("p", Stream(TOKENS))
    assert sse_events(chain.ask("once", stream=True).content)[-1].data == "[DONE]"
