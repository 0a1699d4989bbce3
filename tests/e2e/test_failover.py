"""The seven failure classes at the provider's socket: which target was called how often, and what the caller got.

Three classes move on, four stop. Every "zero calls" here has its positive control in the same table.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import FailureClass
from narrows.failover import MOVING
from narrows.testing import Answer, Hold, Refuse, Script, Stall, Stream, error_event, failure_answer
from tests.e2e.stages import KEYS
from tests.e2e.support import Stage
from tests.support.sse import sse_events

pytestmark = pytest.mark.usefixtures("quick")

F = FailureClass
PLAIN_OR_STREAM = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
EVERY_CLASS = pytest.mark.parametrize("failure", list(F))
COMMENT = b": still thinking\n\n"


def calls_then_served(failure: FailureClass) -> tuple[int, int, int]:
    """The calls of a, b and c where a always fails so and b answers; one retry."""
    if failure is F.RATE_LIMITED:
        return 1, 1, 0  # another may answer at once
    return (2, 1, 0) if failure in MOVING else (1, 0, 0)


# ---- the table ---------------------------------------------------------------------------------------------------


@PLAIN_OR_STREAM
@EVERY_CLASS
def test_three_classes_move_on_and_four_stop(stage: Stage, failure: FailureClass, stream: bool) -> None:
    stage.provider.script("a", failure_answer(failure, message="from a"))
    response = stage.ask(stream=stream)
    expected = calls_then_served(failure)
    assert stage.counts("a", "b", "c") == expected
    decision = stage.decision(response)
    assert [attempt.failure_class for attempt in decision.attempts[: expected[0]]] == [failure] * expected[0]
    assert response.headers["x-narrows-attempts"] == str(sum(expected))
    if failure in MOVING:
        assert (response.status_code, response.headers["x-narrows-target"]) == (200, "b")
        assert "from a" not in response.text
        assert (decision.outcome, decision.attempts[-1].failure_class) == ("answered", "ok")
    else:
        assert (response.headers["x-narrows-target"], decision.outcome) == ("a", "upstream_error")
        assert response.headers["x-narrows-class"] == failure


@PLAIN_OR_STREAM
@EVERY_CLASS
def test_when_all_fail_the_caller_gets_the_last_ones_own_error(
    stage: Stage, failure: FailureClass, stream: bool
) -> None:
    for model in "abc":
        stage.provider.script(model, failure_answer(failure, message=f"from {model}"))
    response = stage.ask(stream=stream)
    last = "c" if failure in MOVING else "a"
    # rate_limited leaves at once while somebody is left, and is repeated only at the last
    assert stage.counts("a", "b", "c") == (
        (1, 1, 2) if failure is F.RATE_LIMITED else (2, 2, 2) if failure in MOVING else (1, 0, 0)
    )
    assert response.headers["x-narrows-class"] == failure
    assert response.headers["x-narrows-code"] == "upstream_error"
    assert response.headers["x-narrows-target"] == last
    if failure is F.AUTHENTICATION:
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_error")
        assert "from" not in response.json()["error"]["message"]
    else:
        own = failure_answer(failure, message=f"from {last}")
        assert (response.status_code, response.json()) == (own.status, own.body)
    decision = stage.decision(response)
    assert (decision.outcome, decision.code, decision.status) == (
        "upstream_error",
        "upstream_error",
        response.status_code,
    )


@EVERY_CLASS
def test_an_error_as_a_streams_first_event_counts_like_one_with_a_status(stage: Stage, failure: FailureClass) -> None:
    broken = Stream((COMMENT, error_event(failure, message="from a"), b"data: [DONE]\n\n"))
    stage.provider.script("a", broken)
    response = stage.ask(stream=True)
    assert stage.counts("a", "b", "c") == calls_then_served(failure)
    if failure in MOVING:
        assert response.headers["x-narrows-target"] == "b"
        assert sse_events(response.content)[-1].data == "[DONE]"
        assert b"from a" not in response.content
        assert COMMENT not in response.content
        return
    assert response.headers["x-narrows-class"] == failure
    if failure is F.AUTHENTICATION:
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_error")
    else:
        assert (response.status_code, response.content) == (200, error_event(failure, message="from a"))


def test_the_last_error_passes_with_its_own_status_type_and_bytes(stage: Stage) -> None:
    html = b"<html><body>upstream is down for a moment</body></html>"
    for model in "ab":
        stage.provider.script(model, failure_answer(F.SERVER_ERROR))
    stage.provider.script("c", Answer(503, html, {"content-type": "text/html", "retry-after": "7", "x-other": "kept"}))
    response = stage.ask("once")
    assert (response.status_code, response.content) == (503, html)
    assert (response.headers["content-type"], response.headers["retry-after"]) == ("text/html", "7")
    assert "x-other" not in response.headers


def test_retry_after_is_passed_on_also_where_the_body_is_too_large_for_it(stage: Stage) -> None:
    for body in (None, b"x" * 100_000):
        stage.provider.script("a", Answer(429, body, {"retry-after": "31"}))
        response = stage.ask("alone")
        assert (response.status_code, response.headers["retry-after"]) == (429, "31")
        assert response.headers["x-narrows-class"] == "rate_limited"
        assert response.json()["error"]
        assert len(response.content) < 1000


# ---- the route's option ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("route", "failure", "expected"),
    [
        ("off", F.SERVER_ERROR, (2, 0, 0)),  # the same target may still be asked again
        ("off", F.TIMEOUT, (2, 0, 0)),
        ("off", F.RATE_LIMITED, (2, 0, 0)),
        ("timeouts", F.SERVER_ERROR, (2, 0, 0)),
        ("timeouts", F.RATE_LIMITED, (2, 0, 0)),
        ("timeouts", F.TIMEOUT, (2, 1, 0)),
    ],
)
def test_a_route_may_narrow_what_moves(
    stage: Stage, route: str, failure: FailureClass, expected: tuple[int, ...]
) -> None:
    stage.provider.script("a", failure_answer(failure))
    assert stage.ask(route).is_success is (expected[1] > 0)
    assert stage.counts("a", "b", "c") == expected


@pytest.mark.parametrize("route", ["chat", "widest"])
@pytest.mark.parametrize(
    ("answer", "moves"),
    [
        (failure_answer(F.AUTHENTICATION), True),  # 401: the key
        (Answer(404, {"error": {"message": "The model `a` does not exist", "code": "model_not_found"}}), True),
        (Answer(403, {"error": {"message": "Forbidden"}}), False),  # 403 stops: it may be a refusal
        (failure_answer(F.INVALID_REQUEST), False),
        (failure_answer(F.CONTENT_POLICY), False),
        (failure_answer(F.CONTENT_POLICY, status=401), False),  # whatever else is wrong with it
    ],
    ids=["401", "404", "403", "invalid", "refusal", "refusal-401"],
)
def test_a_dead_endpoint_moves_by_option_and_only_to_another_credential(
    stage: Stage, route: str, answer: Answer, moves: bool
) -> None:
    stage.provider.script("a", answer)
    response = stage.ask(route)
    moved = moves and route == "widest"
    assert stage.counts("a", "b", "c") == (1, 0, 1 if moved else 0)  # b has the key of a
    assert response.is_success is moved


@pytest.mark.parametrize("route", ["chat", "windows"])
def test_a_prompt_that_is_too_long_moves_by_option_and_only_to_a_larger_window(stage: Stage, route: str) -> None:
    stage.provider.script("a", failure_answer(F.CONTEXT_LENGTH))
    response = stage.ask(route)
    moved = route == "windows"
    assert stage.counts("a", "b", "c") == (1, 0, 1 if moved else 0)  # b says nothing of its window
    assert response.is_success is moved


# ---- what a caller must never see --------------------------------------------------------------------------------


@PLAIN_OR_STREAM
@pytest.mark.parametrize("shape", ["status", "event"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_key_in_an_authentication_error_never_reaches_the_caller(
    stage: Stage, shape: str, stream: bool, masked: bool
) -> None:
    key = KEYS["E2E_KEY_ONE"]
    said = f"Incorrect API key provided: {key[:8] + '****' + key[-4:] if masked else key}."
    if shape == "status":
        stage.provider.script("a", failure_answer(F.AUTHENTICATION, message=said))
    elif stream:
        stage.provider.script("a", Stream((error_event(F.AUTHENTICATION, message=said),)))
    else:
        stage.provider.script("a", Answer(200, failure_answer(F.AUTHENTICATION, message=said).body))
    response = stage.ask(stream=stream)
    assert (response.status_code, response.headers["x-narrows-class"]) == (502, "authentication")
    assert key[:8] not in response.text
    assert key[:8] not in str(response.headers)
    (call,) = stage.provider.calls
    assert call.header("authorization") == f"Bearer {key}"  # it was there to be echoed

    # the control: the vendor's words do pass where the fault is the caller's
    stage.provider.script("a", failure_answer(F.INVALID_REQUEST, message="Unknown parameter: 'frobnicate'."))
    assert "frobnicate" in stage.ask().text
    # but never with the key in them, whatever class they are
    stage.provider.script("a", failure_answer(F.INVALID_REQUEST, message=f"Unknown parameter: '{key}'."))
    assert key not in stage.ask().text


# ---- without an answer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silence", "stream"),
    [
        (Stall(), False),
        (Stall(), True),
        (Stall(after_headers=True), True),
        (Stall(after_headers=True, body=COMMENT), True),
        (Stall(after_headers=True, headers={"content-type": "application/json"}, body=b'{"choi'), False),
    ],
    ids=["plain", "stream", "headers-only", "comment-only", "half-a-body"],
)
def test_a_silent_upstream_is_a_timeout(stage: Stage, silence: Stall, stream: bool) -> None:
    stage.provider.script("a", silence)
    served = stage.ask("hasty", stream=stream)
    assert (served.status_code, served.headers["x-narrows-target"]) == (200, "hasty_b")
    assert stage.decision(served).attempts[0].failure_class == "timeout"
    assert COMMENT not in served.content

    stage.provider.script("b", silence)
    response = stage.ask("hasty", stream=stream)
    assert stage.counts("a", "b") == (2, 2)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")
    assert (response.headers["x-narrows-code"], response.headers["x-narrows-class"]) == ("upstream_timeout", "timeout")
    stage.provider.wait_closed(3)


@PLAIN_OR_STREAM
def test_a_refused_connection_moves_on_and_ends_in_502(stage: Stage, stream: bool) -> None:
    response = stage.ask("refused", stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_error")
    assert (response.headers["x-narrows-class"], response.headers["x-narrows-attempts"]) == ("server_error", "2")
    assert [(row.failure_class, row.status) for row in stage.decision(response).attempts] == [
        ("server_error", None)
    ] * 2
    assert stage.ask("refused_first", stream=stream).headers["x-narrows-target"] == "b"
    assert stage.counts("b") == (1,)


@PLAIN_OR_STREAM
@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
def test_a_connection_that_closes_before_any_byte_moves_on(stage: Stage, stream: bool, reset: bool) -> None:
    stage.provider.script("a", Refuse(reset=reset))
    response = stage.ask(stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "b")
    assert stage.counts("a", "b", "c") == (2, 1, 0)


@PLAIN_OR_STREAM
def test_the_deadline_ends_all_attempts_together(stage: Stage, stream: bool) -> None:
    stage.provider.script("a", Answer(before=Hold("never")))
    response = stage.ask("short", stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline")
    assert response.headers["x-narrows-code"] == "deadline"
    stage.provider.wait_closed(1)
    assert stage.counts("a", "b") == (1, 0)
    decision = stage.decision(response)
    assert (decision.outcome, decision.code, len(decision.attempts)) == ("upstream_error", "deadline", 1)


# ---- never twice -------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_target_is_entered_twice_and_attempts_are_bounded(three_targets: Stage, data: st.DataObject) -> None:
    """Whatever fails in whatever order: a visit to a target is one run of calls, of at most 1 + max_retries."""
    three_targets.reset()
    kinds = st.lists(st.sampled_from([*F, None]), min_size=1, max_size=3)
    for model in "abc":
        answers: list[Script] = [
            Answer() if failure is None else failure_answer(failure) for failure in data.draw(kinds, label=model)
        ]
        three_targets.provider.script(model, *answers)
    three_targets.ask(data.draw(st.sampled_from(["chat", "widest", "timeouts"])), stream=data.draw(st.booleans()))
    called = [str(call.model) for call in three_targets.provider.calls]
    visits = [model for place, model in enumerate(called) if place == 0 or called[place - 1] != model]
    assert visits == sorted(set(visits))  # in the route's order, none again
    assert all(called.count(model) <= 2 for model in visits)
