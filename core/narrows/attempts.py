"""Steps 11 and 12: attempt by attempt, each through the gate, until one answers or the failure table says stop.

The deadline ends at the first byte to the caller. Nothing that a rule removed is among the candidates here, and nothing
here can add one. Source: DESIGN sections 2 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from types import MappingProxyType
from typing import cast

import anyio

from narrows.calls import Impl
from narrows.candidates import Candidates
from narrows.errors import ContractViolation, Passing, PluginError
from narrows.exchange import Barred, Exchange, Outgoing
from narrows.failover import UNANSWERED, Disposition, Next, Retry, Stop, disposition, merge, next_step
from narrows.outcomes import Answered, Failed, judged
from narrows.request import Sizes
from narrows.run import Run
from narrows.snapshot import Route
from narrows.telemetry import AttemptSpan
from narrows.types import Classified, Denial, Failure, FailureClass, Reply, Target
from narrows.upstream import UpstreamFault

RETRY_CAP_SECS = 10.0
"""The longest wait before a repeat; a provider that asks for more is repeated after this or left."""

LATE = Classified(FailureClass.TIMEOUT, evidence="deadline")
BROKEN = Classified(FailureClass.INVALID_REQUEST, evidence="contract_violation")
_EVIDENCE = re.compile(r"[a-z][a-z0-9_]{0,31}|")


async def dispatched(run: Run) -> Reply | Denial:
    """The answer of the first candidate that gives one, or the last failure as the caller gets it."""
    route = run.route
    if route is None:
        raise RuntimeError("dispatch runs after resolve")
    outcome: Reply | Denial | None = None
    with anyio.move_on_after(route.deadline_secs) as scope:
        outcome = await _tried(run, route)
    if outcome is None or scope.cancelled_caught:
        if run.exchange is not None:
            run.exchange.finish(LATE, answered=False)
        await run.close_upstream()
        return Denial(
            "deadline", f"no answer began within {route.deadline_secs:g} s ([routes.{route.name}] deadline_secs)"
        )
    return outcome


async def _tried(run: Run, route: Route) -> Reply | Denial:
    """The attempt loop: `next_step` decides, this obeys. A target that was left is never entered again."""
    here, left = _first(run), None
    retried = 0
    while True:
        if not run.holding.top_up(here, _sizes(run)):
            passed = left if left is not None else tuple(run.eligible())[1:]
            if not passed:
                return _uncovered(run)
            here, left, retried = passed[0], passed[1:], 0
            continue
        result = await _attempt(run, here)
        if isinstance(result, Answered):
            run.target, run.answered_at = here, run.engine.clock()
            return result.reply
        left = left if left is not None else tuple(run.eligible())[1:]
        step = next_step(
            replace(route.failover, max_retries=_retries(run, here)),
            result.classified,
            here=here,
            left=left,
            retried=retried,
            cap=RETRY_CAP_SECS,
            credentials_differ=lambda a, b: _credential(run, a) != _credential(run, b),
        )
        match step:
            case Retry(delay):
                retried += 1
                await anyio.sleep(delay)
            case Next(target, rest):
                here, left, retried = target, rest, 0
            case Stop():
                run.target = here
                return result.told(run)


async def _attempt(run: Run, target: Target) -> Answered | Failed:
    """One upstream call, and what came of it. Raises ContractViolation where the provider broke its contract."""
    vendor = run.snapshot.vendors[target.provider]
    if run.call is None:
        raise RuntimeError("dispatch runs after read")
    number = len(run.attempts) + 1
    span = run.span.attempt(target.name, target.model, vendor.kind, number)
    exchange = run.exchange = Exchange(run, target, vendor, span)
    body = run.call.body_for(target.model, run.snapshot.extra_body[target.name])
    outgoing = Outgoing(run, target, vendor, number, body, span)
    try:
        reply = await _replied(run, vendor.dispatch, outgoing, span)
        exchange.status, run.upstream = reply.status, reply.chunks
        return await judged(run, exchange, reply, lambda failure: classified(run, failure, target, span))
    except Barred as barred:
        await run.close_upstream_quietly()
        exchange.finish(BROKEN, answered=exchange.reached)
        raise run.engine.calls.violated(barred) from None
    except UpstreamFault as fault:
        failure = Failure(vendor.kind, "response", None, transport=fault.transport)
    except (PluginError, Passing):
        failure = Failure(vendor.kind, "response", None, transport="protocol_error")
    await run.close_upstream_quietly()
    verdict = classified(run, failure, target, span)
    exchange.finish(verdict, answered=False)
    return Failed(verdict, failure)


async def _replied(run: Run, impl: Impl, outgoing: Outgoing, span: AttemptSpan) -> Reply:
    """What the provider answers. Raises Barred where it broke its contract, also where it kept that to itself."""
    calls = run.engine.calls
    try:
        with span.current():
            answer = calls.begin(impl, attempt=outgoing)
            if isawaitable(answer):
                answer = await calls.finish(impl, cast(Awaitable[object], answer), bounded=False)
    finally:
        outgoing.close()
    return outgoing.reply(answer, partial(calls.failed, impl))


def classified(run: Run, failure: Failure, target: Target, span: AttemptSpan) -> Classified:
    """What the failure is: every plugin is asked, content_policy beats every answer, any stop beats any move."""
    answers: list[tuple[str, Classified]] = []
    all_judged = True
    calls = run.engine.calls
    failure = replace(failure, headers=MappingProxyType(dict(failure.headers)))  # one object for all of them
    for impl in run.snapshot.implementations.of("classify_error"):
        try:
            with span.current():
                answer = calls.begin(impl, failure=failure, target=target)
            if answer is not None and not _is_verdict(answer):
                said = "it returned neither a Classified of a known class nor None"
                raise calls.violated(ContractViolation(impl.plugin, "classify_error", said))
            answer = _worded(cast(Classified | None, answer))
        except (PluginError, ContractViolation):
            all_judged = False
            answer = Classified(FailureClass.INVALID_REQUEST, evidence=f"plugin {impl.plugin} failed")
        if answer is not None:
            answers.append((impl.plugin, answer))
    verdict = merge(answers)
    for plugin, answer in answers:
        if all_judged and failover_moves(answer) and not failover_moves(verdict):
            calls.overruled(plugin, str(answer.failure_class), str(verdict.failure_class))
    return verdict


def _worded(answer: Classified | None) -> Classified | None:
    """The answer, with its evidence one short word: it is kept with the attempt, and a text may be the vendor's."""
    if answer is None:
        return None
    evidence: object = answer.evidence
    if evidence == UNANSWERED or not isinstance(evidence, str) or not _EVIDENCE.fullmatch(evidence):
        return replace(answer, evidence="other")
    return answer


def _is_verdict(answer: object) -> bool:
    """A class by its name is not the class: what compares members by identity would not know it."""
    if not isinstance(answer, Classified) or not isinstance(answer.failure_class, FailureClass):
        return False
    return answer.retry_after is None or isinstance(answer.retry_after, int | float)


def failover_moves(answer: Classified) -> bool:
    """Would this answer, alone, let the request move on?"""
    return disposition(answer.failure_class) is Disposition.MOVE


def _first(run: Run) -> Target:
    """The first target to try, without building the whole order: most requests need only this one."""
    if run.route is not None and run.order:
        return run.route.pool.targets[run.order[0]]
    candidates: Candidates | None = run.candidates
    first: Iterator[Target] = iter(candidates) if candidates is not None else iter(())
    return next(first)


def _retries(run: Run, target: Target) -> int:
    own = run.route.max_retries if run.route is not None else None
    return run.snapshot.vendors[target.provider].max_retries if own is None else own


def _credential(run: Run, target: Target) -> str:
    return run.snapshot.vendors[target.provider].credential


def _sizes(run: Run) -> Sizes:
    return run.request.sizes if run.request is not None else Sizes()


def _uncovered(run: Run) -> Denial:
    return Denial("budget_exhausted", "no target that is left is covered by what remains of a budget")
