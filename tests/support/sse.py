"""Reads server-sent events out of bytes, as a client would."""

from __future__ import annotations

import json
from dataclasses import dataclass

from narrows.types import Json


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name`: its `event:` field, "message" where it has none. `data`: the data lines, joined."""

    data: str
    name: str = "message"

    @property
    def json(self) -> Json:
        """The data decoded. Raises ValueError for what is not JSON, `[DONE]` included."""
        decoded: Json = json.loads(self.data)
        return decoded


def sse_events(body: bytes) -> list[Event]:
    """The complete events of a stream, in order. An event that no blank line ends is not one; comments are dropped.

    Source: WHATWG HTML, 9.2.6 (interpreting an event stream).
    """
    events: list[Event] = []
    data: list[str] = []
    name = ""
    for line in body.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        if not line:
            if data:
                events.append(Event("\n".join(data), name or "message"))
            data, name = [], ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events
