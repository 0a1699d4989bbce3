"""Streams at both sockets: byte for byte, as they come, held until the first event is known, and how they may end."""

from __future__ import annotations

import hashlib
import random
import ssl
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx2
import openai
import pytest

from narrows import FailureClass
from narrows.testing import Answer, Hold, Stall, Stream, error_event, event, stream_events
from tests.e2e.stages import KEYS
from tests.e2e.support import SOON, Stage
from tests.support.sse import Event, sse_events

pytestmark = pytest.mark.usefixtures("quick")

F = FailureClass
FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hé"}}]})
SECOND = b'data: {"choices":[{"index":0,"delta":{"content":"llo"}}]}\n\n'
FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"
COMMENT = b": still thinking\n\n"
AT_ONCE_SECS = 0.05


@pytest.fixture(scope="module")
def official(three_targets: Stage) -> Iterator[openai.OpenAI]:
    """The official client, with its own idea of what an error in a stream is."""
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    url = f"{three_targets.server.url}/v1"
    with (
        httpx2.Client(verify=no_certificates, trust_env=False) as http,
        openai.OpenAI(base_url=url, api_key="-", max_retries=0, http_client=http) as client,
    ):
        yield client


def our_error(events: list[Event]) -> str:
    """The code of the last event, which must be an error of the chat dialect; none of them is a clean end."""
    assert all(each.data != "[DONE]" for each in events)
    document = events[-1].json
    assert isinstance(document, dict)
    error = document["error"]
    assert isinstance(error, dict)
    assert error["decision"]
    return str(error["code"])


# ---- byte for byte, as it comes ----------------------------------------------------------------------------------


def odd_stream(seed: int) -> tuple[bytes, ...]:
    """A long stream of everything that the grammar allows, cut anywhere."""
    chance = random.Random(seed)
    blocks = [COMMENT, FIRST]
    for number in range(200):
        text = "".join(chance.choices('aé漢🦜\\"\n ', k=chance.randrange(1, 40)))
        whole = event({"choices": [{"index": 0, "delta": {"content": text}}], "n": number})
        blocks.append(
            chance.choice(
                [
                    whole,
                    whole.replace(b"\n", b"\r\n"),
                    b"id: 7\nevent: message\nretry: 10\n" + whole,
                    b": ping\n" + whole,
                    b"\n\n" + whole,
                    b": ping\r\n",
                    b'data: {"choices":\ndata: []}\r\n\n',
                ]
            )
        )
    stream = b"".join(blocks) + FINISH + DONE + b"\n: the end\n"
    places = sorted({0, len(stream), *chance.sample(range(len(stream)), 300)})
    return tuple(stream[begin:end] for begin, end in pairwise(places))


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_passes_byte_for_byte_however_it_is_cut(stage: Stage, seed: int) -> None:
    chunks = odd_stream(seed)
    stage.provider.script("a", Stream(chunks))
    response = stage.ask(stream=True)
    assert hashlib.sha256(response.content).hexdigest() == hashlib.sha256(b"".join(chunks)).hexdigest()
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    decision = stage.decision(response)
    assert (decision.outcome, decision.code, decision.attempts[0].failure_class) == ("answered", "ok", "ok")
    assert stage.counts("a", "b", "c") == (1, 0, 0)


def test_an_event_too_long_to_be_read_passes_all_the_same(stage: Stage) -> None:
    huge = event({"choices": [{"index": 0, "delta": {"content": "x" * 3_000_000}}]})
    stage.provider.script("a", Stream((FIRST, huge, FINISH, DONE)))
    assert stage.ask(stream=True).content == FIRST + huge + FINISH + DONE


def test_each_chunk_arrives_before_the_next_is_sent(stage: Stage) -> None:
    events = [FIRST, SECOND, COMMENT, b": a keep-alive of one line\n", FINISH, DONE]
    held = [part for number, each in enumerate(events) for part in (Hold(f"gate-{number}"), each)]
    stage.provider.script("a", Stream(tuple(held)))
    stage.provider.release("gate-0")
    with stage.open() as response:
        (call,) = stage.provider.calls
        chunks = response.iter_raw()
        for number, each in enumerate(events):
            assert next(chunks) == each
            assert len(stage.provider.sent(call.number)) == number + 1
            stage.provider.release(f"gate-{number + 1}")
        assert next(chunks, None) is None


def test_chunks_200_ms_apart_each_arrive_within_50_ms(stage: Stage) -> None:
    """The one place where the clock decides. A busy machine may be late once; three times in a row it is us."""
    events = (FIRST, SECOND, DONE)
    stage.provider.script("a", Stream(events, delay=0.2))
    late: list[float] = []
    for _ in range(3):
        with stage.open() as response:
            arrived = [time.monotonic() for _ in response.iter_raw()]
        sent = [each.at for each in stage.provider.sent(stage.provider.calls[-1].number)]
        assert len(arrived) == len(sent) == len(events)
        late.append(max(there - here for there, here in zip(arrived, sent, strict=True)))
        if late[-1] < AT_ONCE_SECS:
            return
    pytest.fail(f"the slowest chunks took {late} seconds")


# ---- the first event is held ---------------------------------------------------------------------------------------


def test_nothing_is_sent_before_the_first_event_is_known(stage: Stage) -> None:
    broken = error_event(F.SERVER_ERROR)
    stage.provider.script("a", Stream((COMMENT, b": ping\n", broken[:20], Hold(), broken[20:])))
    stage.provider.script("b", Stream((COMMENT, FIRST, FINISH, DONE)))
    with stage.caller("once") as caller:
        stage.provider.wait_held(1)
        stage.provider.release()
        # what arrived is one answer from its first byte on: b's, with b's comment before b's first event
        head, _, body = caller.read_until(b"[DONE]").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"x-narrows-target: b" in head.lower()
    assert body.count(COMMENT) == 1
    assert stage.counts("a", "b", "c") == (1, 1, 0)


@pytest.mark.parametrize("cut", range(len(COMMENT + FIRST)))
def test_a_cut_before_the_first_event_is_whole_moves_on(stage: Stage, cut: int) -> None:
    stage.provider.script("a", Stream((COMMENT + FIRST,), cut_at=cut))
    stage.provider.script("b", Stream((FIRST, FINISH, DONE)))
    response = stage.ask("once", stream=True)
    assert response.content == FIRST + FINISH + DONE
    assert response.headers["x-narrows-target"] == "b"
    assert stage.counts("a", "b", "c") == (1, 1, 0)
    assert [row.failure_class for row in stage.decision(response).attempts] == ["server_error", "ok"]


@pytest.mark.parametrize("events", [(), (COMMENT,), (FIRST[:-2],)], ids=["empty", "comments", "no-end"])
def test_a_stream_that_ends_before_its_first_event_moves_on(stage: Stage, events: tuple[bytes, ...]) -> None:
    stage.provider.script("a", Stream(events))
    response = stage.ask("once", stream=True)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "b")
    assert stage.counts("a", "b", "c") == (1, 1, 0)


# ---- an error event in the middle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [failure for failure in F if failure is not F.AUTHENTICATION])
@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
def test_an_error_event_passes_and_ends_the_stream(
    stage: Stage, official: openai.OpenAI, failure: FailureClass, together: bool
) -> None:
    broken = error_event(failure, message="from a, data: [DONE] it said")
    chunks = (FIRST, SECOND, broken, SECOND, DONE)
    stage.provider.script("a", Stream((FIRST, b"".join(chunks[1:])) if together else chunks))
    response = stage.ask(stream=True)
    assert response.content == FIRST + SECOND + broken
    decision = stage.decision(response)
    assert (decision.outcome, decision.code) == ("upstream_error", "upstream_error")
    assert [row.failure_class for row in decision.attempts] == [failure]
    assert stage.counts("a", "b", "c") == (1, 0, 0)  # after the first byte nothing moves
    with pytest.raises(openai.APIError, match="from a"):
        read_with(official, "chat")


ECHO = error_event(F.AUTHENTICATION, message=f"Incorrect API key provided: {KEYS['E2E_KEY_ONE']}.")
MASKED = error_event(F.AUTHENTICATION, message=f"Incorrect API key provided: {KEYS['E2E_KEY_ONE'][:8]}****.")


@pytest.mark.parametrize(
    "stream",
    [
        Stream((FIRST, ECHO, DONE)),
        Stream((FIRST + ECHO + DONE,)),
        Stream((FIRST, ECHO[:-1], Hold("between"), b"\n", DONE)),
        Stream((FIRST, ECHO[:-1])),
        Stream((FIRST, ECHO[:-2])),
        Stream((FIRST, ECHO[:-1]), cut_at=len(FIRST + ECHO) - 1),
        Stream((FIRST, ECHO[:60], ECHO[60:])),
        Stream((FIRST, MASKED, DONE)),
        Stream((FIRST, b"event: error\n" + ECHO)),
        Stream((FIRST, ECHO.replace(b"\n", b"\r"))),
        Stream((FIRST, b"id: 1\r\n" + ECHO.replace(b"\n", b"\r\n"))),
    ],
    ids=["apart", "together", "late-blank", "no-blank", "no-newline", "cut", "pieces", "masked", "named", "cr", "crlf"],
)
def test_a_key_in_an_error_event_never_gets_out(stage: Stage, stream: Stream) -> None:
    stage.provider.open("between")
    stage.provider.script("a", stream)
    response = stage.ask(stream=True)
    key = KEYS["E2E_KEY_ONE"].encode()
    assert key not in response.content
    assert key[:8] not in response.content
    assert stage.counts("a", "b", "c") == (1, 0, 0)
    if response.status_code == 200:
        assert response.content.startswith(FIRST)
        assert our_error(sse_events(response.content)) in ("upstream_error", "upstream_incomplete")
    else:  # one chunk: the error was there before anything was sent
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_error")


# ---- a cut, a stall, an end too early ------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(FIRST), len(FIRST + SECOND) + 1))
def test_a_cut_at_any_byte_ends_in_our_error_event(stage: Stage, official: openai.OpenAI, cut: int) -> None:
    stage.provider.script("a", Stream((FIRST, SECOND, FINISH, DONE), cut_at=cut))
    response = stage.ask(stream=True)
    events = sse_events(response.content)
    assert our_error(events) == "upstream_incomplete"
    whole = FIRST + SECOND if cut == len(FIRST + SECOND) else FIRST
    assert response.content.startswith(whole)
    assert len(events) == len(sse_events(whole)) + 1  # whole events of the upstream, then ours
    decision = stage.decision(response)
    assert (decision.outcome, decision.code) == ("upstream_incomplete", "upstream_incomplete")
    assert [row.failure_class for row in decision.attempts] == ["server_error"]
    assert stage.counts("a", "b", "c") == (1, 0, 0)
    with pytest.raises(openai.APIError):
        read_with(official, "chat")


def test_a_cut_within_an_overlong_event_leaves_our_error_readable(stage: Stage) -> None:
    huge = event({"choices": [{"index": 0, "delta": {"content": "x" * 3_000_000}}]})
    stage.provider.script("a", Stream((FIRST, huge), cut_at=len(FIRST) + 2_500_000))
    response = stage.ask(stream=True)
    assert our_error(sse_events(response.content)) == "upstream_incomplete"


def test_a_reset_is_a_cut(stage: Stage) -> None:
    stage.provider.script("a", Stream((FIRST, Hold(), SECOND), cut_at=len(FIRST + SECOND), reset=True))
    with stage.open() as response:
        chunks = response.iter_raw()
        assert next(chunks) == FIRST
        stage.provider.release()
        assert our_error(sse_events(b"".join(chunks))) == "upstream_incomplete"


@pytest.mark.parametrize("part", [b"", SECOND[:9], SECOND[:-1]], ids=["event", "half", "line"])
def test_a_stall_ends_in_our_error_event(stage: Stage, official: openai.OpenAI, part: bytes) -> None:
    stage.provider.script("a", Stall(after_headers=True, body=FIRST + part))
    response = stage.ask("hasty", stream=True)
    events = sse_events(response.content)
    assert our_error(events) == "upstream_timeout"
    assert len(events) == 2
    decision = stage.decision(response)
    assert (decision.outcome, decision.code) == ("upstream_incomplete", "upstream_timeout")
    assert [row.failure_class for row in decision.attempts] == ["timeout"]
    assert stage.counts("a", "b") == (1, 0)
    stage.provider.wait_closed(1)
    if not part:
        with pytest.raises(openai.APIError):
            read_with(official, "hasty")


@pytest.mark.parametrize("tail", [b"", SECOND[:-1]], ids=["whole", "no-blank"])
def test_a_clean_end_without_finish_and_done_is_incomplete(stage: Stage, official: openai.OpenAI, tail: bytes) -> None:
    stage.provider.script("a", Stream((FIRST, SECOND + tail)))
    response = stage.ask(stream=True)
    assert response.content.startswith(FIRST + SECOND)
    assert our_error(sse_events(response.content)) == "upstream_incomplete"
    assert stage.decision(response).outcome == "upstream_incomplete"
    with pytest.raises(openai.APIError):
        read_with(official, "chat")


@pytest.mark.parametrize(
    "stream",
    [
        Stream((FIRST, SECOND, FINISH)),
        Stream((FIRST, SECOND, DONE)),
        Stream((FIRST, FINISH, DONE.strip())),
        Stream((FIRST, FINISH[:-1])),
        Stream((FIRST, FINISH, DONE), cut_at=len(FIRST + FINISH + DONE)),  # nothing can be missing behind [DONE]
        Stream((FIRST + FINISH,)),
        Stream((DONE.join((FIRST, b"")),)),
    ],
    ids=["no-done", "no-finish", "no-newline", "no-blank", "cut-behind-done", "one-chunk", "one-chunk-done"],
)
def test_a_finish_or_done_is_an_end(stage: Stage, official: openai.OpenAI, stream: Stream) -> None:
    stage.provider.script("a", stream)
    response = stage.ask(stream=True)
    assert response.content == b"".join(chunk for chunk in stream.chunks or () if isinstance(chunk, bytes))
    assert stage.decision(response).outcome == "answered"
    assert read_with(official, "chat").startswith("Hé")


def test_a_finish_that_is_cut_before_done_is_incomplete(stage: Stage) -> None:
    stage.provider.script("a", Stream((FIRST, FINISH, DONE), cut_at=len(FIRST + FINISH) + 3))
    response = stage.ask(stream=True)
    assert our_error(sse_events(response.content)) == "upstream_incomplete"


# ---- what is recorded of it ----------------------------------------------------------------------------------------


def test_reported_tokens_are_recorded_as_reported_and_others_as_estimated(stage: Stage) -> None:
    stage.provider.script("a", Stream(stream_events("a", usage=(11, 0))))
    (row,) = stage.decision(stage.ask(stream=True)).attempts
    assert (row.usage, row.input_tokens, row.output_tokens) == ("reported", 11, 0)
    stage.provider.script("a", Stream((FIRST, SECOND, DONE)))
    (row,) = stage.decision(stage.ask(stream=True)).attempts
    assert row.usage == "estimated"
    assert row.input_tokens > 0
    assert row.output_tokens > 0


def test_a_refusal_in_the_finish_is_recorded_and_passes_unchanged(stage: Stage) -> None:
    chunks = stream_events("a", finish="content_filter")
    stage.provider.script("a", Stream(chunks))
    response = stage.ask(stream=True)
    assert response.content == b"".join(chunks)
    decision = stage.decision(response)
    assert (decision.outcome, decision.attempts[0].failure_class) == ("answered", "content_policy")
    assert stage.counts("a", "b", "c") == (1, 0, 0)


def test_a_caller_that_goes_behind_done_has_its_answer(stage: Stage) -> None:
    """Official clients stop reading at [DONE], whatever the upstream does then."""
    stage.provider.script("a", Stream((FIRST, FINISH, DONE), end=False))
    with stage.open() as response:
        received = b""
        for chunk in response.iter_raw():
            received += chunk
            if received.endswith(DONE):
                break
    assert stage.decision(response).outcome == "answered"
    stage.provider.wait_closed(1, SOON)


def test_a_plain_answer_passes_byte_for_byte(stage: Stage) -> None:
    body = b' {"choices" : [ {"index":0,"message":{"role":"assistant","content":"H\\u00e9"}} ] ,"odd":1.50} \n'
    stage.provider.script("a", Answer(200, body))
    response = stage.ask()
    assert (response.status_code, response.content) == (200, body)


def read_with(client: openai.OpenAI, route: str) -> str:
    """What the official client makes of the stream."""
    stream = client.chat.completions.create(model=route, messages=[{"role": "user", "content": "?"}], stream=True)
    with stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream)
