"""The stable codes, from the table that the HTTP surface reads them from."""

from __future__ import annotations

from narrows.errors import STATUS, TEMPORARY
from tools.reference.text import table


def codes() -> str:
    """Every stable code with its status, and what an official client does with it."""
    rows = [
        (f"`{code}`", str(status), "`Retry-After`" if code in TEMPORARY else "`x-should-retry: false`")
        for code, status in sorted(STATUS.items(), key=lambda item: (item[1], item[0]))
    ]
    return table(("code", "status", "the answer carries"), rows)
