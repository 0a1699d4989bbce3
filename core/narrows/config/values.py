"""The values of the file as pydantic types: names, lists that may be one text, labels, prices, bounds.

The texts of the ValueErrors below are shown to people, so none repeats a value.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from narrows.money import micro_usd

RESERVED_HEADERS: Final = frozenset(
    [
        "authorization",
        "x-api-key",
        "cookie",
        "host",
        "content-type",
        "content-length",
        "content-encoding",
        "traceparent",
        "tracestate",
        "baggage",
        "user-agent",
        "openai-beta",
        "x-stainless-retry-count",
        "x-request-id",
        "accept",
        "accept-encoding",
        "connection",
        "expect",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
RESERVED_PREFIX: Final = "x-narrows-"
CAPABILITIES: Final = (
    "audio",
    "files",
    "json_object",
    "json_schema",
    "parallel_tools",
    "reasoning",
    "streaming",
    "tools",
    "video",
    "vision",
)
SERVER_TOOL: Final = "server_tool."
"""What the capability of a server-side tool begins with; any name may follow."""
NEVER_FAILOVER: Final = ("content_policy", "authentication", "invalid_request")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NAME = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?")


def header_problem(name: str) -> str | None:
    """Why this cannot be the header of an attribute, or None."""
    folded = name.strip().casefold()
    if _TOKEN.fullmatch(folded) is None:
        return "is no name of an HTTP header; letters, digits and dashes make one"
    if folded in RESERVED_HEADERS or folded.startswith(RESERVED_PREFIX):
        return "is a header with a meaning of its own; an attribute needs another, like x-region"
    return None


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


def _texts(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise ValueError("is empty; write at least one value, or leave the key out")
    if not all(value.strip() for value in values):
        raise ValueError("holds an empty text; write a value, or leave it out")
    return values


def _tags(values: tuple[str, ...]) -> tuple[str, ...]:
    return _texts(values) if values else values


def _label(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty; write what is true of the target, or leave the key out")
    return value if isinstance(value, str) else _texts(value)


def _own_label(value: object) -> object:
    return _label(value) if isinstance(value, str | tuple) else value


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError("is no name; one has 1 to 128 letters, digits and signs of ASCII, no space at its ends")
    return name


def _folded(values: tuple[str, ...]) -> tuple[str, ...]:
    if any("," in value for value in values):
        raise ValueError("holds a comma, which separates the values of a header; use another sign")
    return tuple(value.strip().casefold() for value in _texts(values))


def _header(name: str) -> str:
    reason = header_problem(name)
    if reason is not None:
        raise ValueError(reason)
    return name.strip().casefold()


def _price(usd: float) -> float:
    if usd and not micro_usd(usd):
        raise ValueError("is less than a millionth of a USD per million tokens; 0 would say that the target is free")
    return usd


def _capability(name: str) -> str:
    if name not in CAPABILITIES and not name.startswith(SERVER_TOOL):
        # A misspelt one would silently never exclude: it is an unknown key like any other (`problems` reads `known`).
        raise PydanticCustomError("unknown_key", "is no capability", {"known": CAPABILITIES})
    return name


def _failover(name: object) -> object:
    if name in NEVER_FAILOVER:
        raise ValueError(f"holds {name!r}, which always stops: no other target may answer what one has refused")
    return name


Name: TypeAlias = Annotated[str, AfterValidator(_name)]
_SEVERAL = BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...])
Texts: TypeAlias = Annotated[tuple[str, ...], _SEVERAL, AfterValidator(_texts)]
Names: TypeAlias = tuple[str, ...]
Values: TypeAlias = Annotated[tuple[str, ...], _SEVERAL, AfterValidator(_folded)]
Header: TypeAlias = Annotated[str, AfterValidator(_header)]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
Tags: TypeAlias = Annotated[Names, AfterValidator(_tags)]
Said: TypeAlias = dict[str, Values]
Label: TypeAlias = Annotated[str | tuple[str, ...], AfterValidator(_label)]
OwnLabel: TypeAlias = Annotated[str | bool | int | float | tuple[str, ...], AfterValidator(_own_label)]
Usd: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), AfterValidator(_price)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=2**53)]
Secs: TypeAlias = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Failover: TypeAlias = Annotated[
    Literal["timeout", "rate_limited", "server_error", "endpoint_dead", "context_length"], BeforeValidator(_failover)
]
Source: TypeAlias = Literal["header", "metadata", "key", "tenant"]
BlockTable: TypeAlias = dict[str, Any]
Capabilities: TypeAlias = Annotated[
    dict[Annotated[str, AfterValidator(_capability)], bool],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in CAPABILITIES},
            "patternProperties": {f"^{re.escape(SERVER_TOOL)}": {"type": "boolean"}},
            "additionalProperties": False,
        }
    ),
]
