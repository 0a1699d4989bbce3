"""Our own answers: a `Denial` as an HTTP reply in the caller's dialect, with its headers."""

from __future__ import annotations

import logging
import math

import msgspec

from narrows.calls import at
from narrows.dialects.errors import error_document
from narrows.errors import STATUS, TEMPORARY, ContractViolation, PluginError
from narrows.run import Run
from narrows.stopping import CODE
from narrows.types import Denial, Json, Reply

JSON = ("content-type", "application/json")
RETRY_AFTER_SECS = 1
log = logging.getLogger("narrows.engine")

STOPPING = Denial(
    CODE, "this gateway is being stopped; send it again, another one may answer", retry_after=RETRY_AFTER_SECS
)

_BROKEN = {
    "authenticate": ("unauthenticated", "the caller could not be authenticated"),
    "authorize": ("forbidden", "it could not be established that this request is allowed"),
    "budget": ("budget_unverifiable", "a budget could not be read"),
    "narrow": ("constraint_failed", "a constraint could not be judged"),
}


def reply(run: Run, denial: Denial) -> Reply:
    """The refusal as it is sent. The run remembers it for the record."""
    run.denial = denial
    run.outcome = "upstream_error" if denial.code in ("upstream_error", "upstream_timeout", "deadline") else "refused"
    run.status, run.code = STATUS[denial.code], denial.code
    return Reply.whole(run.status, msgspec.json.encode(document(run, denial)), (JSON, *headers(run, denial)))


def document(run: Run, denial: Denial) -> dict[str, Json]:
    """The error object of a refusal."""
    counted: list[Json] = []
    if run.exhausted is not None:
        counted = [
            {"constraint": row.constraint, "code": row.code, "count": row.count} for row in run.exhausted.exclusions
        ]
    return error_document(
        denial.code,
        denial.why,
        STATUS[denial.code],
        param=denial.param,
        decision=run.id,
        policy=run.snapshot.policy,
        exclusions=counted,
    )


def headers(run: Run, denial: Denial) -> tuple[tuple[str, str], ...]:
    """Every answer names its decision and policy; a refusal its code, and whether the same request may be retried."""
    if denial.code in TEMPORARY:
        again = ("retry-after", str(_seconds(denial.retry_after)))
    else:
        again = ("x-should-retry", "false")
    return (*answered(run), ("x-narrows-code", denial.code), again)


def common(run: Run) -> tuple[tuple[str, str], ...]:
    """The headers of every answer."""
    named = [("x-narrows-decision", run.id), ("x-narrows-policy", run.snapshot.policy)]
    if run.route is not None:
        named.append(("x-narrows-route", run.route.name))
    asked = (run.request_id or "").strip()  # clipping may leave a space at its end, which no header may have
    if asked:
        named.append(("x-request-id", asked))
    return tuple(named)


def answered(run: Run) -> tuple[tuple[str, str], ...]:
    """The headers of an answer that came from a target, or of its error."""
    named = list(common(run))
    if run.exchange is not None:
        named += [("x-narrows-target", run.exchange.target.name), ("x-narrows-attempts", str(run.exchange.number))]
    if run.failure_class is not None:
        named.append(("x-narrows-class", run.failure_class))
    return tuple(named)


def _seconds(wanted: float | None) -> int:
    """Whole seconds, at least one. A plugin's number may be anything."""
    if wanted is None or not math.isfinite(wanted):
        return RETRY_AFTER_SECS
    return max(math.ceil(wanted), 1)


def of_plugin(error: ContractViolation | PluginError) -> Denial:
    """A plugin broke its contract (500), or failed where its hook must not (closed). Both name it."""
    if isinstance(error, ContractViolation):
        return Denial("contract_violation", str(error))
    code, what = _BROKEN.get(error.hook, ("contract_violation", "a plugin failed"))
    return Denial(code, f"{what}: plugin {error.plugin!r} failed ({error.reason})")


def broken(error: Exception) -> Denial:
    """A bug of the gateway: closed. Only its type and place are logged, its text may hold anything."""
    log.error("the gateway failed: %s%s", type(error).__name__, at(error))
    return Denial("internal_error", "the gateway failed; nothing more was sent. Tell its operator this decision")


def code_of(error: Exception) -> str:
    """The code of the refusal that this exception becomes."""
    return of_plugin(error).code if isinstance(error, ContractViolation | PluginError) else "internal_error"
