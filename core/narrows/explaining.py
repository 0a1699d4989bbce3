"""Explain: the same code as a live request, on a full body, with no upstream call. Shape: INTERFACES, `POST /v1/explain`."""

from __future__ import annotations

from narrows import refusals
from narrows.candidates import Cut
from narrows.deciding import attribute_values, demanded
from narrows.errors import STATUS, ContractViolation, PluginError
from narrows.exhaustion import Finding, nearest
from narrows.holding import costs_of
from narrows.narrowing import findings
from narrows.pipeline import considered
from narrows.run import Run
from narrows.types import Denial, Json


async def explained(run: Run) -> dict[str, Json]:
    """What would happen to this request, and why: every granted target with every reason."""
    try:
        denial = await considered(run, dry=True)
    except (ContractViolation, PluginError) as error:
        denial = refusals.of_plugin(error)
    return {  # a refusal told here was never given: the run keeps none, and none is logged
        "outcome": "eligible" if denial is None else "refused",
        "status": STATUS[denial.code] if denial is not None else 200,
        "code": denial.code if denial is not None else "ok",
        "message": denial.why if denial is not None else None,
        "decision": run.id,
        "policy": run.snapshot.policy,
        "route": run.route.name if run.route else None,
        "principal": run.caller.principal.name if run.caller else None,
        "attributes": {name: said.document() for name, said in attribute_values(run).items()},
        "demands": [row.document() for row in demanded(run)],
        **await _targets(run, denial),
        "rank": _rank(run, denial),
        **_amounts(run),
    }


async def _targets(run: Run, denial: Denial | None) -> dict[str, Json]:
    if run.route is None or run.candidates is None:
        return {"targets": [], "closest": None, "order": None if denial is None else []}
    found = await _matrix(run)
    pool = run.route.pool
    rows: list[Json] = []
    for target in pool.members(run.granted):
        bit = 1 << (pool.place(target) or 0)
        reasons: list[Json] = [
            {"constraint": finding.cut.constraint, "code": exclusion.code, "why": exclusion.why}
            for finding in found
            if finding.cut.mask & bit
            for exclusion, mask in finding.cut.groups
            if mask & bit
        ]
        rows.append({"target": target.name, "eligible": not reasons, "exclusions": reasons})
    return {
        "targets": rows,
        "closest": _closest(run, found),
        "order": [t.name for t in run.eligible()] if denial is None else [],
    }


def _rank(run: Run, denial: Denial | None) -> Json:
    """How the order came about, as in a decision. Lots are drawn by the ticket of the route's next request."""
    if run.route is None or denial is not None:
        return None
    return {"algorithm": run.route.algorithm, "reason": run.rank_reason, "signals": dict(run.rank_signals)}


async def _matrix(run: Run) -> tuple[Finding, ...]:
    """Every exclusion of every target. If a plugin failed on the way, what stands so far is all there is to tell."""
    try:
        return await findings(run)
    except Exception:  # noqa: BLE001 - a third party's rule raised; the refusal already names it
        cuts: tuple[Cut, ...] = run.candidates._cuts if run.candidates else ()
        return tuple(Finding(cut) for cut in cuts)


def _closest(run: Run, found: tuple[Finding, ...]) -> Json:
    if run.route is None:
        return None
    place, blocked_by = nearest(run.route.pool, run.granted, found)
    if place is None or not blocked_by:
        return None
    return {"target": run.route.pool.targets[place].name, "blocked_by": list(blocked_by)}


def _amounts(run: Run) -> dict[str, Json]:
    if run.call is None:
        return {
            "tokens": {"at_least": 0, "at_most": 0},
            "cost_micro_usd": {"at_least": 0, "at_most": 0},
            "unpriced": [],
        }
    sizes = run.call.sizes
    least, most, unpriced = costs_of(sizes, run.eligible())
    return {
        "tokens": {"at_least": sizes.at_least, "at_most": sizes.at_most},
        "cost_micro_usd": {"at_least": least, "at_most": most},
        "unpriced": list(unpriced),
    }
