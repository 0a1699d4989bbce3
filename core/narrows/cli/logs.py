"""The log of a running server: one line an event, on stderr, without content. For people, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, Literal, TypeAlias

from narrows.request_log import FIELDS
from narrows.server.faults import fault
from narrows.types import Json

TIME: Final = "%Y-%m-%dT%H:%M:%S"
REQUEST: Final = "request"
"""The message of a request's line, whose fields say the rest."""

log = logging.getLogger("narrows.serve")


Form: TypeAlias = Literal["human", "json"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]


def message(record: logging.LogRecord) -> str:
    """Its first line: what follows may be an exception's text. What a terminal would obey is escaped."""
    line, *_ = record.getMessage().splitlines() or [""]
    return line if line.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def error(record: logging.LogRecord) -> str | None:
    """Of its exception the type and the place: the text may hold a prompt or a key."""
    raised = record.exc_info[1] if record.exc_info else None
    return None if raised is None else fault(raised)


def timestamp(record: logging.LogRecord) -> str:
    """When it was made, in UTC, to the millisecond."""
    return f"{time.strftime(TIME, time.gmtime(record.created))}.{int(record.msecs):03d}Z"


class Human(logging.Formatter):
    """`2026-11-30T10:42:04.929Z INFO decision=… route=…`"""

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line."""
        line, raised = message(record), error(record)
        line = line if raised is None else f"{line.rstrip(': ')}: {raised}"
        return f"{timestamp(record)} {record.levelname} {line}"


class Structured(logging.Formatter):
    """`{"ts": …, "level": "info", "logger": "narrows.requests", "message": "request", "decision": …}`"""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one JSON object. ASCII only: nothing in it can end a line."""
        fields: dict[str, Json] | None = getattr(record, FIELDS, None)
        said: dict[str, Json] = {
            "ts": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message(record) if fields is None else REQUEST,
        }
        raised = error(record)
        if raised is not None:
            said["error"] = raised
        return json.dumps({**said, **(fields or {})})


def to_stderr(form: Form = "human", level: Level = "info", requests: int | None = None) -> None:
    """Send every logger there: ours from `level` on, those of libraries from WARNING on at the most talkative, because
    what they say below that may hold headers and bodies. `requests`: another level for the line of each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Human() if form == "human" else Structured())
    ours: int = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(ours, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("narrows").setLevel(ours)
    logging.getLogger("narrows.requests").setLevel(ours if requests is None else requests)


def say(line: str) -> None:
    """A line that people would read without a time."""
    log.info("%s", line)
