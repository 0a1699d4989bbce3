"""Leaving a request: close the upstream, settle and release money, record the decision. Shielded and bounded.

The caller has its last byte by then. Nothing here can change or delay the response, and one failing plugin does not keep
another from being asked. Sinks are not asked here: their queues are offered the decision.
"""

from __future__ import annotations

import anyio

from narrows.calls import Impl
from narrows.constraints import Sink
from narrows.deciding import charged, decided, eligible, offered
from narrows.decision import Decision
from narrows.errors import ContractViolation, PluginError
from narrows.request_log import log_request
from narrows.run import Run

LEAVE_SECS = 5.0


async def leave(run: Run) -> None:
    """Everything that must happen however the request ended, once. Never raises for a plugin's fault."""
    if run.left:
        return
    run.left = True
    run.ended_at = run.engine.clock()
    with anyio.move_on_after(LEAVE_SECS, shield=True):
        await run.close_upstream()
    _settle(run)  # also where a provider's body does not close in time: money and record do not wait for it
    if run.recorded:
        decision = decided(run)
        run.engine.recorders.offer(decision, run.snapshot.canonical)
        run.engine.metrics.decided(decision, run.timings())
        run.span.end(decision, offered(run), eligible(run))
        with anyio.move_on_after(LEAVE_SECS, shield=True):
            for impl in run.snapshot.implementations.of("record"):  # after the span: it ends with the last byte
                if not isinstance(impl.owner, Sink):
                    await _record(run, impl, decision)
    run.span.end(None)
    if run.recorded or run.denial is not None:  # every refusal too, whatever its path; never a path, a name or a text
        log_request(run)


async def _record(run: Run, impl: Impl, decision: Decision) -> None:
    try:
        with run.span.current():
            await run.engine.calls(impl, decision=decision)
    except (PluginError, ContractViolation):  # counted and logged by the loop; each sink is isolated
        return


def _settle(run: Run) -> None:
    try:
        run.holding.close(charged(run.attempts))
    except (PluginError, ContractViolation):  # counted and logged by the loop; the caller already has its answer
        return
