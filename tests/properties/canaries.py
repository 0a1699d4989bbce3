"""What is planted: a canary of its own in every place of a request, of an answer and of the environment.

Each is a word that survives JSON, URLs and case folding, so it is found in whatever form it gets somewhere. Its name says
where it came from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from narrows.testing import (
    Answer,
    Big,
    Raw,
    Redirect,
    Refuse,
    Script,
    Stall,
    Stream,
    completion,
    error_event,
    failure_answer,
    stream_events,
)
from narrows.testing.openai_shapes import DONE, event
from narrows.types import FailureClass

MARK: Final = re.compile(r"canary-([a-z0-9-]+?)-9f3c")


def canary(place: str) -> str:
    """The canary of that place."""
    return f"CANARY-{place}-9f3c"


def found(text: str | bytes) -> set[str]:
    """The places whose canaries stand in it."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    return {*MARK.findall(shown.casefold()), *MARK.findall(unquote(shown).casefold())}


# ---- what stands in the environment, and never in a file ----------------------------------------------------------

ENVIRONMENT: Final = {"CANARY_KEY": f"sk-{canary('env-key')}", "CANARY_QUERY_KEY": f"AIza{canary('env-query-key')}=+7f"}

KEYS: Final = {who: f"nrw_{canary(f'key-of-{who}')}" for who in ("mine", "other")}
HASHES: Final = {who: hashlib.sha256(key.encode()).hexdigest() for who, key in KEYS.items()}
FOREIGN: Final = f"nrw_{canary('unknown-key')}"

# ---- what a caller sends ------------------------------------------------------------------------------------------

HEADERS: Final = (
    ("x-odd", canary("header")),
    (f"x-{canary('header-name').lower()}", canary("header-of-that-name")),
    *((name, canary(name)) for name in (
        "cookie", "referer", "user-agent", "baggage", "traceparent", "tracestate", "openai-beta", "accept", "origin",
        "x-stainless-retry-count", "x-narrows-session", "x-narrows-target", "forwarded", "x-forwarded-for", "user",
        "x-forwarded-user", "proxy-authorization", "openai-organization", "idempotency-key", "accept-language",
    )),
)  # fmt: skip
"""On every request. `x-request-id` alone is kept: it is what a caller may have found again."""

ATTRIBUTE: Final = ("x-team", canary("attribute"))
"""A value that a rule compares and nobody declared. The record keeps it as a demand, and nothing else may."""


def filled() -> dict[str, Any]:
    """The members of a body, a canary in each place where a text may stand."""
    return {
        "messages": [
            {"role": "system", "content": canary("system"), canary("message-key"): canary("message-value")},
            {"role": "user", "content": [{"type": "text", "text": canary("part")}], "name": canary("name")},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": canary("call-id"), "type": "function",
                 "function": {"name": canary("call-name"), "arguments": json.dumps({"a": canary("arguments")})}}
            ]},
            {"role": "tool", "tool_call_id": canary("call-id"), "content": canary("tool-result")},
            {"role": "user", "content": canary("prompt")},
        ],
        "tools": [{"type": "function", "function": {
            "name": canary("tool"), "description": canary("tool-description"),
            "parameters": {"type": "object", "properties": {canary("parameter"): {"type": "string"}}}}}],
        "metadata": {canary("metadata-key"): canary("metadata")},
        "user": canary("body-user"),
        "stop": [canary("stop")],
        "logit_bias": {canary("bias"): 1},
        "response_format": {"type": "json_schema", "json_schema": {"name": canary("schema"), "schema": {}}},
        canary("member"): canary("member-value"),
    }  # fmt: skip


# ---- what an upstream answers -------------------------------------------------------------------------------------


def theirs(place: str) -> dict[str, object]:
    """An error object with something of the vendor's in each member."""
    return {"message": canary(f"{place}-message"), "type": canary(f"{place}-type"), "param": canary(f"{place}-param"),
            "code": canary(f"{place}-code"), canary(f"{place}-member"): canary(f"{place}-value")}  # fmt: skip


VENDORS_HEADERS: Final = [
    ("x-vendor", canary("vendor-header")),
    (canary("vendor-header-name").lower(), "1"),
    ("server", canary("vendor-server")),
    ("x-request-id", canary("vendor-request-id")),
    ("set-cookie", canary("vendor-cookie")),
]
ANSWERED: Final = completion("eu-1", canary("answer"), finish=canary("finish")) | {
    "id": canary("answer-id"),
    "model": f"a model {canary('answer-model')}",
    "system_fingerprint": canary("fingerprint"),
    canary("answer-member"): canary("answer-value"),
}
EVENTS: Final = (
    f": {canary('comment')}\n\nevent: {canary('event')}\n".encode(),
    *stream_events("eu-1", f"{canary('delta')} {canary('second-delta')}", finish=canary("stream-finish")),
)
REFUSAL: Final = {**ANSWERED, "choices": [{"index": 0, "finish_reason": "content_filter",
                                           "message": {"role": "assistant", "refusal": canary("refusal")}}]}  # fmt: skip

UPSTREAM: Final[Mapping[str, Script]] = {
    "answered": Answer(200, ANSWERED, VENDORS_HEADERS),
    "streamed": Stream(EVENTS, headers=VENDORS_HEADERS),
    "declined": Answer(200, REFUSAL),
    "declined in a stream": Stream((*stream_events("eu-1", canary("delta"), finish="content_filter"),)),
    **{f"class {kind}": failure_answer(kind, message=canary("class-message")) for kind in FailureClass},
    **{f"status {status}": Answer(status, {"error": theirs(f"status-{status}")}, VENDORS_HEADERS)
       for status in (400, 401, 403, 404, 408, 413, 422, 429, 500, 503, 529)},
    **{f"event {kind}": Stream((EVENTS[0] + EVENTS[1], error_event(kind, message=canary("event-message"))))
       for kind in FailureClass},
    "an error first": Stream((event({"error": theirs("first")}),)),
    "an error in the middle": Stream((*EVENTS[:3], event({"error": theirs("middle")}), DONE)),
    "broken off": Stream((*EVENTS[:3], b'data: {"error": {"message": "' + canary("half").encode()), cut_at=400),
    "stalled in a stream": Stream(EVENTS[:3], end=False),
    "silent": Stall(),
    "closed": Refuse(),
    "reset": Refuse(reset=True),
    "elsewhere": Redirect(302, f"http://127.0.0.1:9/{canary('location')}?key={canary('location-key')}"),
    "html": Answer(200, f"<html>{canary('html')}".encode()),
    "json of another shape": Answer(200, {canary("shape"): canary("shape-value")}),
    "large": Big(100_000),
    "no http": Raw(f"{canary('raw')}\r\n\r\n".encode()),
    "a reason": Raw(f"HTTP/1.1 500 {canary('reason')}\r\n{canary('raw-header')}: 1\r\ncontent-length: 0\r\n\r\n".encode()),
    "a broken header": Raw(f"HTTP/1.1 200 OK\r\n{canary('bad header')}\r\ncontent-length: x{canary('length')}\r\n\r\n".encode()),
    "a broken encoding": Answer(200, canary("gzip").encode(), [("content-encoding", "gzip")]),
    "an encoding": Answer(200, b"{}", [("content-encoding", canary("encoding"))]),
    "a length": Answer(200, ANSWERED, [("content-length", "9")]),
    "a media type": Answer(200, ANSWERED, [("content-type", f"text/{canary('media-type')}")]),
    "a wait": Answer(429, {"error": theirs("wait")}, [("retry-after", canary("retry-after"))]),
}  # fmt: skip
