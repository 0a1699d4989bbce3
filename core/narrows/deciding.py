"""From a run to its decision: what the record keeps of one request. Shape: D of INTERFACES."""

from __future__ import annotations

import msgspec

from narrows.attributes import effective
from narrows.candidates import Candidates
from narrows.decision import AttemptRow, AttributeValue, Decision, Demanded, Excluded, clipped, session_digest
from narrows.failover import Disposition, disposition
from narrows.run import Run
from narrows.stopping import CODE as STOPPING
from narrows.types import FailureClass, Json, Usage

SESSION = "x-narrows-session"


def charged(attempts: list[AttemptRow]) -> Usage:
    """What all attempts used and cost together."""
    return Usage(
        input=sum(row.input_tokens for row in attempts),
        output=sum(row.output_tokens for row in attempts),
        cached=sum(row.cached_tokens for row in attempts),
        reported=all(row.usage == "reported" for row in attempts),
        cost_micro_usd=sum(row.cost_micro_usd or 0 for row in attempts),
    )


def decided(run: Run) -> Decision:
    """The decision of a run as the record keeps it."""
    principal = run.caller.principal if run.caller else None
    labels, facts = run.route.described(run.granted) if run.route else ({}, {})
    return Decision(
        id=run.id,
        ts=run.ts,
        policy=run.snapshot.policy,
        principal=clipped(principal.name) if principal else None,
        tenant=clipped(principal.tenant) if principal and principal.tenant is not None else None,
        route=run.route.name if run.route else None,
        outcome=run.outcome,
        status=run.status,
        code=run.code,
        message=run.exhausted.message if run.exhausted else "",  # other refusals repeat what the caller wrote
        session=_session(run),
        request_id=run.request_id,
        attributes=attribute_values(run),
        demands=demanded(run),
        labels=labels,
        facts=facts,
        excluded=excluded(run.candidates),
        order=ordered(run),
        algorithm=run.route.algorithm if run.route else "",
        rank_reason=run.rank_reason,
        rank_signals=run.rank_signals,
        attempts=tuple(run.attempts),
        blocked_fallback=_blocked_fallback(run),
    )


def attribute_values(run: Run) -> dict[str, AttributeValue]:
    """Every attribute that has a value: said, or assumed because nobody said."""
    values = effective(run.said)
    told = {
        name: AttributeValue(tuple(sorted(values[name])), tuple(sorted(sources))) for name, sources in run.said.items()
    }
    assumed = {name: AttributeValue(tuple(sorted(every)), (), assumed=True) for name, every in run.assumed.items()}
    return {**told, **assumed}


def demanded(run: Run) -> tuple[Demanded, ...]:
    """Each demand as JSON, in the order in which they were judged: the route's rules, what was said before what is assumed."""
    if run.request is None or run.route is None:
        return ()
    return tuple(
        Demanded(row.constraint, plain(row.demand), row.source)
        for rule in run.route.rules
        for row in run.request.demands_of(rule.name)
    )


def excluded(candidates: Candidates | None) -> tuple[Excluded, ...]:
    """Who was removed by what and why, one row a target and reason."""
    if candidates is None:
        return ()
    return tuple(row for cut in candidates._cuts for row in candidates._pool.rows(cut))


def offered(run: Run) -> tuple[str, ...]:
    """The names of the targets that the caller is granted on its route, as the file orders them."""
    return run.route.pool.names(run.granted) if run.route else ()


def eligible(run: Run) -> tuple[str, ...]:
    """The names of those left, as the file orders them."""
    return run.candidates._pool.names(run.candidates._mask) if run.candidates is not None else ()


def ordered(run: Run) -> tuple[str, ...]:
    """The names of those left, in the order they would be tried; none where it was refused before that."""
    if run.order is None:
        return ()
    return tuple(target.name for target in run.eligible()) if run.order else eligible(run)


def plain(demand: object) -> Json:
    """A demand as plain JSON; None for one that is none, over which the request was refused."""
    try:
        decoded: Json = msgspec.json.decode(msgspec.json.encode(demand))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return decoded


def _session(run: Run) -> str | None:
    """The digest of what the caller calls its conversation: the inner request's word, else its host's."""
    name = run.inbound.header(SESSION)
    if name is None and run.outer is not None:
        name = run.outer.header(SESSION)
    if name is None or run.caller is None:
        return None
    return session_digest(run.caller.principal.name, name)


def _blocked_fallback(run: Run) -> bool:
    """Did the request end in a moving class while a rule had removed a target of its route? What money removed is no
    constraint's doing."""
    if not run.attempts or run.candidates is None or not run.candidates._cuts[: run.hard_cuts]:
        return False
    if run.outcome in ("answered", "client_disconnected") or run.code == STOPPING:
        return False  # it did not end in a failure: the caller left, or we did, between two attempts
    last = run.attempts[-1].failure_class
    return last != "ok" and disposition(FailureClass(last)) is Disposition.MOVE
