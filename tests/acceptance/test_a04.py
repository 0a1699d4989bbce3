"""A4 (BerriAI/litellm#8953): a refusal that arrives as a 200 with finish_reason content_filter was never classified."""

from __future__ import annotations

from narrows.testing import Answer, Stream, completion, event, stream_events
from narrows.testing.openai_shapes import encode
from tests.e2e.support import Stage
from tests.support.metrics import Scrape

POLICY = {"target": "p", "class": "content_policy"}


def refusals(chain: Stage) -> float:
    return Scrape(chain.client.get("/metrics").text)("attempts_total", POLICY)


def test_a4_a_refusal_inside_a_200_passes_unchanged_and_is_recorded(chain: Stage) -> None:
    body = encode(completion("p", "I cannot", finish="content_filter"))
    chain.provider.script("p", Answer(200, body))
    before = refusals(chain)
    response = chain.ask("thrice")
    assert (response.status_code, response.content) == (200, body)
    decision = chain.decision(response)
    assert (decision.outcome, [row.failure_class for row in decision.attempts]) == ("answered", ["content_policy"])
    assert chain.counts("p", "fb") == (1, 0)
    assert refusals(chain) == before + 1

    chain.provider.script("p", Answer(200, encode(completion("p"))))
    assert chain.decision(chain.ask("thrice")).attempts[0].failure_class == "ok"
    assert refusals(chain) == before + 1


def test_a4_in_a_stream_too(chain: Stage) -> None:
    events = stream_events("p", finish="content_filter")
    chain.provider.script("p", Stream(events))
    before = refusals(chain)
    response = chain.ask("thrice", stream=True)
    assert response.content == b"".join(events)
    assert [row.failure_class for row in chain.decision(response).attempts] == ["content_policy"]
    assert chain.counts("p", "fb") == (1, 0)
    assert refusals(chain) == before + 1


def chunk(**choice: object) -> bytes:
    choices = [{"index": 0, "delta": {}, "finish_reason": None, **choice}]
    return event({"object": "chat.completion.chunk", "choices": choices})


def test_a4_a_refusal_in_words_that_stops_as_if_nothing_were(chain: Stage) -> None:
    events = (chunk(delta={"refusal": "I cannot"}), chunk(finish_reason="stop"), b"data: [DONE]\n\n")
    chain.provider.script("p", Stream(events))
    response = chain.ask("thrice", stream=True)
    assert response.content == b"".join(events)
    assert [row.failure_class for row in chain.decision(response).attempts] == ["content_policy"]
    assert chain.counts("p", "fb") == (1, 0)


def test_a4_one_of_several_answers_is_a_refusal(chain: Stage) -> None:
    events = (chunk(finish_reason="content_filter"), chunk(index=1, finish_reason="stop"), b"data: [DONE]\n\n")
    chain.provider.script("p", Stream(events))
    assert [row.failure_class for row in chain.decision(chain.ask("thrice", stream=True)).attempts] == [
        "content_policy"
    ]

    events = (chunk(finish_reason="stop"), chunk(index=1, finish_reason="stop"), b"data: [DONE]\n\n")
    chain.provider.script("p", Stream(events))
    assert [row.failure_class for row in chain.decision(chain.ask("thrice", stream=True)).attempts] == ["ok"]
