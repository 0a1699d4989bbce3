"""Leaving a request: close the upstream, settle and release money, record the decision. Shielded and bounded.

The caller has its last byte by then. Nothing here can change or delay the response, and one failing plugin does not keep
another from being asked.
"""

from __future__ import annotations

import logging

import anyio
import msgspec

from narrows.attributes import effective
from narrows.calls import Impl
from narrows.candidates import Candidates
from narrows.decision import AttemptRow, AttributeValue, Decision, Demanded, Excluded
from narrows.errors import ContractViolation, PluginError
from narrows.failover import disposition
from narrows.run import Run
from narrows.types import FailureClass, Json, Usage

log = logging.getLogger("narrows.requests")
LEAVE_SECS = 5.0
UNRESOLVED = "other"
NOTHING = "-"
_OPERATORS = frozenset({"contract_violation", "constraint_failed", "budget_unverifiable", "auth_unset", "not_started"})


async def leave(run: Run) -> None:
    """Everything that must happen however the request ended. Never raises for a plugin's fault."""
    with anyio.move_on_after(LEAVE_SECS, shield=True):
        await run.close_upstream()
        _settle(run)
        recorders = run.snapshot.implementations.of("record")
        if run.recorded and (recorders or run.span.recording):
            decision = decided(run)
            offered = [target.name for target in run.route.pool.members(run.granted)] if run.route else []
            run.span.end(decision, offered, [target.name for target in run.candidates or ()])
            for impl in recorders:  # after the span: it ends with the last byte, whatever a sink takes
                await _record(run, impl, decision)
    run.span.end(None)
    if run.recorded or run.denial is not None:  # every refusal too, whatever its path; never a path, a name or a text
        _log(run)


def _log(run: Run) -> None:
    """One line: what an operator needs to know who must act. Names are the configuration's, the rest is closed words."""
    last = run.attempts[-1] if run.attempts else None
    operators_fault = run.code in _OPERATORS or (last is not None and last.failure_class == FailureClass.AUTHENTICATION)
    log.log(
        logging.WARNING if operators_fault else logging.INFO,
        "decision=%s route=%s outcome=%s status=%d code=%s target=%s attempts=%d ms=%d key=%s provider=%s class=%s "
        "upstream=%s excluded=%s",
        run.id,
        run.route.name if run.route else UNRESOLVED,
        run.outcome,
        run.status,
        run.code,
        run.target.name if run.target else NOTHING,
        len(run.attempts),
        run.elapsed_ms(),
        run.caller.principal.name if run.caller else NOTHING,
        last.provider if last else NOTHING,
        last.failure_class if last else NOTHING,
        last.status if last and last.status is not None else NOTHING,
        _counts(run) or NOTHING,
    )


def _counts(run: Run) -> str:
    """ "residency:2,price-cap:1": how many targets each rule removed, under the first that failed where none is left."""
    counts: dict[str, int] = {}
    if run.exhausted is not None:
        for row in run.exhausted.exclusions:
            counts[row.constraint] = counts.get(row.constraint, 0) + row.count
    elif run.candidates is not None:
        for cut in run.candidates._cuts:
            counts[cut.constraint] = counts.get(cut.constraint, 0) + cut.mask.bit_count()
    return ",".join(f"{constraint}:{count}" for constraint, count in counts.items())


async def _record(run: Run, impl: Impl, decision: Decision) -> None:
    try:
        await run.engine.calls(impl, decision=decision)
    except (PluginError, ContractViolation):  # counted and logged by the loop; each sink is isolated
        return


def _settle(run: Run) -> None:
    try:
        run.holding.close(charged(run.attempts))
    except (PluginError, ContractViolation):  # counted and logged by the loop; the caller already has its answer
        return


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
    return Decision(
        id=run.id,
        ts=run.ts,
        policy=run.snapshot.policy,
        principal=principal.name if principal else None,
        tenant=principal.tenant if principal else None,
        route=run.route.name if run.route else None,
        outcome=run.outcome,
        status=run.status,
        code=run.code,
        message=run.denial.why if run.denial else "",
        request_id=run.request_id,
        attributes=attribute_values(run),
        demands=demanded(run),
        labels={t.name: t.labels for t in run.route.pool.members(run.granted)} if run.route else {},
        excluded=excluded(run.candidates),
        order=tuple(target.name for target in run.eligible()) if run.order is not None else (),  # refused before: none
        algorithm=run.route.algorithm if run.route else "",
        rank_reason=run.rank_reason,
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
    """Each demand as JSON, in the order of the route's rules."""
    if run.request is None or run.route is None:
        return ()
    return tuple(
        Demanded(row.constraint, plain(row.demand), row.source)
        for rule in run.route.rules
        for row in sorted(run.request.demands_of(rule.name), key=lambda row: (row.source, repr(row.demand)))
    )


def excluded(candidates: Candidates | None) -> tuple[Excluded, ...]:
    """Who was removed by what and why, one row a target and reason."""
    if candidates is None:
        return ()
    return tuple(
        Excluded(target.name, cut.constraint, exclusion.code, exclusion.why)
        for cut in candidates._cuts
        for exclusion, mask in cut.groups
        for target in candidates._pool.members(mask & cut.mask)
    )


def plain(demand: object) -> Json:
    """A demand as plain JSON; None for one that is none, over which the request was refused."""
    try:
        decoded: Json = msgspec.json.decode(msgspec.json.encode(demand))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return decoded


def _blocked_fallback(run: Run) -> bool:
    """Did the request end in a moving class while a constraint had removed a target of its route?"""
    if not run.attempts or run.candidates is None or not run.candidates._cuts:
        return False
    if run.outcome == "client_disconnected":
        return False  # nothing failed: the caller left, and its last attempt has no class of its own
    last = run.attempts[-1].failure_class
    return last != "ok" and disposition(FailureClass(last)) == "move"
