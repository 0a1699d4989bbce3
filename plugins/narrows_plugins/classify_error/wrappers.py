"""What gateways and SDKs put in front of a provider's message: exception names, "Error code: 400 - ", a repr.

Only a known wrapper at the very start is taken off, so that what is left still begins with the provider's own words.
"""

from __future__ import annotations

import re

_WRAPPER = re.compile(
    r"(?:(?:[a-z_]{1,40}\.){0,4}[a-z_]{0,40}(?:error|exception)(?: -|:) ?"
    r"|litellm\.[a-z]+: ?"
    r"|error code: (?P<status>[45]\d\d) - (?:b?['\"]?\{'error': )?(?:\{'(?:message|msg|detail)': ['\"])?"
    r"|an error occurred \([a-z]+\) when calling the \w+ operation(?: \(reached max retries: \d+\))?: "
    r"|upstream error from \S+: "
    r"|(?:input validation error|bad request|error|api error|upstream error|provider error|request failed|failed|http \d{3}"
    r"|\d{3}|invalid params|invalid request|request validation error|the model returned the following errors"
    r"|received model error|authentication error)(?::|, | - ) ?)",
    re.IGNORECASE,
)
_MOST = 6


def unwrapped(message: str) -> tuple[str, int | None]:
    """The message without its wrappers, and the HTTP status that the innermost of them told, or None."""
    status = None
    for _ in range(_MOST):
        wrapper = _WRAPPER.match(message)
        if wrapper is None:
            break
        if wrapper["status"] is not None:
            status = int(wrapper["status"])
        message = message[wrapper.end() :]
    return message, status
