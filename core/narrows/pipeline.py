"""The whole request, on one screen: eligibility before preference, and one road for everybody.

ASGI, the in-process transport, explain and the tests all come through here. Source: DESIGN section 2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from narrows import admission, attempts, narrowing, recording, refusals
from narrows.errors import STATUS, ContractViolation, PluginError
from narrows.run import Run
from narrows.telemetry import names
from narrows.types import ClientGone, Denial, Reply

Step: TypeAlias = Callable[[Run], Awaitable[Denial | None]]

STEPS: Final[tuple[tuple[str, Step], ...]] = (
    (names.AUTHENTICATE, admission.authenticate),  # 1  from headers alone, before the body is read
    (names.READ, admission.read),  # 2  decode just what decides; refuse what would route outside
    (names.RESOLVE, admission.resolve),  # 3  the route, the granted pool, the attributes
    (names.OBLIGE, admission.oblige),  # 4  said and assumed demands (carried ones join here)
    (names.AUTHORIZE, admission.authorize),  # 5  every plugin may object
    (names.BUDGET, admission.budget),  # 6  allowances; a spent cap still leaves free targets
    (names.NARROW, narrowing.narrow),  # 7  hard: only ever removes, checked after every plugin
    (names.HOLD, narrowing.hold),  # 8  what no allowance covers goes
    # 9  soft narrowing (health, saturation) comes with its issue; it may not empty the set
    (names.RANK, narrowing.rank),  # 10 preference, inside what is left
)


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
    except (ContractViolation, PluginError) as error:
        outcome = refusals.of_plugin(error)
    except ClientGone:
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours is a refusal too: named by its decision, and recorded
        outcome = refusals.broken(error)
    return refusals.reply(run, outcome) if isinstance(outcome, Denial) else outcome


async def considered(run: Run, *, dry: bool = False) -> Denial | None:
    """Steps 1 to 10: everything that is decided before the first upstream call. `dry` (explain) holds nothing, and has
    no spans."""
    run.dry = dry
    staged = not dry and run.span.staged
    for name, step in STEPS:
        denial = await (in_its_span(run, name, step) if staged else step(run))
        if denial is not None:
            return denial
    return None


async def in_its_span(run: Run, name: str, step: Step) -> Denial | None:
    """The same step, with a span that says how it ended. Of what was raised it tells the code that is made of it."""
    with run.span.stage(name) as stage:
        try:
            denial = await step(run)
        except ClientGone:
            raise
        except Exception as error:
            code = refusals.code_of(error)
            stage.ended(code, STATUS[code])
            raise
        if denial is not None:
            stage.ended(denial.code, STATUS[denial.code])
        return denial
