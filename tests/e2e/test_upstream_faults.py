"""What an upstream may send instead of an answer: each has its code, its exact calls, and one log line without content."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from narrows import FailureClass
from narrows.testing import (
    Answer,
    Big,
    Raw,
    RecordingProvider,
    Redirect,
    Scripted,
    Stream,
    completion,
    failure_answer,
    stream_events,
)
from tests.e2e.stages import KEYS
from tests.e2e.support import PROMPT, Stage, logged

pytestmark = pytest.mark.usefixtures("quick")

MIB = 1024 * 1024
HTML = b"<!doctype html><html><body>Welcome to nginx! CONTENT-canary</body></html>"
EVENTS = b"".join(stream_events("a"))


@dataclass(frozen=True)
class Fault:
    """One way to be wrong. `stream`: what was asked for. `moves`: 1 + max_retries calls, then the next target."""

    name: str
    answer: Scripted
    stream: bool = False
    moves: bool = True
    failure: FailureClass = FailureClass.SERVER_ERROR


def typed(content_type: str, body: bytes) -> Answer:
    return Answer(200, body, {"content-type": content_type})


FAULTS = (
    Fault("html-plain", typed("text/html", HTML)),
    Fault("html-stream", typed("text/html", HTML), stream=True),
    Fault("html-called-json", typed("application/json", HTML)),
    Fault("html-called-events", typed("text/event-stream", HTML), stream=True),
    Fault("empty-plain", Answer(200, b"")),
    Fault("empty-stream", Stream(()), stream=True),
    Fault("empty-json-stream", Answer(200, b""), stream=True),
    Fault("no-content", Answer(204)),
    Fault("half-json", Answer(200, b'{"id":"1","choices":[{"index":0,"mess')),
    Fault("cut-plain", Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{")),
    Fault("cut-head", Raw(b"HTTP/1.1 200 OK\r\ncontent-le")),
    Fault("no-http", Raw(b"220 mail.example CONTENT-canary\r\n")),
    Fault("json-array", Answer(200, b"[]")),
    Fault("no-choices", Answer(200, b'{"id":"1"}')),
    Fault("null-choices", Answer(200, b'{"choices":null}')),
    Fault("not-utf-8", Answer(200, b'{"choices":[{"message":"\xff"}]')),
    Fault("deep-json", Answer(200, b"[" * 100_000)),
    Fault("json-to-a-stream", Answer(200, completion("a")), stream=True),
    Fault("events-to-a-plain-request", typed("text/event-stream", EVENTS)),
    Fault("events-called-json", typed("application/json", EVENTS), stream=True),
    Fault("events-called-text", typed("text/plain", EVENTS), stream=True),
    Fault("error-in-200", Answer(200, failure_answer(FailureClass.SERVER_ERROR).body)),
    Fault("error-in-200-stream", Answer(200, failure_answer(FailureClass.SERVER_ERROR).body), stream=True),
    Fault("html-500", Answer(500, HTML, {"content-type": "text/html"})),
    Fault("empty-500", Answer(500, b""), stream=True),
    Fault("redirect-301", Redirect(301, "{elsewhere}"), moves=False, failure=FailureClass.INVALID_REQUEST),
    Fault("redirect-307", Redirect(307, "{elsewhere}"), moves=False, failure=FailureClass.INVALID_REQUEST),
    Fault("redirect-303-stream", Redirect(303, "{elsewhere}"), True, False, FailureClass.INVALID_REQUEST),
)
EVERY_FAULT = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))


@EVERY_FAULT
def test_each_fault_has_its_calls(stage: Stage, fault: Fault) -> None:
    with RecordingProvider() as elsewhere:
        stage.provider.script("a", somewhere(fault.answer, elsewhere))
        response = stage.ask(stream=fault.stream)
        assert stage.counts("a", "b", "c") == ((2, 1, 0) if fault.moves else (1, 0, 0))
        assert elsewhere.connections == 0
    assert response.status_code == (200 if fault.moves else 502)
    failed = stage.decision(response).attempts[: 2 if fault.moves else 1]
    assert {row.failure_class for row in failed} == {fault.failure}
    assert b"canary" not in response.content
    assert "location" not in response.headers


@EVERY_FAULT
def test_each_fault_has_its_code_and_one_log_line(stage: Stage, fault: Fault) -> None:
    with logged() as log, RecordingProvider() as elsewhere:
        stage.provider.script("a", somewhere(fault.answer, elsewhere))
        response = stage.ask("alone", stream=fault.stream)
        lines = log.wait(response.headers["x-narrows-decision"])
    assert stage.counts("a", "b", "c") == (1, 0, 0)
    status = getattr(fault.answer, "status", 200)
    assert response.status_code == (status if status >= 400 else 502)
    assert (response.headers["x-narrows-code"], response.headers["x-narrows-class"]) == (
        "upstream_error",
        fault.failure,
    )
    if response.status_code == 502:
        assert response.json()["error"]["code"] == "upstream_error"
        assert "canary" not in response.text
    assert len(log.of("narrows.requests")) == 1
    assert not [line for line in lines for secret in ("canary", PROMPT, *KEYS.values()) if secret in line]


def somewhere(answer: Scripted, elsewhere: RecordingProvider) -> Scripted:
    """A redirect leads to another recorder, which must never hear of it."""
    if isinstance(answer, Redirect):
        return Redirect(answer.status, f"{elsewhere.base_url}/chat/completions")
    return answer


@pytest.mark.parametrize("content_type", ["text/html", "text/plain", "application/octet-stream"])
def test_a_plain_answer_is_known_by_its_body_and_not_by_its_type(stage: Stage, content_type: str) -> None:
    body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}'
    stage.provider.script("a", typed(content_type, body))
    response = stage.ask()
    assert (response.status_code, response.content, response.headers["content-type"]) == (200, body, content_type)
    assert stage.counts("a", "b", "c") == (1, 0, 0)


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_an_error_body_of_100_mb_is_not_read(stage: Stage, chunked: bool) -> None:
    stage.provider.script("a", Big(100 * MIB, status=500, chunked=chunked))
    began = time.monotonic()
    response = stage.ask("alone")
    assert time.monotonic() - began < 2
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "upstream_error"
    assert response.headers["x-narrows-class"] == "server_error"
    assert len(response.content) < 1000
    stage.provider.wait_closed(1)
    (call,) = stage.provider.calls
    taken = sum(each.size for each in stage.provider.sent(call.number))
    assert taken < 16 * MIB  # what the system's buffers hold; the gateway itself looks at 64 KiB


def test_a_huge_error_body_moves_on_like_a_small_one(stage: Stage) -> None:
    stage.provider.script("a", Big(100 * MIB, status=503))
    assert stage.ask().headers["x-narrows-target"] == "b"
    assert stage.counts("a", "b", "c") == (2, 1, 0)


def test_an_error_whose_body_stalls_is_known_by_its_status(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.outcomes.ERROR_SECS", 0.1)
    stage.provider.script("a", Stream((b'{"error":{"mess',), status=400, end=False))
    response = stage.ask()
    assert (response.status_code, response.headers["x-narrows-class"]) == (400, "invalid_request")
    assert response.json()["error"]["code"] == "upstream_error"
    assert stage.counts("a", "b", "c") == (1, 0, 0)
    stage.provider.wait_closed(1)


def test_a_plain_answer_beyond_the_limit_is_an_upstream_error(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.outcomes.ANSWER_BYTES", 1000)
    stage.provider.script("a", Answer(200, completion("a", "x" * 1000)))
    response = stage.ask("alone")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_error")
    stage.provider.script("a", Answer(200, completion("a", "x" * 100)))
    assert stage.ask("alone").status_code == 200
