"""A31 (BerriAI/litellm#39385): redaction was honoured on success, and ignored when the request failed.

A failure of every class, streamed and not, by a vendor that repeats the prompt in its error: no text of the prompt is in
the ledger, the log at DEBUG, the spans, the metrics, a decision, an exception or another caller's answer. The control: it
arrived at the vendor, and the caller has the vendor's error with it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import FailureClass
from narrows.testing import Script, Stall, Stream, error_event, failure_answer, stream_events
from tests.properties.canaries import canary, found
from tests.properties.sinks import rigged

pytestmark = pytest.mark.anyio

PROMPT = canary("prompt")
BEGUN = stream_events("eu-1", f"{PROMPT} is what you said")[:3]


def failures(failure: FailureClass) -> list[tuple[str, Script, bool, bool]]:
    """How a failure of that class comes about: a name, what the vendor does, whether the caller streams, and whether it
    is told the vendor's words. Those of a refused key it is not: vendors echo keys in them."""
    said, told = f"cannot answer: {PROMPT}", failure is not FailureClass.AUTHENTICATION
    ways: list[tuple[str, Script, bool, bool]] = [
        ("an error", failure_answer(failure, message=said), False, told),
        ("an error to a stream", failure_answer(failure, message=said), True, told),
        ("a first event", Stream((error_event(failure, message=said),)), True, told),
        ("an event", Stream((*BEGUN, error_event(failure, message=said))), True, True),
    ]
    if failure is FailureClass.TIMEOUT:
        ways += [("silence", Stall(), False, False), ("silence in a stream", Stream(BEGUN, end=False), True, True)]
    if failure is FailureClass.SERVER_ERROR:
        ways.append(("a cut", Stream(BEGUN, cut_at=len(b"".join(BEGUN))), True, True))
    return ways


async def test_a31_a_failure_of_any_class_keeps_no_prompt(tmp_path: Path, anyio_backend: str) -> None:
    async with rigged(tmp_path) as rig:
        for failure in FailureClass:
            for name, script, stream, told in failures(failure):
                rig.script(script)
                got = await rig.ask("chat", stream=stream, messages=[{"role": "user", "content": PROMPT}])
                decision = rig.kept[-1]
                assert decision.attempts[-1].failure_class == failure, name
                assert decision.outcome in ("upstream_error", "upstream_incomplete"), name
                assert found(got.text) == ({"prompt"} if told else set()), name
        assert all(found(call.body) == {"prompt"} for call in rig.provider.calls)
        sinks = await rig.sinks()
        assert sinks == {name: set() for name in sinks}
