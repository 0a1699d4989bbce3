"""Steps 7 to 10: what may be used, what is covered, and in which order. Only the last is preference.

The guard checks the answer of every single plugin against what stood before it, so nothing can come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable

from narrows.calls import Calls, Impl
from narrows.candidates import Candidates, Cut, Guard
from narrows.constraints import Constraint
from narrows.errors import ContractViolation, PluginError
from narrows.exhaustion import Exhausted, Finding, exhausted
from narrows.ranking import accept_order, accept_reason
from narrows.request import Request
from narrows.run import Run
from narrows.types import Denial, Json


async def narrow(run: Run) -> Denial | None:
    """7. Every plugin that narrows this route, in its order. Empty: the refusal asks all of them about all targets."""
    route, request, candidates = run.route, run.request, run.candidates
    if route is None or request is None or candidates is None:
        raise RuntimeError("narrow runs after resolve")
    for impl in route.narrowers:
        candidates = await asked(run.engine.calls, impl, request, candidates)
        run.candidates, run.hard_cuts = candidates, len(candidates._cuts)
        if not candidates:
            return await refused(run)
    return None


async def asked(calls: Calls, impl: Impl, request: Request, candidates: Candidates) -> Candidates:
    """One plugin's answer, through the guard. Raises ContractViolation and PluginError, each naming the plugin."""
    guard = Guard(impl.plugin, candidates, "" if isinstance(impl.owner, Constraint) else impl.prefix)
    answer = calls.begin(impl, request=request, candidates=candidates)
    if type(answer) is not Candidates and isawaitable(answer):  # asked of the few answers that are neither
        answer = await calls.finish(impl, answer)
    try:
        return guard.accept(answer)
    except ContractViolation as violation:
        raise calls.violated(violation) from None


async def hold(run: Run) -> Denial | None:
    """8. Money, held for what is left; what no allowance covers goes. A dry run (explain) holds nothing."""
    if run.candidates is None or run.request is None:
        raise RuntimeError("hold runs after narrow")
    if run.holding:
        run.candidates = run.holding.cover(run.candidates, run.request.sizes, dry=run.dry)
        if not run.candidates:
            return await refused(run)
    return None


async def rank(run: Run) -> Denial | None:
    """10. The route's ranker: a prefix of what is left, the rest follow. A ranker that fails costs preference only; one
    that adds or repeats is a violation. A dry run (explain) draws by the ticket of the next request, and does not take it."""
    if run.candidates is None or run.route is None or run.request is None:
        raise RuntimeError("rank runs after narrow")
    impl, tickets = run.route.ranker, run.engine.tickets
    offered = Guard(impl.plugin, run.candidates, hook="rank")
    request = run.request.with_ticket((tickets.peek if run.dry else tickets.take)(run.route.name))
    try:
        answer = await run.engine.calls(impl, request=request, candidates=run.candidates, consult=NoJudges())
    except PluginError:
        answer, run.rank_reason = None, "failed"
    try:
        run.candidates = offered.accept(None)
        run.order = accept_order(impl.plugin, run.candidates, answer)
    except ContractViolation as violation:
        raise run.engine.calls.violated(violation) from None
    try:
        reason, run.rank_signals = accept_reason(impl.plugin, run.candidates, answer)
        run.rank_reason = run.rank_reason or reason
    except ContractViolation as violation:  # the order stands: what a ranker says of it refuses nobody
        run.engine.calls.violated(violation)
    return None


@dataclass(frozen=True, slots=True)
class NoJudges:
    """`consult` where no judge is configured: rankers that ask judges come with their issue, and are refused at load."""

    conversation: Sequence[Mapping[str, Json]] = ()

    async def __call__(self, judge: str, messages: Sequence[Mapping[str, Json]], schema: Mapping[str, Json]) -> Json:
        """No judge may be asked."""
        return None


async def findings(run: Run) -> tuple[Finding, ...]:
    """The full matrix: what every rule excludes of the whole granted pool, in the order of the rules.

    Raises PluginError for a constraint that fails now, though the set is empty already: order changes nothing.
    """
    route, request = run.route, run.request
    if route is None or request is None or run.candidates is None:
        return ()
    whole = Candidates(route.pool, run.granted)
    found: list[Finding] = []
    for impl in route.narrowers:
        if isinstance(impl.owner, Constraint):
            for row in request.demands_of(impl.plugin):
                try:
                    cut = route.pool.verdict(impl.plugin, impl.owner, row.demand, impl.prefix)
                except Exception as error:
                    raise run.engine.calls.failed(impl, error) from error
                found.append(Finding(cut, row.source == "assumed"))
        else:
            found += [Finding(cut) for cut in await _alone(run, impl, request, whole)]
    return (*found, *(Finding(cut) for cut in run.candidates._cuts[run.hard_cuts :]))


async def _alone(run: Run, impl: Impl, request: Request, whole: Candidates) -> tuple[Cut, ...]:
    """What a free `narrow` hook removes of the whole pool. If it fails now, what it removed on the way stands."""
    try:
        return (await asked(run.engine.calls, impl, request, whole))._cuts
    except (ContractViolation, PluginError):
        return tuple(cut for cut in (run.candidates._cuts if run.candidates else ()) if cut.constraint == impl.plugin)


async def refused(run: Run) -> Denial:
    """The refusal of an empty set: its code, its counts, the nearest way out."""
    if run.route is None:
        raise RuntimeError("only a resolved route can be exhausted")
    told: Exhausted = exhausted(run.route.name, run.route.pool, run.granted, await findings(run))
    run.exhausted = told
    if told.code == "attribute_missing":
        attributes = [run.snapshot.reader.attributes[name] for name in sorted(run.assumed)]
        ways = [f"{one.header}: {' or '.join(sorted(one.values or ()))}" for one in attributes]
        said = f" Nobody said it, so every value was assumed; send a header: {'; '.join(ways)}."
        return Denial(told.code, told.message + said, attributes[0].header if attributes else None)
    return Denial(told.code, told.message)
