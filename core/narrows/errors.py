"""Every exception Narrows raises, and the table of its stable codes.

"No" is data (`Exclusion`, `Denial`); "broken" is an exception. The stable codes and their HTTP status stand here once;
the HTTP surface, the decision record and the documentation read them from here. Source: DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from narrows.decision import Excluded

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "no_capable_target": 400,
        "field_refused": 400,
        "attribute_missing": 400,
        "attribute_unknown": 400,
        "invalid_body": 400,
        "continuation_unknown": 400,
        "unsupported_by_target": 400,
        "unauthenticated": 401,
        "budget_exhausted": 402,
        "cost_ceiling": 402,
        "forbidden": 403,
        "attribute_forbidden": 403,
        "no_eligible_target": 403,
        "unknown_model": 404,
        "not_found": 404,
        "method_not_allowed": 405,
        "body_too_large": 413,
        "unsupported_media_type": 415,
        "rate_limited": 429,
        "budget_held": 429,
        "contract_violation": 500,
        "internal_error": 500,
        "upstream_error": 502,
        "upstream_incomplete": 502,
        "constraint_failed": 503,
        "override_no_target": 503,
        "kill_switch": 503,
        "session_state_unavailable": 503,
        "session_capacity": 503,
        "budget_unverifiable": 503,
        "auth_unset": 503,
        "not_started": 503,
        "stopping": 503,
        "ledger_unavailable": 503,
        "upstream_timeout": 504,
        "deadline": 504,
    }
)
"""Stable code -> HTTP status of our own answers."""

TEMPORARY: frozenset[str] = frozenset(
    {
        "rate_limited",
        "budget_held",
        "session_state_unavailable",
        "budget_unverifiable",
        "not_started",
        "stopping",
        "ledger_unavailable",
    }
)
"""Codes that carry Retry-After instead of `x-should-retry: false`: the same request may be served a little later."""


class NarrowsError(Exception):
    """The base of every exception of this package."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration: what, where, and what to do instead.

    Shape: `path` is the dotted place in the file (`targets.us.regoin`); `line` counts from 1; `severity` "problem"
    refuses the load (exit 2), "warning" does not (exit 0).
    """

    code: str
    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None
    suggestion: str | None = None
    remedy: str | None = None
    severity: Literal["problem", "warning"] = "problem"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        where = f"{self.path}: " if self.path else ""
        hint = f" Did you mean {self.suggestion!r}?" if self.suggestion else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{place}{where}{sentence(self.message)}{hint}{remedy} [{self.code}]"


def sentence(text: str) -> str:
    """A text that another one may follow: it ends in a full stop, unless it ends in a mark or in a block of lines."""
    return text if not text or text[-1] in ".!?:" or "\n" in text else f"{text}."


class ConfigError(NarrowsError):
    """A configuration cannot be loaded. `problems` holds all of them, never only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PluginError(NarrowsError):
    """A plugin failed: it raised, or was late. Never shown to a caller beyond the plugin's name."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        self.plugin, self.hook, self.reason = plugin, hook, reason
        super().__init__(f"plugin {plugin!r} failed in hook {hook!r}: {reason}")


class ContractViolation(NarrowsError):
    """A plugin answered outside its contract: it widened, invented, or left out a reason. 500, zero upstream calls."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        self.plugin, self.hook, self.reason = plugin, hook, reason
        super().__init__(f"plugin {plugin!r} broke the contract of hook {hook!r}: {reason}")


class Passing(NarrowsError):
    """Not a plugin's failure: the hook loop lets it through as it is (an upstream that did not answer)."""


class RouteExhausted(NarrowsError):
    """No eligible target. Raised by `Decision.require()`; `code` is the stable code, `exclusions` who went and why."""

    def __init__(self, code: str, message: str, exclusions: Sequence[Excluded]) -> None:
        self.code = code
        self.exclusions: tuple[Excluded, ...] = tuple(exclusions)
        super().__init__(message)
