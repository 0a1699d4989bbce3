"""The log of a running server: one line an event, on stderr, without content."""

from __future__ import annotations

import logging
import sys
import time
from typing import Final

from narrows.server.faults import fault

FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


class OneLine(logging.Formatter):
    """Of an exception only its type and place: its text may hold a prompt or a key. So may what follows a first line."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line."""
        error = record.exc_info[1] if record.exc_info else None
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None, "stack_info": None})
        line, _, _ = super().format(plain).partition("\n")
        return line if error is None else f"{line.rstrip(': ')}: {fault(error)}"


def to_stderr(requests: int = logging.INFO) -> None:
    """Send every logger there: ours from INFO on, those of libraries from WARNING on. `requests`: from which level on
    the line of each request is wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("narrows").setLevel(logging.INFO)
    logging.getLogger("narrows.requests").setLevel(requests)
