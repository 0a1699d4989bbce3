"""The HTTP table of INTERFACES: which headers are on which answer, whatever way it came."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from narrows import FailureClass, Inbound
from narrows.testing import Answer, Redirect, Refuse, Stall, Stream, error_event, failure_answer, stream_events
from tests.support.sse import sse_events
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, Inside, Site, assert_refused, chat

DECISION = re.compile(r"dec_[0-9a-f]{27}")
POLICY = re.compile(r"[0-9a-f]{64}")
ON_EVERY = {"x-narrows-decision", "x-narrows-policy", "content-type"}
ON_ANSWERS = ON_EVERY | {"x-narrows-route", "x-narrows-target", "x-narrows-attempts"}
OURS = re.compile(r"x-narrows-|x-should-retry|retry-after|allow|x-request-id|content-type")
CLIENT_ERROR = "the vendor's own words"


def ours(response: httpx.Response) -> set[str]:
    """The names of the headers that INTERFACES speaks of."""
    return {name for name in response.headers if OURS.match(name)}


def assert_named(site: Site, response: httpx.Response) -> None:
    """Every answer names its decision and its policy, once."""
    assert DECISION.fullmatch(response.headers["x-narrows-decision"])
    assert response.headers["x-narrows-policy"] == site.gateway.policy
    assert POLICY.fullmatch(site.gateway.policy)
    names = [name for name, _ in response.headers.multi_items() if OURS.match(name)]
    assert len(names) == len(set(names))


# ---- answers -----------------------------------------------------------------------------------------------------


def test_a_served_answer(site: Site) -> None:
    response = site.ask()
    assert_named(site, response)
    assert ours(response) == ON_ANSWERS
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert [response.headers[f"x-narrows-{name}"] for name in ("route", "target", "attempts")] == ["chat", "eu", "1"]
    assert response.json()["choices"][0]["message"]["content"] == "Answered by eu-1."
    assert site.decision(response).outcome == "answered"


def test_a_streamed_answer(site: Site) -> None:
    response = site.ask(stream=True)
    assert_named(site, response)
    assert ours(response) == ON_ANSWERS
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.content == b"".join(stream_events("eu-1", number=site.provider.calls[0].number))


def test_the_answer_of_the_second_target_says_so(site: Site) -> None:
    site.provider.script("eu-1", failure_answer(FailureClass.SERVER_ERROR))
    response = site.ask()
    assert ours(response) == ON_ANSWERS
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "us")
    assert response.headers["x-narrows-attempts"] == "2"
    assert [call.model for call in site.provider.calls] == ["eu-1", "us-1"]
    assert len(site.decision(response).attempts) == 2


def test_headers_of_the_vendor_stay_there_but_for_two(site: Site) -> None:
    vendor = [("x-narrows-target", "forged"), ("set-cookie", "a=1"), ("server", "vendor"), ("x-request-id", "theirs"),
              ("retry-after", "3"), ("location", "http://elsewhere"), ("x-should-retry", "true")]  # fmt: skip
    site.provider.script("eu-1", Answer(headers=vendor))
    response = site.ask()
    assert ours(response) == ON_ANSWERS | {"retry-after"}
    assert response.headers["x-narrows-target"] == "eu"
    assert response.headers.get("server") != "vendor"
    assert not {"set-cookie", "location"} & response.headers.keys()


# ---- upstream errors ---------------------------------------------------------------------------------------------

PASSED = [kind for kind in FailureClass if kind is not FailureClass.AUTHENTICATION]


@pytest.mark.parametrize("kind", PASSED)
def test_an_upstreams_error_passes_with_status_and_body(site: Site, kind: FailureClass) -> None:
    answer = failure_answer(kind, message=CLIENT_ERROR)
    for model in ("eu-1", "us-1"):
        site.provider.script(model, answer)
    response = site.ask()
    assert_named(site, response)
    assert ours(response) == ON_ANSWERS | {"x-narrows-code", "x-narrows-class"}
    assert (response.status_code, response.headers["x-narrows-code"]) == (answer.status, "upstream_error")
    assert response.headers["x-narrows-class"] == kind
    assert response.content == json.dumps(answer.body, separators=(",", ":")).encode()
    assert response.headers["x-narrows-attempts"] == str(site.provider.count())
    decision = site.decision(response)
    assert (decision.outcome, decision.status, decision.code) == ("upstream_error", answer.status, "upstream_error")


def test_the_vendors_retry_after_passes_with_its_error(site: Site) -> None:
    for model in ("eu-1", "us-1"):
        site.provider.script(model, failure_answer(FailureClass.RATE_LIMITED, retry_after=3))
    response = site.ask()
    assert (response.status_code, response.headers["retry-after"]) == (429, "3")
    assert "x-should-retry" not in response.headers


@pytest.mark.parametrize(
    ("answer", "says", "kind"),
    [
        (failure_answer(FailureClass.AUTHENTICATION, message=CLIENT_ERROR), "credential", "authentication"),
        (Redirect(307, "http://127.0.0.1:9/elsewhere"), "redirect", "invalid_request"),
        (Answer(body=b"<html>" + CLIENT_ERROR.encode()), "not a chat completion", "server_error"),
        (Refuse(), "could not be reached", "server_error"),
    ],
    ids=["authentication", "redirect", "html", "closed"],
)
def test_what_is_told_in_our_words(site: Site, answer: Answer, says: str, kind: str) -> None:
    for model in ("eu-1", "us-1"):
        site.provider.script(model, answer)
    response = site.ask()
    found = assert_refused(response, "upstream_error")
    assert_named(site, response)
    assert ours(response) == ON_ANSWERS | {"x-narrows-code", "x-narrows-class", "x-should-retry"}
    assert (response.status_code, response.headers["x-narrows-class"]) == (502, kind)
    assert says in found["message"]
    assert CLIENT_ERROR not in response.text
    assert "elsewhere" not in response.text + str(response.headers)
    assert site.decision(response).outcome == "upstream_error"


def test_an_upstream_that_does_not_answer_in_time(site: Site) -> None:
    site.provider.script("hasty-1", Stall())
    response = site.ask("hasty")
    assert_refused(response, "upstream_timeout")
    assert ours(response) == ON_ANSWERS | {"x-narrows-code", "x-narrows-class", "x-should-retry"}
    assert (response.status_code, response.headers["x-narrows-class"]) == (504, "timeout")


def test_a_deadline_that_passes(site: Site) -> None:
    site.provider.script("eu-1", Stall())
    response = site.ask("short")
    assert_refused(response, "deadline")
    assert_named(site, response)
    assert response.status_code == 504
    assert response.headers["x-narrows-route"] == "short"


def test_an_error_inside_a_stream_ends_it_without_done(site: Site) -> None:
    first = stream_events("eu-1")[:2]
    site.provider.script("eu-1", Stream((*first, error_event(FailureClass.SERVER_ERROR, message=CLIENT_ERROR), *first)))
    response = site.ask(stream=True)
    assert (response.status_code, ours(response)) == (200, ON_ANSWERS)
    events = sse_events(response.content)
    assert len(events) == 3
    assert json.loads(events[-1].data)["error"]["message"] == CLIENT_ERROR
    assert b"[DONE]" not in response.content
    assert site.provider.count() == 1


def test_a_stream_that_breaks_ends_with_our_error(site: Site) -> None:
    first = stream_events("eu-1")[:2]
    site.provider.script("eu-1", Stream((*first, b"data: {half"), cut_at=len(b"".join(first)) + 8))
    response = site.ask(stream=True)
    events = sse_events(response.content)
    error = json.loads(events[-1].data)["error"]
    assert (error["code"], error["decision"]) == ("upstream_incomplete", response.headers["x-narrows-decision"])
    assert error["policy"] == site.gateway.policy
    assert b"[DONE]" not in response.content


# ---- ours --------------------------------------------------------------------------------------------------------


def test_a_refusal_before_the_route(site: Site) -> None:
    response = site.ask("nobody")
    assert_named(site, response)
    assert ours(response) == ON_EVERY | {"x-narrows-code", "x-should-retry"}


def test_a_refusal_on_a_route_names_it_and_no_target(site: Site) -> None:
    response = site.ask("american", saying=[("x-region", "eu")])
    assert_named(site, response)
    assert ours(response) == ON_EVERY | {"x-narrows-code", "x-should-retry", "x-narrows-route"}
    assert response.headers["x-narrows-route"] == "american"


def test_a_temporary_refusal_has_retry_after_instead(site: Site) -> None:
    response = site.ask(saying=[("x-act", "rate_limited")])
    assert_refused(response, "rate_limited")
    assert ours(response) == ON_EVERY | {"x-narrows-code", "retry-after", "x-narrows-route"}
    assert response.headers["retry-after"] == "7"  # 6.2 seconds, and never less than was asked for


def test_what_is_no_chat(site: Site) -> None:
    for path, expected in [("/health/live", {"status": "live"}),
                           ("/health/ready", {"status": "ready", "policy": site.gateway.policy})]:  # fmt: skip
        response = site.get(path)
        assert_named(site, response)
        assert (response.status_code, ours(response), response.json()) == (200, ON_EVERY, expected)
    models = site.get(MODELS)
    assert_named(site, models)
    assert (models.status_code, ours(models)) == (200, ON_EVERY)
    explained = site.ask(path=EXPLAIN)
    assert_named(site, explained)
    assert (explained.status_code, ours(explained)) == (200, ON_EVERY | {"x-narrows-route"})
    assert site.provider.calls == []


def test_404_and_405(site: Site) -> None:
    missing, wrong = site.get("/v1/nothing"), site.get(CHAT)
    for response in (missing, wrong):
        assert_named(site, response)
    assert ours(missing) == ON_EVERY | {"x-narrows-code", "x-should-retry"}
    assert ours(wrong) == ON_EVERY | {"x-narrows-code", "x-should-retry", "allow"}


def test_a_query_says_nothing(site: Site) -> None:
    assert site.send(chat(), path=f"{CHAT}?api-version=2&model=american&x-region=us").status_code == 200
    (call,) = site.provider.calls
    assert call.path == CHAT


# ---- ids ---------------------------------------------------------------------------------------------------------


def test_decisions_have_different_ids_that_sort_by_time(site: Site) -> None:
    ids = [site.ask().headers["x-narrows-decision"] for _ in range(3)]
    assert len(set(ids)) == 3
    assert [name[:15] for name in ids] == sorted(name[:15] for name in ids)


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("req-1", "req-1"),
        ("a b", "a b"),
        ("x" * 400, "x" * 128),
        ("a" * 127 + " tail", "a" * 127),  # no header may end in a space
        ("caf\xe9-\xff1", "caf-1"),
        ("a\tb", "ab"),
    ],
    ids=["plain", "space", "long", "clipped", "latin-1", "tab"],
)
def test_a_request_id_is_echoed(site: Site, sent: str, echoed: str) -> None:
    for response in (
        site.ask(saying=[("x-request-id", sent)]),
        site.ask("nobody", saying=[("x-request-id", sent)]),
        site.get(MODELS, [("x-request-id", sent)]),
        site.get("/v1/nothing", [("x-request-id", sent)]),
    ):
        assert response.headers["x-request-id"] == echoed
    (call,) = site.provider.calls
    assert call.header("x-request-id") is None


def test_no_request_id_is_made_up(site: Site) -> None:
    assert "x-request-id" not in site.ask().headers
    assert "x-request-id" not in site.ask(saying=[("x-request-id", "\xe9\xe9")]).headers
    assert "x-request-id" not in site.ask(saying=[("x-request-id", "")]).headers


@pytest.mark.parametrize("name", ["x-request-id", "x-narrows-session", "traceparent", "user-agent", "x-region"])
def test_no_header_value_makes_a_header(site: Site, name: str) -> None:
    """A server would not let it in; a client in this process may send it."""
    if not isinstance(site, Inside):
        return
    forged = "eu\r\nx-narrows-target: forged\r\n\r\nforged"
    status, headers, _ = site.answer(Inbound("POST", CHAT, (JSON, (name, forged))), chat())
    assert headers.get("x-narrows-target") != "forged"
    assert not any("\r" in value or "\n" in value for value in headers.values())
    for call in site.provider.calls:
        assert "forged" not in dict(call.headers)
    assert status in (200, 400, 502)


# ---- what travels ------------------------------------------------------------------------------------------------


@pytest.fixture
def travelled(site: Site) -> dict[str, str]:
    """The headers of the call that a request with every header makes."""
    sent = [
        ("x-region", "eu"), ("x-narrows-session", "s-1"), ("x-request-id", "r-1"), ("cookie", "c=1"),
        ("baggage", "b=1"), ("user-agent", "client/1"), ("openai-beta", "x=1"), ("x-stainless-lang", "python"),
        ("x-stainless-retry-count", "2"), ("x-forwarded-for", "10.0.0.1"), ("openai-organization", "org-1"),
        ("accept-language", "de"), ("x-custom", "1"), ("anthropic-version", "1"),
    ]  # fmt: skip
    assert site.ask(saying=sent).status_code == 200
    return dict(site.provider.calls[0].headers)


def test_caller_headers_are_an_allow_list(travelled: dict[str, str]) -> None:
    expected = {"user-agent": "client/1", "openai-beta": "x=1", "x-stainless-retry-count": "2"}
    assert {name: travelled.get(name) for name in expected} == expected
    transport = {"host", "content-length", "content-type", "accept", "accept-encoding", "connection"}
    assert travelled.keys() - expected.keys() <= transport
