"""Decisions as their caller may read them: its own, and of them only what it is granted now.

A target or a route that a caller is not granted does not exist for it; a record that was written when it was is no way
round that. Stores are read in a worker thread, a bounded number of them and for a bounded time: a store that hangs costs
its reader a 503 and nobody else anything. Source: DESIGN section 9, INTERFACES `GET /v1/decisions`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from narrows.calls import at
from narrows.decision import clipped, session_digest
from narrows.ledger import LedgerUnavailable, Query, Reader, Reads
from narrows.ledger.reading import MOST
from narrows.snapshot import Snapshot, may_name, may_use
from narrows.types import Denial, Json, Principal

log = logging.getLogger("narrows.engine")

DEFAULT_LIMIT: Final = 50
PARAMETERS: Final = ("limit", "before", "session")
ID: Final = re.compile(r"dec_[0-9a-f]{27}")

UNAVAILABLE: Final = Denial(
    "ledger_unavailable", "what was decided cannot be read now; requests are served as before", retry_after=1
)
NOT_FOUND: Final = Denial("not_found", "you have no decision of that id")


async def page(reads: Reads, reader: Reader, snapshot: Snapshot, principal: Principal, query: str) -> bytes | Denial:
    """A page of the caller's decisions as JSON, newest first. `query`: the URL's, as it was sent."""
    asked = wanted(query, principal)
    if isinstance(asked, Denial):
        return asked

    def told() -> bytes:
        found = reader.decisions(asked)
        rows = [granted(row, snapshot, principal) for row in found.data]
        return msgspec.json.encode({"data": rows, "next": found.next})

    return await _read(reads, told)


async def one(reads: Reads, reader: Reader, snapshot: Snapshot, principal: Principal, key: str) -> bytes | Denial:
    """One of the caller's decisions as JSON. Somebody else's is not found, like one that never was."""
    if not ID.fullmatch(key):
        return NOT_FOUND

    def told() -> bytes | Denial:
        found = reader.decision(key)
        if found is None or found["principal"] != clipped(principal.name):
            return NOT_FOUND
        return msgspec.json.encode(granted(found, snapshot, principal))

    return await _read(reads, told)


async def _read(reads: Reads, told: Callable[[], bytes | Denial]) -> bytes | Denial:
    """Filtered and encoded in the worker thread too: a page may be large."""
    try:
        return await reads.ask(told)
    except LedgerUnavailable as error:
        log.warning("decisions cannot be read: %s", error)
    except Exception as error:  # noqa: BLE001 - a sink's own code; its text may hold anything, its type and place not
        log.warning("decisions cannot be read: %s%s", type(error).__name__, at(error))
    return UNAVAILABLE


def wanted(query: str, principal: Principal) -> Query | Denial:
    """What the caller asks for, of its own decisions. A parameter that is not known is refused: leaving out a misspelt
    filter would answer more than was asked for."""
    try:
        # As headers are read, so that a session's name here and there are the same bytes.
        given = parse_qsl(query, keep_blank_values=True, encoding="latin-1", max_num_fields=len(PARAMETERS))
    except ValueError:
        return _bad(None, f"there are more parameters than {', '.join(PARAMETERS)}")
    said: dict[str, str] = {}
    for name, value in given:
        if name not in PARAMETERS:
            return _bad(None, f"there is a parameter that is not known; there are {', '.join(PARAMETERS)}")
        if name in said:
            return _bad(name, f"{name} is given twice")
        said[name] = value
    limit = said.get("limit", str(DEFAULT_LIMIT))
    if not re.fullmatch(r"[0-9]{1,9}", limit) or not 1 <= int(limit) <= MOST:
        return _bad("limit", f"limit is a number from 1 to {MOST}")
    before = said.get("before")
    if before is not None and not ID.fullmatch(before):
        return _bad("before", "before is the id of a decision, such as `next` of the page before")
    session = None
    if "session" in said:
        session = session_digest(principal.name, said["session"])
        if session is None:
            return _bad("session", "session is the name that you send as x-narrows-session, and here is empty")
    return Query(int(limit), before, principal=clipped(principal.name), session=session)


def _bad(name: str | None, why: str) -> Denial:
    return Denial("invalid_body", f"in the URL's query: {why}", name)


# ---- what a caller is granted now -----------------------------------------------------------------------------------

AS_IT_IS: Final = (
    "id", "ts", "policy", "principal", "tenant", "session", "request_id", "attributes", "demands", "outcome", "status",
    "code",
)  # fmt: skip
"""Keys of D in which no target or route is named."""
BY_TARGET: Final = ("labels", "facts")
ROWS: Final = ("excluded", "shadow", "waived", "attempts")


def granted(document: Mapping[str, Any], snapshot: Snapshot, principal: Principal) -> dict[str, Json]:
    """The decision without what this caller is not granted now. A key that is not known here is left out."""
    hidden = _hidden(document, snapshot, principal)
    told: dict[str, Json] = {key: document[key] for key in AS_IT_IS if key in document}
    told["route"] = document["route"] if _visible(document["route"], snapshot, principal) else None
    for key in BY_TARGET:
        told[key] = {name: row for name, row in document.get(key, {}).items() if name not in hidden}
    for key in ROWS:
        told[key] = [row for row in document.get(key, ()) if row["target"] not in hidden]
    told["order"] = [name for name in document["order"] if name not in hidden]
    rank = document["rank"]
    signals = {key: said for key, said in rank["signals"].items() if key not in hidden and said not in hidden}
    told["rank"] = {**rank, "signals": signals}
    if hidden.isdisjoint(row["target"] for row in document["attempts"]):
        told["cost_micro_usd"] = document["cost_micro_usd"]
    else:  # a sum that does not fit would tell of an attempt that is not shown
        told["cost_micro_usd"] = sum(row["cost_micro_usd"] or 0 for row in document["attempts"]
                                     if row["target"] not in hidden)  # fmt: skip
    told["blocked_fallback"] = document["blocked_fallback"] and bool(told["excluded"]) and bool(told["attempts"])
    return {key: told[key] for key in document if key in told}


def _hidden(document: Mapping[str, Any], snapshot: Snapshot, principal: Principal) -> frozenset[str]:
    """The targets named in it that the caller may not use now. One that is not configured any more is granted only to
    who is granted everything."""
    if principal.targets is None and principal.providers is None:
        return frozenset()
    named = {*document["order"]}.union(*(document.get(key, ()) for key in BY_TARGET))
    named.update(row["target"] for key in ROWS for row in document.get(key, ()))
    known = snapshot.targets
    return frozenset(name for name in named if name not in known or not may_use(principal, known[name]))


def _visible(name: str | None, snapshot: Snapshot, principal: Principal) -> bool:
    if name is None or not may_name(principal, name):
        return False
    route = snapshot.routes.get(name)
    return route is None or bool(route.granted(principal))
