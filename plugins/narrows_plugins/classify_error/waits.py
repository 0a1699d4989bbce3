"""How long the provider asks to wait, in seconds, from headers and typed members of the body; never from a sentence.

Three notations of a wait are in use: seconds ("20", "3.89s", "1m30s", "174ms"), an HTTP date, and a moment (RFC 3339, or
an epoch in seconds or milliseconds). A moment is read against the reply's own `date` header, else against `now` where the
caller gives one, else not at all: a classifier has no clock, and the provider's own is the right one. Sources: RFC 9110
section 10.2.3; the rate-limit headers of OpenAI, Groq, Anthropic, OpenRouter; google.rpc.RetryInfo.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from narrows_plugins.classify_error.envelope import Layer

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = 1e9, 1e12


def stated_wait(headers: Mapping[str, str], layers: Iterable[Layer], now: float | None = None) -> float | None:
    """What the provider says outright: `retry-after-ms`, `retry-after`, else a typed member of the body."""
    found = _retry_after(headers, now)
    if found is not None:
        return found
    for layer in layers:
        for key, value in layer.waits.items():
            if key == "headers":
                found = _retry_after(value, now)
            else:
                found = _seconds(value, headers, now)
            if found is not None:
                return found
    return None


def reset_wait(headers: Mapping[str, str], layers: Iterable[Layer], now: float | None = None) -> float | None:
    """When a limit that is used up reopens by its `x-ratelimit-reset*` header: the latest of them."""
    found: list[float] = []
    for source in (headers, *(layer.waits["headers"] for layer in layers if "headers" in layer.waits)):
        for name, value in source.items():
            if "ratelimit" in name and "reset" in name and source.get(name.replace("reset", "remaining"), "0") == "0":
                wait = _seconds(value, headers, now)
                if wait is not None:
                    found.append(wait)
    return max(found, default=None)


def _retry_after(headers: Mapping[str, str], now: float | None) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    return None if value is None else _seconds(value, headers, now)


def _seconds(value: object, headers: Mapping[str, str], now: float | None) -> float | None:
    number = _number(value)
    if number is not None and number >= _EPOCH_SECONDS:
        return _until(number / 1000 if number >= _EPOCH_MILLISECONDS else number, headers, now)
    if number is not None:
        return number
    if not isinstance(value, str) or len(value) > 64:
        return None
    duration = _DURATION.fullmatch(value.strip())
    if duration is not None and duration.group(0):
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in duration.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
    moment = _moment(value)
    return None if moment is None else _until(moment, headers, now)


def _until(moment: float, headers: Mapping[str, str], now: float | None) -> float | None:
    told = _moment(headers.get("date", ""))
    since = now if told is None else told
    return None if since is None else max(0.0, moment - since)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _moment(value: str) -> float | None:
    try:
        moment = datetime.fromisoformat(value) if value[4:5] == "-" else parsedate_to_datetime(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError, OSError):  # the standard parser lets all of these out
        return None
