"""Who may scrape: the key of the metrics, or this machine where there is none. Nobody else, and nothing else with it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Final

import anyio
import anyio.to_thread
import pytest

from narrows import ConfigError, Gateway, Inbound, Reply
from narrows.scraping import local
from tests.surface.keyring import secret, sha256
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, PATIENCE, Headers, Way, assert_refused, chat, opened

pytestmark = pytest.mark.anyio

KEY: Final = "nrw_metrics-canary-1b7e"
HASH: Final = hashlib.sha256(KEY.encode()).hexdigest()
ROUTES: Final = """
[providers.here]
kind = "echo"
[targets.echo]
provider = "here"
model = "echo"
[routes.chat]
targets = ["echo"]
"""
CLIENTS: Final = f'[keys.all]\nsha256 = "{sha256("all")}"\n'
KEYED: Final = f'[server]\nmetrics_key_sha256 = "{HASH.upper()}"\n{CLIENTS}{ROUTES}'
HERE: Final = "127.0.0.1"
AWAY: Final = "203.0.113.9"


def bearer(key: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {key}")


async def asked(text: str, inbound: Inbound, body: bytes = b"", outer: Inbound | None = None) -> tuple[Reply, bytes]:
    async def read() -> AsyncIterator[bytes]:
        yield body

    async with (
        Gateway.from_text(text, open_access="[keys" not in text) as gateway,
        gateway.answer(inbound, read, outer=outer) as reply,
    ):
        return reply, b"".join([chunk async for chunk in reply.chunks])


async def scraped(text: str, *headers: tuple[str, str], client: str | None = HERE, method: str = "GET") -> int:
    reply, body = await asked(text, Inbound(method, "/metrics", headers, client))
    assert (b"narrows_build_info" in body) == (reply.status == 200)
    assert reply.header("x-narrows-code") == {200: None, 401: "unauthenticated", 403: "forbidden"}[reply.status]
    return reply.status


# ---- with a key ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [HERE, AWAY, None])
@pytest.mark.parametrize("header", [bearer(KEY), ("authorization", f"bearer  {KEY} "), ("x-api-key", KEY)])
async def test_its_key_opens_it_from_anywhere(header: tuple[str, str], client: str | None) -> None:
    assert await scraped(KEYED, header, client=client) == 200
    assert await scraped(KEYED, header, ("x-forwarded-for", AWAY), client=client) == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("")],
        [bearer(HASH)],
        [bearer(KEY + "x")],
        [bearer(secret("all"))],
        [("x-api-key", secret("all"))],
        [("authorization", KEY)],
        [("authorization", f"Basic {KEY}")],
        [bearer(KEY), ("x-api-key", secret("all"))],
        [bearer(KEY), bearer(KEY + "x")],
        [bearer("schlüssel")],
    ],
)
async def test_nothing_else_does_not_even_this_machine(headers: Headers) -> None:
    assert await scraped(KEYED, *headers) == 401
    assert await scraped(KEYED, bearer(KEY)) == 200


async def test_the_hash_of_nothing_lets_nobody_in() -> None:
    text = f'[server]\nmetrics_key_sha256 = "{hashlib.sha256(b"").hexdigest()}"\n{ROUTES}'
    assert await scraped(text) == await scraped(text, bearer("")) == 401


async def test_its_key_opens_nothing_else() -> None:
    for key, status in ((KEY, 401), (secret("all"), 200)):
        for inbound in (Inbound("POST", CHAT, (JSON, bearer(key)), HERE), Inbound("GET", MODELS, (bearer(key),), HERE)):
            assert (await asked(KEYED, inbound, chat()))[0].status == status
        _, told = await asked(KEYED, Inbound("POST", EXPLAIN, (JSON, bearer(key)), HERE), chat())
        assert (b'"outcome":"eligible"' in told) == (status == 200)


def test_a_key_that_opens_both_is_refused_at_load() -> None:
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(CLIENTS + ROUTES + f'[server]\nmetrics_key_sha256 = "{sha256("all").upper()}"\n')
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("contradiction", "server.metrics_key_sha256")
    assert sha256("all") not in str(problem).lower()


# ---- without one ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ROUTES, CLIENTS + ROUTES], ids=["open", "keys"])
@pytest.mark.parametrize("client", [HERE, "127.8.9.10", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_may_scrape(text: str, client: str) -> None:
    assert await scraped(text, client=client) == 200


@pytest.mark.parametrize("client", [AWAY, "::2", "::ffff:203.0.113.9", "10.0.0.1", "0.0.0.0", "testclient", "", None])
async def test_no_other_may(client: str | None) -> None:
    assert await scraped(ROUTES, client=client) == 403
    assert await scraped(CLIENTS + ROUTES, bearer(secret("all")), client=client) == 403


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-real-ip", "via"])
async def test_a_proxy_on_this_machine_speaks_for_somebody(header: str) -> None:
    assert await scraped(ROUTES, (header, HERE)) == 403
    assert await scraped(ROUTES, (header, "")) == 403


async def test_a_client_in_this_process_is_no_connection_of_this_machine() -> None:
    """The host's request may come from here, and what it asks for from anywhere."""
    outer = Inbound("GET", "/work", (), HERE)
    reply, _ = await asked(ROUTES, Inbound("GET", "/metrics", (), HERE), outer=outer)
    assert (reply.status, reply.header("x-narrows-code")) == (403, "forbidden")
    reply, _ = await asked(KEYED, Inbound("GET", "/metrics", (bearer(KEY),), HERE), outer=outer)
    assert reply.status == 200


def test_an_address_is_never_looked_up() -> None:
    assert not local(Inbound("GET", "/metrics", (), "localhost"))


async def test_a_host_whose_threads_are_all_at_work_is_scraped_all_the_same() -> None:
    limiter = anyio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 1
    try:
        async with limiter:
            with anyio.fail_after(PATIENCE):
                assert await scraped(ROUTES) == 200
    finally:
        limiter.total_tokens = before


# ---- over every way in ---------------------------------------------------------------------------------------------


def test_it_is_refused_in_our_shape_and_only_get_and_head_are_taken(way: Way) -> None:
    with opened(way, KEYED) as site:
        assert_refused(site.get("/metrics"), "unauthenticated")
        good = site.get("/metrics", [bearer(KEY)])
        head = site.get("/metrics", [bearer(KEY)], method="HEAD")
        assert (good.status_code, head.status_code, head.content) == (200, 200, b"")
        assert good.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert good.headers["x-narrows-policy"] == site.gateway.policy
        assert site.get("/metrics", method="POST").headers["allow"] == "GET, HEAD"
        assert site.get("/metrics/").status_code == 404


def test_without_a_key_a_socket_on_loopback_scrapes(way: Way) -> None:
    with opened(way, ROUTES) as site:
        status = 200 if way in ("uvicorn", "hypercorn") else 403
        assert site.get("/metrics").status_code == status
        assert site.get("/metrics", [("x-forwarded-for", HERE)]).status_code == 403


def test_its_hash_is_nowhere() -> None:
    gateway = Gateway.from_text(KEYED)
    for text in (repr(gateway.snapshot), repr(gateway.loaded), gateway.snapshot.canonical):
        assert HASH not in text.lower()
    assert gateway.policy != Gateway.from_text(CLIENTS + ROUTES).policy
