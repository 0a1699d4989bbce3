"""The one log line of each request: what an operator needs to know who must act. Never content, never a credential.

The fields stand in the log record, as its attribute `narrows`, for whoever formats it; the record's message is the same
fields as text. Names are the configuration's, the rest is closed words, numbers and ids. Only `request_id` is a caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from narrows.decision import clipped
from narrows.run import Run
from narrows.types import FailureClass, Json

log = logging.getLogger("narrows.requests")
FIELDS: Final = "narrows"
"""The attribute of a log record that holds the fields, in a dictionary: `record.narrows["status"]`."""

UNRESOLVED: Final = "other"
NOTHING: Final = "-"
_OPERATORS = frozenset({"contract_violation", "constraint_failed", "budget_unverifiable", "auth_unset", "not_started"})


def log_request(run: Run) -> None:
    """One line at INFO, or at WARNING where an operator has to act."""
    last = run.attempts[-1] if run.attempts else None
    operators_fault = run.code in _OPERATORS or (last is not None and last.failure_class == FailureClass.AUTHENTICATION)
    level = logging.WARNING if operators_fault else logging.INFO
    if log.isEnabledFor(level):
        fields = fields_of(run)
        log.log(level, "%s", text(fields), extra={FIELDS: fields})


def fields_of(run: Run) -> dict[str, Json]:
    """The fields of a request that was left. What there is not is None; names in the order of the line."""
    last = run.attempts[-1] if run.attempts else None
    return {
        "decision": run.id,
        "request_id": run.request_id,
        "route": run.route.name if run.route else UNRESOLVED,
        "outcome": str(run.outcome),
        "status": run.status,
        "code": run.code,
        "target": run.target.name if run.target else None,
        "attempts": len(run.attempts),
        "ms": run.elapsed_ms(),
        "key": clipped(run.caller.principal.name) if run.caller else None,
        "provider": last.provider if last else None,
        "class": last.failure_class if last else None,
        "upstream": last.status if last else None,
        "excluded": _counts(run),
    }


def _counts(run: Run) -> dict[str, Json]:
    """How many targets each rule removed, under the first that failed where none is left."""
    counts: dict[str, int] = {}
    if run.exhausted is not None:
        for row in run.exhausted.exclusions:
            counts[row.constraint] = counts.get(row.constraint, 0) + row.count
    elif run.candidates is not None:
        for cut in run.candidates._cuts:
            counts[cut.constraint] = counts.get(cut.constraint, 0) + cut.mask.bit_count()
    return {**counts}


def text(fields: Mapping[str, Json]) -> str:
    """The fields as `name=value`, one space between two of them."""
    return " ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _value(value: Json) -> str:
    if isinstance(value, dict):
        value = ",".join(f"{name}:{count}" for name, count in value.items())
    if isinstance(value, str):
        return quoted(value)
    return NOTHING if value is None else str(value)


def quoted(value: str) -> str:
    r"""The text as it is where it is one plain word; else in quotes, where what could end a word, a quote or a line, or
    look like another field, stands as `\x20`. So neither a parser nor a `grep` takes a caller's text for a field."""
    if not value:
        return NOTHING
    escaped = "".join(char if _plain(char) else _escape(char) for char in value)
    return value if escaped == value else f'"{escaped}"'


def _plain(char: str) -> bool:
    return char.isprintable() and not char.isspace() and char not in '"\\='


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else char.encode("unicode_escape", "backslashreplace").decode()
