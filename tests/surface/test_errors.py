"""Every stable code: how a request meets it, its status, its shape, and that nothing was called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from narrows import Denial, FailureClass
from narrows.dialects.errors import error_type
from narrows.errors import STATUS, TEMPORARY
from narrows.refusals import RETRY_AFTER_SECS, headers
from narrows.run import Run
from narrows.testing import Answer, Script, Stall, Stream, failure_answer, stream_events
from tests.surface.support import CHAT, PROMPT, Headers, Site, assert_refused, opened
from tests.surface.world import RAISED, WORLD

IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}]


@dataclass(frozen=True)
class Met:
    """A request that meets a code. `calls`: upstream calls that it makes. `script`: what all targets answer then.
    `exclusions`: as the error counts them."""

    code: str
    model: str = "chat"
    saying: Headers = ()
    more: dict[str, object] = field(default_factory=dict)
    method: str = "POST"
    path: str = CHAT
    script: Script | None = None
    calls: int = 0
    exclusions: tuple[tuple[str, str, int], ...] = ()
    says: str = ""


def acted(code: str, act: str | None = None, says: str = "") -> Met:
    return Met(code, saying=[("x-act", act or code)], says=says)


MET = [
    Met("no_capable_target", "blind", more={"messages": IMAGE}, exclusions=(("capability", "capability.vision", 1),)),
    Met("field_refused", more={"models": ["x"]}),
    Met("attribute_missing", "golden", says="tier"),
    Met("attribute_unknown", saying=[("x-region", "mars")]),
    Met("invalid_body", more={"stream": "true"}),
    Met("budget_exhausted", saying=[("x-act", "spent")], exclusions=(("purse", "unpriced", 1), ("purse", "unaffordable", 1))),
    Met("cost_ceiling", "cheap", saying=[("tier", "plain")], exclusions=(("cheap", "price", 1),)),
    acted("forbidden", says="not today"),
    acted("forbidden", "authorize_raises", says="plugin 'acts' failed (RuntimeError)"),
    Met("no_eligible_target", "american", saying=[("x-region", "eu")], exclusions=(("residency", "attribute_mismatch", 1),)),
    Met("attribute_forbidden", "golden", saying=[("tier", "plain")], says="may_say"),
    Met("unknown_model", "nobody"),
    Met("not_found", path="/v1/nothing"),
    Met("method_not_allowed", method="PUT"),
    Met("body_too_large", more={"user": "x" * 10_000}),
    Met("unsupported_media_type", saying=[("content-type", "text/plain")]),
    acted("rate_limited", says="too many requests of yours"),
    acted("contract_violation", "adds", says="'acts'"),
    acted("constraint_failed", "narrow_raises", says="plugin 'acts' failed (RuntimeError)"),
    acted("kill_switch", says="not today"),
    acted("budget_unverifiable", "budget_raises", says="plugin 'purse' failed (RuntimeError)"),
    Met("upstream_error", "american", script=failure_answer(FailureClass.AUTHENTICATION), calls=1),
    Met("upstream_timeout", "hasty", script=Stall(), calls=1),
    Met("deadline", "short", script=Stall(), calls=1),
]  # fmt: skip

ELSEWHERE = {
    "unauthenticated": "test_auth.py",
    "auth_unset": "test_auth.py",
    "not_started": "test_auth.py",
    "stopping": "tests/e2e/test_stopping.py",
    "ledger_unavailable": "test_decisions.py",
    "upstream_incomplete": "inside a stream alone: below",
    "internal_error": "a bug of ours: tests/core/server/test_ways.py",
}
LATER = {"continuation_unknown", "unsupported_by_target", "budget_held", "override_no_target",
         "session_state_unavailable", "session_capacity"}  # fmt: skip


def test_every_code_is_met_somewhere() -> None:
    assert {met.code for met in MET} | ELSEWHERE.keys() | LATER == STATUS.keys()
    assert not {met.code for met in MET} & LATER


@pytest.mark.parametrize("met", MET, ids=lambda met: f"{met.code}-{met.model}-{dict(met.saying)}")
def test_a_code_has_its_status_its_shape_and_its_calls(site: Site, met: Met) -> None:
    for target in site.gateway.snapshot.targets.values():
        site.provider.script(target.model, met.script or Answer())
    response = send(site, met)
    found = assert_refused(response, met.code)
    assert found["type"] == error_type(STATUS[met.code])
    assert [(row["constraint"], row["code"], row["count"]) for row in found["exclusions"]] == [*met.exclusions]
    assert met.says in found["message"]
    assert RAISED not in response.text
    assert PROMPT not in response.text
    assert site.provider.count() == met.calls
    line = site.log.wait(found["decision"])
    assert f" status={response.status_code} code={met.code} " in line
    assert RAISED not in line
    site.clear()
    site.control()


def send(site: Site, met: Met) -> httpx.Response:
    if met.method != "POST":
        return site.get(met.path, method=met.method)
    if any(name == "content-type" for name, _ in met.saying):
        return site.send(b"{}", met.saying)
    return site.ask(met.model, saying=met.saying, path=met.path, **met.more)


def test_the_counts_add_up_to_the_granted_targets(site: Site) -> None:
    found = assert_refused(site.ask(saying=[("x-region", "eu, us")]), "no_eligible_target")
    assert sum(row["count"] for row in found["exclusions"]) == 2
    assert found["message"] == (
        '0 of 2 targets eligible on "chat": 1 region is not eu [residency], 1 region is not us [residency]. '
        "Closest: eu, blocked only by [residency]."
    )


def test_a_stream_that_broke_off_is_incomplete(site: Site) -> None:
    first = stream_events("eu-1")[0]
    site.provider.script("eu-1", Stream((first,), cut_at=len(first)))
    response = site.ask(stream=True)
    assert response.status_code == 200
    assert b'"code":"upstream_incomplete"' in response.content
    decision = site.decision(response)
    assert (decision.outcome, decision.code) == ("upstream_incomplete", "upstream_incomplete")


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (418, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (504, "server_error"),
    ],
)
def test_the_word_that_clients_expect(status: int, word: str) -> None:
    assert error_type(status) == word


@pytest.fixture(scope="module")
def run() -> Run:
    """A request that has just arrived."""
    from narrows import Gateway, Inbound

    gateway = Gateway.from_text(
        '[providers.e]\nkind="echo"\n[targets.t]\nprovider="e"\nmodel="m"\n[routes.r]\ntargets=["t"]\n'
    )
    return Run(gateway.engine, Inbound("POST", CHAT, ()), unread)


async def unread() -> AsyncIterator[bytes]:
    yield b""


@pytest.mark.parametrize(
    ("wanted", "told"),
    [(None, RETRY_AFTER_SECS), (0.0, 1), (-3, 1), (0.2, 1), (6.2, 7), (30, 30), (float("inf"), 1), (float("nan"), 1)],
)
def test_retry_after_is_whole_seconds_and_at_least_one(run: Run, wanted: float | None, told: int) -> None:
    for code in TEMPORARY:
        named = dict(headers(run, Denial(code, "later", retry_after=wanted)))
        assert (named["retry-after"], "x-should-retry" in named) == (str(told), False)


def test_what_is_not_temporary_says_do_not_retry(run: Run) -> None:
    for code in STATUS.keys() - TEMPORARY:
        named = dict(headers(run, Denial(code, "no", retry_after=5)))
        assert (named["x-should-retry"], "retry-after" in named) == ("false", False)


def test_the_sums_of_both_backends_are_one_text() -> None:
    """What a caller reads does not depend on the way in."""
    told = []
    for way in ("asyncio", "trio"):
        with opened(
            way,
            WORLD.replace('\n[plugins.acts]\nkind = "acts"\n', "").replace('\n[plugins.purse]\nkind = "purse"\n', ""),
        ) as site:
            told.append(site.ask(saying=[("x-region", "eu, us")]).json()["error"]["message"])
    assert told[0] == told[1]
