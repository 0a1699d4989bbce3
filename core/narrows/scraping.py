"""`GET /metrics`: who may scrape, and what they get. No decision, no span. Source: DESIGN section 9.

Its credential is its own: a caller's key does not open it, and its key opens nothing else. Without one only this machine
is answered: the names of routes, targets and rules are no secret of a caller's, and none of everybody's.
"""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import IPv6Address, ip_address
from typing import Final

import anyio
import anyio.to_thread

from narrows import refusals
from narrows.hookspecs import LIFE_CYCLE, PIPELINE
from narrows.run import Run
from narrows.snapshot import Snapshot
from narrows.telemetry import Elsewhere, Known
from narrows.types import Denial, Inbound, Reply

PROXIED: Final = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
"""Whoever sends one of these speaks for somebody else."""


async def scraped(run: Run) -> Reply:
    """The metrics, or the refusal. Written in a worker thread: thousands of series take tens of milliseconds."""
    from narrows.telemetry.metrics_exposition import exposed  # prometheus_client: 25 ms of everybody's start

    denial = refused(run)
    if denial is not None:
        return refusals.reply(run, denial)
    calls, recorders = run.engine.calls, run.engine.recorders
    families = run.engine.metrics.families(
        Elsewhere(
            violations=dict(calls.violations),  # copied at once: sinks count in threads of their own
            errors=dict(calls.errors),
            dropped=recorders.dropped,
            queued=recorders.queued,
        )
    )
    accept, own = run.inbound.header("accept") or "", anyio.CapacityLimiter(1)  # not behind the host's threads
    content_type, body = await anyio.to_thread.run_sync(exposed, families, accept, limiter=own)
    return Reply.whole(200, body, (("content-type", content_type), *refusals.common(run)))


def refused(run: Run) -> Denial | None:
    """Why this caller may not scrape, or None."""
    wanted = run.snapshot.metrics_key
    if wanted is not None:
        key = sent(run.inbound)
        if key and hmac.compare_digest(hashlib.sha256(key).hexdigest(), wanted):
            return None
        return Denial("unauthenticated", "send the key of [server] metrics_key_sha256: `Authorization: Bearer KEY`")
    if run.outer is None and run.speaker is None and local(run.inbound):
        return None
    return Denial(
        "forbidden",
        "without a key of its own, /metrics answers only connections of this machine that no proxy speaks for. "
        "An operator can set [server] metrics_key_sha256 (`narrows keygen`)",
    )


def sent(inbound: Inbound) -> bytes:
    """The one key of a request, from `Authorization: Bearer` or `x-api-key`; two different ones are none."""
    found = {value.strip() for name, value in inbound.headers if name == "x-api-key"}
    for name, value in inbound.headers:
        if name == "authorization":
            scheme, _, key = value.strip().partition(" ")
            found.add(key.strip() if scheme.casefold() == "bearer" else "")
    return found.pop().encode("latin-1", "backslashreplace") if len(found) == 1 else b""


def local(inbound: Inbound) -> bool:
    """Does it come from this machine, and from nobody behind it? No address, as on a Unix socket or in this process, is
    nobody's address."""
    if any(name in PROXIED for name, _ in inbound.headers):
        return False
    try:
        address = ip_address(inbound.client or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def known(snapshot: Snapshot) -> Known:
    """The names that metrics may carry as labels."""
    return Known(
        routes={name: tuple(impl.plugin for impl in route.narrowers) for name, route in snapshot.routes.items()},
        targets=tuple(snapshot.targets),
        hooks=tuple(
            (impl.plugin, hook) for hook in (*PIPELINE, *LIFE_CYCLE) for impl in snapshot.implementations.of(hook)
        ),
    )
