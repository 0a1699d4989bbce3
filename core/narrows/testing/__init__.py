"""The kit for plugin authors: an upstream that records every call and misbehaves as it is told.

It runs on a real socket, so that what a test says of calls is said of a wire. It needs nothing but the standard library.
`check_constraint` joins it here when the contract checks for third-party constraints are built.
"""

from __future__ import annotations

from narrows.testing.answers import (
    Answer,
    Big,
    Hold,
    Raw,
    Redirect,
    Refuse,
    Script,
    Scripted,
    Stall,
    Stream,
)
from narrows.testing.call import Call, Sent
from narrows.testing.openai_shapes import completion, error_event, event, failure_answer, stream_events
from narrows.testing.recording import RecordingProvider

__all__ = [
    "Answer",
    "Big",
    "Call",
    "Hold",
    "Raw",
    "RecordingProvider",
    "Redirect",
    "Refuse",
    "Script",
    "Scripted",
    "Sent",
    "Stall",
    "Stream",
    "completion",
    "error_event",
    "event",
    "failure_answer",
    "stream_events",
]
