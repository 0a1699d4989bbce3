"""A15 (BerriAI/litellm#37992): explicit zero usage was treated as missing and replaced by an estimate."""

from __future__ import annotations

import pytest

from narrows.testing import Answer, Stream, completion, event, stream_events
from tests.e2e.support import Stage

ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
*EVENTS, DONE = stream_events("p", "Some words of an answer.")


def streamed(*last: object) -> Stream:
    return Stream((*EVENTS, *(event({"choices": [], "usage": usage}) for usage in last), DONE))


def plain(**usage: object) -> Answer:
    body = completion("p", "Some words of an answer.")
    del body["usage"]
    return Answer(body={**body, **usage})


@pytest.mark.parametrize(
    ("zero", "absent", "stream"),
    [
        (streamed(ZERO), streamed(), True),
        (streamed({"prompt_tokens": 9, "completion_tokens": 4}, ZERO), streamed(None), True),
        (plain(usage=ZERO), plain(), False),
        (plain(usage=ZERO), plain(usage=None), False),
    ],
    ids=["stream", "stream-corrected-to-zero", "plain", "plain-null"],
)
def test_a15_reported_zeros_are_recorded_as_zero_and_absent_usage_is_estimated(
    chain: Stage, zero: Answer | Stream, absent: Answer | Stream, stream: bool
) -> None:
    chain.provider.script("p", zero)
    (row,) = chain.decision(chain.ask("once", stream=stream)).attempts
    assert (row.input_tokens, row.output_tokens, row.usage) == (0, 0, "reported")

    chain.provider.script("p", absent)
    (row,) = chain.decision(chain.ask("once", stream=stream)).attempts
    assert row.usage == "estimated"
    assert row.input_tokens > 0
    assert row.output_tokens > 0
