"""The one log line of each request: what an operator needs to know who must act. Never content, never a credential."""

from __future__ import annotations

import logging

from narrows.run import Run
from narrows.types import FailureClass

log = logging.getLogger("narrows.requests")
UNRESOLVED = "other"
NOTHING = "-"
_OPERATORS = frozenset({"contract_violation", "constraint_failed", "budget_unverifiable", "auth_unset", "not_started"})


def log_request(run: Run) -> None:
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
