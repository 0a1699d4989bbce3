"""Canaries stand in every input, every outcome is driven, and every sink is searched: nothing of them is anywhere.

By table: each thing that an upstream can answer, streamed and not, each refusal, each bad body, each wrong key, a caller
that leaves. By hypothesis: any of them in any order, with any of the places filled.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.errors import STATUS
from narrows.types import FailureClass
from tests.e2e.support import plain_client
from tests.properties.canaries import (
    ATTRIBUTE,
    ENVIRONMENT,
    FOREIGN,
    HEADERS,
    KEYS,
    UPSTREAM,
    canary,
    filled,
    found,
)
from tests.properties.drives import callers, refusals, upstreams
from tests.properties.sinks import LEAKED, MORE, Got, Leak, Rig, bearer, rigged
from tests.support.config import write_config
from tests.support.process import narrows_process
from tests.surface.support import CHAT, EXPLAIN, JSON, chat
from tests.surface.test_errors import MET
from tests.surface.world import WORLD

pytestmark = pytest.mark.anyio

CALLERS_OWN: Final = {"ledger", "decisions", "exceptions", "objects"}
"""Where the value of an attribute that nobody declared may stand: it is what was demanded. `objects`: pages of them."""

SECRETS: Final = {"env-key", "env-query-key", "key-of-other"}
"""What no answer may hold, not even to who sent the request."""

DETAIL: Final = {"asyncio": "request", "trio": "plugins"}
"""How much is traced, by the async library that the gateway runs on."""

PASSED_ON: Final = {"media-type", "retry-after"}
"""Of an upstream's headers these two alone reach the caller."""


def unexpected(sinks: dict[str, set[str]]) -> dict[str, set[str]]:
    """What stands where it must not."""
    told = {name: places - ({"attribute"} if name in CALLERS_OWN else set()) for name, places in sinks.items()}
    return {name: places for name, places in told.items() if places}


async def test_nothing_that_was_planted_is_found(anyio_backend: str, tmp_path: Path) -> None:
    async with rigged(tmp_path, DETAIL[anyio_backend]) as rig:
        rig.routes = ("chat", "keyed") if anyio_backend == "asyncio" else ("keyed", "chat")
        answers: list[tuple[str, Got]] = []
        for drive in (upstreams, refusals, callers):
            answers += [row async for row in drive(rig)]
        for name, got in answers:
            assert not found(got.text) & SECRETS, name
            assert found(str(got.headers)) <= PASSED_ON, name
        assert unexpected(await rig.sinks()) == {}
        everything_happened(rig, answers)


def everything_happened(rig: Rig, answers: list[tuple[str, Got]]) -> None:
    """The control: what was planted was there, and each outcome, class and code came about."""
    arrived = set().union(*(found(call.body) for call in rig.provider.calls))
    assert arrived >= {
        "prompt",
        "system",
        "part",
        "tool",
        "arguments",
        "metadata",
        "member",
        "parameter",
        "tool-result",
    }
    sent = set().union(*(found(f"{call.path} {call.headers}") for call in rig.provider.calls))
    assert sent >= {"env-key", "env-query-key", "user-agent"}
    got = set().union(*(found(answer.body) for _, answer in answers))
    assert got >= {"answer", "delta", "status-500-message", "middle-message", "class-message"}
    assert {one.outcome for one in rig.kept} == {
        "answered", "refused", "upstream_error", "upstream_incomplete", "client_disconnected"
    }  # fmt: skip
    classes = {row.failure_class for one in rig.kept for row in one.attempts}
    assert classes == {"ok", *map(str, FailureClass)}
    codes = {one.code for one in rig.kept} | {answer.headers.get("x-narrows-code", "ok") for _, answer in answers}
    assert codes >= {met.code for met in MET} | {"ok", "unauthenticated", "upstream_incomplete"}
    assert codes <= {"ok", *STATUS}
    assert any(one.session for one in rig.kept)
    assert any(row.demand == ATTRIBUTE[1].casefold() for one in rig.kept for row in one.demands)


# ---- it would be found ------------------------------------------------------------------------------------------------


def leak_log(rig: Rig) -> None:
    logging.getLogger("narrows.plugins").debug("header is %s", LEAKED)


def leak_exception(rig: Rig) -> None:
    try:
        raise RuntimeError(LEAKED)
    except RuntimeError:
        logging.getLogger("narrows.engine").exception("it failed")


def leak_span(rig: Rig) -> None:
    rig.spans.provider.get_tracer("x").start_span("x", attributes={"x": LEAKED}).end()


def leak_ledger(rig: Rig) -> None:
    rig.gateway.engine.recorders.offer(replace(rig.kept[0], id="dec_leak", code=LEAKED), "")


def leak_policy(rig: Rig) -> None:
    rig.gateway.engine.recorders.offer(replace(rig.kept[0], id="dec_leak", policy="other"), LEAKED)


def leak_decision(rig: Rig) -> None:
    rig.kept.append(replace(rig.kept[0], request_id=LEAKED))


def leak_message(rig: Rig) -> None:
    rig.kept.append(replace(rig.kept[0], outcome="refused", message=LEAKED))


def leak_to_others(rig: Rig) -> None:
    rig.gateway.engine.recorders.offer(replace(rig.kept[0], id="dec_leak", principal="other", code=LEAKED), "")


def leak_nothing(rig: Rig) -> None:
    """The metrics' leak is a route of that name."""


LEAKS: Final[dict[str, tuple[Leak, set[str]]]] = {
    "a line": (leak_log, {"log"}),
    "an exception's text": (leak_exception, {"log"}),
    "an attribute": (leak_span, {"spans"}),
    "a row": (leak_ledger, {"ledger", "objects"}),
    "a policy": (leak_policy, {"ledger"}),
    "a decision": (leak_decision, {"decisions"}),
    "an exception": (leak_message, {"decisions", "exceptions"}),
    "somebody else's decision": (leak_to_others, {"ledger", "objects", "other callers"}),
    "a label": (leak_nothing, {"metrics", "ledger", "log", "spans", "decisions", "objects", "other callers"}),
}


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_leak_is_found(leak: str, tmp_path: Path, anyio_backend: str) -> None:
    """Each sink, by a leak that is put into it."""
    act, where = LEAKS[leak]
    name = LEAKED if act is leak_nothing else "harmless"
    caught: dict[str, set[str]] = {}
    with pytest.raises(AssertionError) if "ledger" in where else anyio.CancelScope():
        async with rigged(tmp_path, routes=f'[routes."{name}"]\ntargets = ["eu"]\n') as rig:
            await rig.ask(name)
            if act is leak_nothing:
                await rig.ask(name)
            else:
                assert unexpected(await rig.sinks()) == {}
            act(rig)
            caught = unexpected(await rig.sinks())
    assert caught == {sink: {"leak"} for sink in where}


# ---- any of it, in any order --------------------------------------------------------------------------------------

PLACES: Final = sorted(filled())
WAYS: Final = sorted(UPSTREAM.keys() - {"silent", "stalled in a stream", "an encoding"})  # those take a while each


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """One request: what is filled, what stands around a canary, what the upstream answers."""
    members = filled()
    around = draw(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6))
    kept = draw(st.sets(st.sampled_from(PLACES)))
    return {
        "upstream": draw(st.sampled_from(WAYS)),
        "route": draw(st.sampled_from(["chat", "keyed", "team", "american", "nobody", canary("model"), around])),
        "headers": [row for row in HEADERS if draw(st.booleans())] + draw(st.sampled_from([[], [ATTRIBUTE], [("x-region", "eu")]])),
        "body": {**{name: members[name] for name in kept}, f"{around}{canary('around')}": f"{canary('around')}{around}",
                 "stream": draw(st.sampled_from([True, False, None, canary("stream")]))},
        "key": draw(st.sampled_from([("authorization", f"Bearer {KEYS['mine']}"), ("x-api-key", FOREIGN)])),
        "cut": draw(st.integers(0, 40)),
        "leave": draw(st.booleans()),
    }  # fmt: skip


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
def test_nothing_is_found_whatever_comes(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> None:
    with (
        anyio.from_thread.start_blocking_portal(anyio_backend) as portal,
        portal.wrap_async_context_manager(rigged(tmp_path_factory.mktemp("any"))) as rig,
    ):

        async def one(case: dict[str, Any]) -> None:
            rig.script(UPSTREAM[case["upstream"]])
            body = chat(case["route"], **case["body"])
            body = body[: len(body) - case["cut"]] if case["cut"] < 20 else body
            await rig.send(body, (JSON, case["key"], *case["headers"]), leave=case["leave"])

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
        @given(case=requests())
        def anything(case: dict[str, Any]) -> None:
            del rig.log.lines[:], rig.kept[:]
            rig.spans.clear()
            portal.call(one, case)
            assert {place for line in rig.log.lines for place in found(line)} == set()
            assert {place for span in rig.spans.all() for place in found(span.to_json())} == set()
            assert {place for kept in rig.kept for place in found(repr(kept))} <= {"attribute"}

        anything()
        portal.call(rig.send, chat(), (JSON, bearer("mine")))
        assert unexpected(portal.call(rig.sinks)) == {}


# ---- a process -------------------------------------------------------------------------------------------------------


def configured(folder: Path) -> Path:
    """The same file, for a process: without the tests' own plugins, and with a provider that nobody reaches."""
    ledger = folder / "ledger" / "narrows.db"
    ledger.parent.mkdir()
    text = WORLD + MORE.replace('kind = "keyed"', 'kind = "openai_compatible"\napi_key_env = "CANARY_KEY"')
    for old, new in (("{url}", "http://127.0.0.1:9/v1"), ("{ledger}", str(ledger)), ("{detail}", "request")):
        text = text.replace(old, new)
    for name in ("acts", "purse", "kept"):
        block = f'[plugins.{name}]\nkind = "{name}"\n'
        assert block in text
        text = text.replace(block, "")
    return write_config(folder, text)


def test_a_process_writes_nothing_of_it(tmp_path: Path) -> None:
    """`python -O -m narrows serve` at DEBUG. The human form: tests/surface/test_keys_canary.py."""
    file = configured(tmp_path)
    bodies = [chat(**filled()), chat(canary("model"), **filled()), chat("keyed", **filled()), chat(**filled())[:-3]]
    arguments = ("--log-format", "json", "--log-level", "debug")
    with narrows_process(file, env=ENVIRONMENT, arguments=arguments) as running:
        with plain_client(running.url) as client:
            for body in bodies:
                client.post(CHAT, content=body, headers=[JSON, bearer("mine"), *HEADERS])
            for path in (CHAT, EXPLAIN, f"/v1/{canary('path')}?key={KEYS['mine']}"):
                client.post(path, content=bodies[0], headers=[JSON, ("x-api-key", FOREIGN), *HEADERS])
            metrics = client.get("/metrics").text
        running.terminate()
        out = running.stdout + running.stderr
    stored = [path.read_bytes() for path in (tmp_path / "ledger").iterdir()]
    assert ("dec_" in out, "narrows_requests_total" in metrics, any(b"dec_" in data for data in stored)) == (True,) * 3
    assert {place for text in (out, metrics) for place in found(text)} == set()
    assert {place for data in stored for place in found(data)} == set()
