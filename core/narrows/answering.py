"""Which path means what. Every way in comes through here; any path not named is 404: there is no raw pass-through.

Each answer is an async context manager that yields a `Reply`; leaving it settles and records. Source: DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from narrows import decisions, refusals
from narrows.admission import AUTH_UNSET, authenticate, closed
from narrows.errors import ContractViolation, PluginError
from narrows.explaining import explained
from narrows.pipeline import serve, unless_cut
from narrows.recording import leave
from narrows.run import Run
from narrows.scraping import scraped
from narrows.snapshot import may_name
from narrows.types import Denial, Json, Principal, Reply

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
EXPLAIN = "/v1/explain"
DECISIONS = "/v1/decisions"
METRICS = "/metrics"
LIVE = "/health/live"
READY = "/health/ready"

_METHODS: Mapping[str, tuple[str, ...]] = {
    CHAT: ("POST",),
    EXPLAIN: ("POST",),
    MODELS: ("GET", "HEAD"),
    DECISIONS: ("GET", "HEAD"),
    METRICS: ("GET", "HEAD"),
    LIVE: ("GET", "HEAD"),
    READY: ("GET", "HEAD"),
}

_NOT_AFTER_THE_STOP = frozenset({CHAT, EXPLAIN, READY})
"""What only reads is answered as long as somebody can ask: a scraper, who looks up a decision."""


@asynccontextmanager
async def answer(run: Run, started: Callable[[], bool]) -> AsyncIterator[Reply]:
    """The reply to one request, whatever its path."""
    path, method = run.inbound.path, run.inbound.method
    allowed = _METHODS.get(DECISIONS if _below_decisions(path) else path)
    stopping = run.engine.stopping
    with stopping.flight(run):
        if allowed is not None and method in allowed and path == CHAT and started() and not stopping.began:
            async with serve(run) as reply:
                yield reply
            return
        run.recorded = False  # only requests for a model are decisions
        try:
            yield await unless_cut(run, _reply(run, allowed, started()))
        finally:
            await leave(run)


async def _reply(run: Run, allowed: tuple[str, ...] | None, started: bool) -> Reply:
    path, method = run.inbound.path, run.inbound.method
    if allowed is None:
        return refusals.reply(run, Denial("not_found", "no such path; this gateway passes nothing through unjudged"))
    if method not in allowed:
        refused = refusals.reply(run, Denial("method_not_allowed", f"{path} takes {' or '.join(allowed)}"))
        return Reply(refused.status, (*refused.headers, ("allow", ", ".join(allowed))), refused.chunks)
    if path == LIVE:
        return _json(run, 200, {"status": "live"})
    if not started:
        return refusals.reply(
            run,
            Denial(
                "not_started",
                "the gateway was mounted without its lifespan; use attach(host, path, gateway), or enter it in the host's",
                retry_after=1,
            ),
        )
    if run.engine.stopping.began and path in _NOT_AFTER_THE_STOP:
        return refusals.reply(run, refusals.STOPPING)
    if path == READY and closed(run):
        return refusals.reply(run, AUTH_UNSET)
    if path == READY:
        return _json(run, 200, {"status": "ready", "policy": run.snapshot.policy})
    if path == METRICS:
        return await scraped(run)
    if path == EXPLAIN:
        return _json(run, 200, await explained(run))
    principal = await _principal(run)
    if isinstance(principal, Denial):
        return refusals.reply(run, principal)
    return _models(run, principal) if path == MODELS else await _decisions(run, principal)


def _below_decisions(path: str) -> bool:
    return path.startswith(f"{DECISIONS}/")


async def _principal(run: Run) -> Principal | Denial:
    """Who is calling."""
    try:
        denial = await authenticate(run)
    except (ContractViolation, PluginError) as error:
        denial = refusals.of_plugin(error)
    if denial is not None or run.caller is None:
        return denial or Denial("unauthenticated", "nobody is calling")
    return run.caller.principal


async def _decisions(run: Run, principal: Principal) -> Reply:
    """The caller's own decisions: a page, or the one that the path names."""
    reads, reader, path = run.engine.reads, run.engine.recorders.reader, run.inbound.path
    if _below_decisions(path):
        key = path.removeprefix(f"{DECISIONS}/")
        found = await decisions.one(reads, reader, run.snapshot, principal, key)
    else:
        found = await decisions.page(reads, reader, run.snapshot, principal, run.inbound.query)
    return refusals.reply(run, found) if isinstance(found, Denial) else _told(run, 200, found)


def _models(run: Run, principal: Principal) -> Reply:
    """OpenAI's list: only the routes that this caller may see and has a target on."""
    routes = run.snapshot.routes.items()
    visible = [name for name, route in routes if may_name(principal, name) and route.granted(principal)]
    data: list[Json] = [{"id": name, "object": "model", "created": 0, "owned_by": "narrows"} for name in visible]
    return _json(run, 200, {"object": "list", "data": data})


def _json(run: Run, status: int, document: Json) -> Reply:
    return _told(run, status, msgspec.json.encode(document))


def _told(run: Run, status: int, body: bytes) -> Reply:
    return Reply.whole(status, body, (refusals.JSON, *refusals.common(run)))
