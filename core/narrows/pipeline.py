"""The whole request, on one screen: eligibility before preference, and one road for everybody.

ASGI, the in-process transport, explain and the tests all come through here. Source: DESIGN section 2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from narrows import admission, attempts, narrowing, recording, refusals
from narrows.errors import ContractViolation, PluginError
from narrows.run import Run
from narrows.types import ClientGone, Denial, Reply


@asynccontextmanager
async def serve(run: Run) -> AsyncIterator[Reply]:
    """One request, from its headers to its last byte. Leaving, in any way, settles and records.

    No cancel scope and no current span crosses the yield: a client may close the body in another task.
    """
    try:
        yield await unless_cut(run, answered(run))
    finally:
        await recording.leave(run)


async def unless_cut(run: Run, work: Awaitable[Reply]) -> Reply:
    """The reply of this work; where a stop cut it, our own refusal. What it waited for upstream is closed then."""
    with run.engine.stopping.wait():
        return await work
    await run.close_upstream()
    return refusals.reply(run, refusals.STOPPING)


async def answered(run: Run) -> Reply:
    """The reply: the upstream's, or ours where the request was refused before egress."""
    try:
        denial = await considered(run)
        run.judged_at = run.engine.clock()
        outcome = denial if denial is not None else await attempts.dispatched(run)  # 11, 12: each through the gate
    except ContractViolation as violation:
        outcome = refusals.violated(violation)
    except PluginError as error:
        outcome = refusals.failed(error)
    except ClientGone:
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours is a refusal too: named by its decision, and recorded
        outcome = refusals.broken(error)
    return refusals.reply(run, outcome) if isinstance(outcome, Denial) else outcome


async def considered(run: Run, *, dry: bool = False) -> Denial | None:
    """Steps 1 to 10: everything that is decided before the first upstream call. `dry` (explain) holds nothing."""
    return (
        await admission.authenticate(run)  # 1  from headers alone, before the body is read
        or await admission.read(run)  # 2  decode just what decides; refuse what would route outside
        or admission.resolve(run)  # 3  the route, the granted pool, the attributes
        or admission.oblige(run)  # 4  said and assumed demands (carried ones join here)
        or await admission.authorize(run)  # 5  every plugin may object
        or await admission.budget(run)  # 6  allowances; a spent cap still leaves free targets
        or await narrowing.narrow(run)  # 7  hard: only ever removes, checked after every plugin
        or await narrowing.hold(run, dry=dry)  # 8  what no allowance covers goes
        # 9  soft narrowing (health, saturation) comes with its issue; it may not empty the set
        or await narrowing.rank(run)  # 10 preference, inside what is left
    )
