"""What a recording provider writes down: calls as they came in, and what it sent when."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from narrows.types import Json


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request that reached the provider.

    `number`: counts from 1, never reused. `path`: the request target as sent, query included. `headers`: lower-case
    names, in order, repeats kept. `body`: after removal of transfer-encoding. `at`: `time.monotonic()` seconds when it
    was there. `complete`: False where the peer left in the middle of it; such a call counts too, because bytes of it
    left the caller. `model`: the body's `model`, or None where the body is no JSON object with one.
    """

    number: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    at: float
    complete: bool = True
    model: str | None = None

    @property
    def json(self) -> Json:
        """The decoded body. Raises ValueError where the body is not JSON."""
        decoded: Json = json.loads(self.body)
        return decoded

    @property
    def fields(self) -> dict[str, Json]:
        """The decoded body where it is a JSON object, else an empty dict. Never raises."""
        return json_object(self.body)

    @property
    def wants_stream(self) -> bool:
        """Whether the body says `"stream": true`."""
        return self.fields.get("stream") is True

    def header(self, name: str) -> str | None:
        """The header's values joined by a comma, or None. `name` in lower case."""
        found = [value for key, value in self.headers if key == name]
        return ", ".join(found) if found else None


@dataclass(frozen=True, slots=True)
class Sent:
    """One write of an answer's body: how many bytes, and at which `time.monotonic()` second."""

    size: int
    at: float


def json_object(body: bytes) -> dict[str, Json]:
    """The body as a JSON object, or an empty dict where it is anything else."""
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
