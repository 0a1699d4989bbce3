"""`dispatch` hooks that leave the road, and an upstream that points somewhere else. Not one byte goes to anybody who was
not chosen; what a provider only fails at goes to `classify_error` and moves on inside the set."""

from __future__ import annotations

import pytest

from narrows.testing import Redirect, Stream
from tests.contract.hostile import upstreams
from tests.contract.house import House, named, served

VIOLATIONS = {
    "sends_twice": ("attempt.send twice", 1),
    "sends_twice_and_hides_it": ("attempt.send twice", 1),
    "returns_none": ("returned no Reply", 0),
    "returns_none_after_sending": ("returned no Reply", 1),
    "returns_bytes": ("returned no Reply", 0),
    "status_is_text": ("returned no Reply", 0),
    "sends_no_json": ("body is no JSON object", 0),
}
"""Act -> what is said, and how many calls its own upstream had had by then."""

FAILURES = {
    "dispatch_raises": "RuntimeError",
    "body_raises": "RuntimeError",
    "body_is_text": "TypeError",
    "sends_to_another_host": "ValueError",
    "sends_without_a_scheme": "ValueError",
    "sends_as_a_user": "ValueError",
    "sends_another_host_header": "ValueError",
}
MODELS = ("sends_another_model", "sends_two_models", "assigns_another_model", "assigns_another_target")
OTHERS = ("sends_twice_and_renames_it", "sends_for_an_earlier_request", "dispatch_hangs", "drops_the_reply")
REDIRECTS = (301, 302, 303, 307, 308)


def test_every_act_has_its_test() -> None:
    assert {*VIOLATIONS, *FAILURES, *MODELS, *OTHERS} == set(upstreams.SENDINGS)


@pytest.mark.parametrize("act", VIOLATIONS)
def test_a_provider_outside_its_contract_ends_the_request(house: House, act: str) -> None:
    """500 and nobody else is asked, although the route has another target."""
    says, calls = VIOLATIONS[act]
    answer = house.ask(act, route=act)
    assert (answer.status, answer.code) == (500, "contract_violation")
    assert f"plugin {act!r} broke the contract of hook 'dispatch'" in answer.message
    assert says in answer.message
    assert house.called == [act] * calls
    assert house.elsewhere.connections == 0
    named(house, act, "dispatch")
    house.clear()
    served(house, house.ask(route=act), by=act)


@pytest.mark.parametrize("act", upstreams.ANSWERS)
def test_a_provider_that_does_not_even_await_is_held_to_the_same(house: House, act: str) -> None:
    answer = house.ask(route=act)
    assert (answer.status, answer.code, house.called) == (500, "contract_violation", [])
    assert "returned no Reply" in answer.message
    named(house, act, "dispatch")
    house.clear()
    served(house, house.ask())


@pytest.mark.parametrize("act", FAILURES)
def test_a_provider_that_fails_moves_the_request_on(house: House, act: str) -> None:
    """Its failure is classified like any other's. Nothing reached its upstream, and nobody else's."""
    answer = house.ask(act, route=act)
    assert (answer.status, answer.code, answer.target) == (200, "ok", "spare")
    assert house.called == ["spare"]
    assert house.elsewhere.connections == 0
    assert FAILURES[act] in named(house, act, "dispatch")
    assert [row["target"] for row in house.wait_decision(answer)["attempts"]] == [act, "spare"]
    house.clear()
    served(house, house.ask(route=act), by=act)


@pytest.mark.parametrize("act", MODELS)
def test_the_model_is_the_targets(house: House, act: str) -> None:
    """Whatever body it writes, and whatever it assigns to what it was shown: its own model is asked for, once."""
    answer = house.ask(act, route=act)
    served(house, answer, by=act)
    (call,) = house.upstream.calls
    assert call.body.count(b'"model"') == 1
    assert call.fields["model"] == act


def test_a_violation_is_not_renamed_into_a_failure(house: House) -> None:
    """As a failure of its own it would only have moved the request on."""
    answer = house.ask("sends_twice_and_renames_it", route="sends_twice_and_renames_it")
    assert (answer.status, answer.code) == (500, "contract_violation")
    assert house.called == ["sends_twice_and_renames_it"]


def test_an_attempt_is_over_when_its_provider_has_answered(house: House) -> None:
    """It keeps the attempt of one request, and sends it in the next one."""
    act = "sends_for_an_earlier_request"
    assert house.ask(act, route=act).target == "spare"
    assert house.called == ["spare"]
    house.clear()
    answer = house.ask(act, route=act)
    assert (answer.status, answer.code) == (500, "contract_violation")
    assert (house.called, house.elsewhere.connections) == ([], 0)
    assert "too late" in answer.message
    named(house, act, "dispatch")
    house.clear()
    served(house, house.ask(route=act), by=act)


def test_a_provider_that_hangs_ends_at_the_routes_deadline(house: House) -> None:
    """Its upstream may take minutes, so the hooks' own deadline is not asked."""
    answer = house.ask("dispatch_hangs", route="dispatch_hangs")
    assert (answer.status, answer.code, house.called) == (504, "deadline", [])
    house.clear()
    served(house, house.ask(route="dispatch_hangs"), by="dispatch_hangs")


def test_a_reply_that_nobody_reads_is_closed(house: House) -> None:
    """A provider that answers by itself, after it has asked: its upstream, still sending, is let go with the request."""
    house.script("drops_the_reply", Stream((b"{",), end=False))
    answer = house.ask("drops_the_reply", route="drops_the_reply")
    assert (answer.status, answer.json["choices"][0]["message"]["content"]) == (200, "mine")
    assert house.called == ["drops_the_reply"]
    house.upstream.wait_closed(1)
    house.clear()
    served(house, house.ask(route="drops_the_reply"), by="drops_the_reply")


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_not_followed(house: House, status: int) -> None:
    """One call to the one, not even a connection to the other, 502, and nothing of where it would have led."""
    elsewhere = f"{house.elsewhere.base_url}/chat/completions"
    house.script("eu", Redirect(status, elsewhere))
    answer = house.ask()
    assert (answer.status, answer.code) == (502, "upstream_error")
    assert "redirect" in answer.message
    assert answer.headers["x-narrows-class"] == "invalid_request"
    assert house.called == ["eu"]
    assert house.elsewhere.connections == 0
    assert "location" not in answer.headers
    assert str(house.elsewhere.port) not in answer.body.decode()
    house.clear()
    served(house, house.ask())
