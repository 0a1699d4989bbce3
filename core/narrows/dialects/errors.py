"""Our own errors in the caller's dialect. The stable code is at `error.code` in every one. Source: INTERFACES, HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from narrows.types import Json

_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
}


def error_type(status: int) -> str:
    """The word that official clients expect at `error.type` for that status."""
    return _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def error_document(
    code: str,
    message: str,
    status: int,
    *,
    param: str | None = None,
    decision: str | None = None,
    policy: str | None = None,
    exclusions: Sequence[Json] = (),
) -> dict[str, Json]:
    """The error object of the chat dialect."""
    return {
        "error": {
            "message": message,
            "type": error_type(status),
            "param": param,
            "code": code,
            "decision": decision,
            "policy": policy,
            "exclusions": list(exclusions),
        }
    }


def error_event(document: Mapping[str, Json]) -> bytes:
    """The error as the last event of a chat stream: no `[DONE]` follows it."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"
