"""Header fields on their way out and back in: what is the seam's own, what ends at each hop, and no injected lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, 7.6.1: they mean this connection alone."""

OURS = HOP_BY_HOP | {"accept-encoding", "content-length", "expect", "host"}
"""What a caller of the seam may not set: they decide where a call goes and where it ends."""

NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
FORBIDDEN = re.compile(r"[\r\n\x00]")


def outgoing(headers: Mapping[str, str]) -> RawHeaders:
    """The fields as bytes. Raises ValueError that names the field and never its value (it may be a key)."""
    fields: RawHeaders = []
    for name, value in headers.items():
        lower = name.lower()
        if not NAME.fullmatch(name):
            raise ValueError("a header's name holds characters that no name may hold")
        if lower in OURS:
            raise ValueError(f"header {lower!r} is set by the gateway itself; leave it out")
        if FORBIDDEN.search(value):
            raise ValueError(f"header {lower!r} holds a line break; a key read from a file often ends in one")
        try:
            fields.append((lower.encode("ascii"), value.strip(" \t").encode("latin-1")))
        except UnicodeEncodeError:
            raise ValueError(f"header {lower!r} holds text that HTTP cannot carry") from None
    return fields


def incoming(raw: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The fields of an answer: lower-case names, in order, repeats kept, without what ends at this hop."""
    fields = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    dropped = HOP_BY_HOP
    for name, value in fields:
        if name == "connection":
            dropped = dropped | {part.strip().lower() for part in value.split(",")}
    return tuple(field for field in fields if field[0] not in dropped)


def without(headers: tuple[tuple[str, str], ...], *names: str) -> tuple[tuple[str, str], ...]:
    """The fields but for these names."""
    return tuple(field for field in headers if field[0] not in names)
