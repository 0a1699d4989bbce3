"""`narrows classify`: what the gateway would make of an upstream's failure. JSON lines in, JSON lines out.

    in   {id?, kind, phase: "response" | "stream_event" | "finish", status, headers, body, transport}
    out  {id, class, moves, endpoint_dead, retry_after, evidence}, or {id, error} where a line cannot be read

Each line is answered before the next is read. `body`: a string is taken as it is, null is empty, anything else is the
JSON that it is. A kind that nobody knows is read as `openai_compatible`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
import typer

from narrows.cli.output import FINDING, problems_of, refuse
from narrows.errors import ConfigError
from narrows.types import Classified, Failure, Json

MOST_BODY_BYTES: Final = 65_536
"""What `classify_error` is given of a body (`narrows.types.Failure`)."""

_NOTHING: Final = msgspec.Raw(b"null")


class Line(msgspec.Struct):
    """One line of the input."""

    id: Any = None
    kind: str = "openai_compatible"
    phase: Literal["response", "stream_event", "finish"] = "response"
    status: int | None = None
    headers: dict[str, str | int | float] | None = None
    body: msgspec.Raw = _NOTHING
    transport: str | None = None

    def failure(self) -> Failure:
        """What the hook is given. Raises ValueError for a body that is no text."""
        headers = {name.lower(): str(value) for name, value in (self.headers or {}).items()}
        return Failure(self.kind, self.phase, self.status, headers, self._body()[:MOST_BODY_BYTES], self.transport)

    def _body(self) -> bytes:
        raw = bytes(self.body)
        if raw == b"null":
            return b""
        return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw


def classify(
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, which is what it prints anyway.")] = False,
) -> None:
    """Say what upstream failures are.

    JSON lines on stdin, JSON lines on stdout. A line that cannot be read is answered with an error, and the exit code
    is 1.
    """
    from narrows.classifying import Classifier

    try:
        classifier = Classifier()
    except ConfigError as error:
        refuse(problems_of(error), as_json=as_json)
    unread = False
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        answer = answered(line, classifier)
        unread = unread or "error" in answer
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    if unread:
        raise typer.Exit(FINDING)


def answered(line: bytes, classifier: Callable[[str, Failure], Classified]) -> dict[str, Json]:
    """The answer to one line."""
    from narrows.failover import Disposition, disposition

    try:
        asked = msgspec.json.decode(line, type=Line)
        failure = asked.failure()
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return {"id": _id(line), "error": f"this line cannot be read: {_reason(error)}"}
    found = classifier(asked.kind, failure)
    return {
        "id": asked.id,
        "class": str(found.failure_class),
        "moves": disposition(found.failure_class) is Disposition.MOVE,
        "endpoint_dead": found.endpoint_dead,
        "retry_after": found.retry_after,
        "evidence": found.evidence,
    }


def _id(line: bytes) -> Json:
    """The id of a line that is wrong elsewhere, so that its sender can find it."""
    try:
        decoded = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    found: Json = decoded.get("id") if isinstance(decoded, dict) else None
    return found


def _reason(error: Exception) -> str:
    """msgspec names types and places, never the content; any other error is named alone."""
    return str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
