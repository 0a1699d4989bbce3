"""A fault of ours, told without its text: an exception's message may hold a prompt or a key."""

from __future__ import annotations

import json
import logging
from pathlib import PurePath

from narrows.errors import NarrowsError
from narrows.types import Reply

log = logging.getLogger("narrows.server")
CODE = "internal_error"

_SAID = {
    "error": {
        "message": "The gateway failed to answer. Its log names the kind of the fault and its place.",
        "type": "server_error",
        "param": None,
        "code": CODE,
    }
}


def fault(error: BaseException) -> str:
    """The exception's type and place, never its text: `KeyError at order.py:33`."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{place}"


def told(error: BaseException) -> str:
    """Our own errors in their own words, any other by type and place."""
    return str(error) if isinstance(error, NarrowsError) else fault(error)


def failed_reply() -> Reply:
    """What a caller gets where the gateway itself failed before its answer began. No details; no retry, because an
    upstream may have been asked (and paid) already."""
    headers = (("content-type", "application/json"), ("x-narrows-code", CODE), ("x-should-retry", "false"))
    return Reply.whole(500, json.dumps(_SAID).encode(), headers)
