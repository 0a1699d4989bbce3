"""The frozen values that cross boundaries: what plugins read and what they answer.

Everything here is data. Tuples and frozen dataclasses only, so that no plugin can change what another one sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Maybe: TypeAlias = T | None | Awaitable[T | None]
"""What a hook may answer: a value, nothing, or an awaitable of either."""

Json: TypeAlias = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
LabelValue: TypeAlias = str | bool | int | float | tuple[str, ...]
EMPTY: Mapping[str, frozenset[str]] = MappingProxyType({})
ANONYMOUS = "anonymous"


# ---- failures (DESIGN section 6) ---------------------------------------------------------------------------------


class FailureClass(StrEnum):
    """The closed union of what can go wrong upstream. Three move the request on, four stop it (`failover.py`)."""

    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONTENT_POLICY = "content_policy"
    AUTHENTICATION = "authentication"
    CONTEXT_LENGTH = "context_length"
    INVALID_REQUEST = "invalid_request"


Phase: TypeAlias = Literal["response", "stream_event", "finish"]


@dataclass(frozen=True, slots=True)
class Failure:
    """One upstream answer that is, or may be, a failure. The input of `classify_error`.

    `kind`: the provider's kind. `phase`: an HTTP reply, an error event inside a 200 stream, or a finish. `headers`:
    lower-case names. `body`: at most 64 KiB, already cut. `transport`: connect_error, connect_timeout, read_timeout,
    protocol_error or stream_cut, where there was no (whole) HTTP answer.
    """

    kind: str
    phase: Phase = "response"
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # a plugin may log a failure: no vendor's text
    body: bytes = field(default=b"", repr=False)
    transport: str | None = None


@dataclass(frozen=True, slots=True)
class Classified:
    """What a failure is. `retry_after`: seconds. `evidence`: which kind of proof decided, one word of at most 32 of a-z,
    0-9 and _, never text of the body; anything else is recorded as "other"."""

    failure_class: FailureClass
    endpoint_dead: bool = False
    retry_after: float | None = None
    evidence: str = ""


# ---- targets -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Price:
    """Integer micro-USD per million tokens. None = not declared."""

    input: int | None = None
    output: int | None = None
    cached_input: int | None = None
    cache_write: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One thing a request can be sent to: provider + model + declared labels. Compared by identity.

    `labels` holds every declared label by its name in the file (region, jurisdiction, class, own ones). `capabilities`:
    undeclared means capable. `context_window`, `max_output_tokens`: tokens.
    """

    name: str
    provider: str
    kind: str
    model: str
    labels: Mapping[str, LabelValue] = field(default_factory=dict)
    capabilities: Mapping[str, bool] = field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None
    price: Price = Price()

    def label_set(self, name: str) -> frozenset[str] | None:
        """The label as a set of strings ("may be any of these"), or None where the target does not declare it."""
        value = self.labels.get(name)
        if value is None:
            return None
        if isinstance(value, tuple):
            return frozenset(value)
        if isinstance(value, bool):
            return frozenset({"true" if value else "false"})
        return frozenset({str(value)})

    def __repr__(self) -> str:
        return f"<Target {self.name}>"


# ---- callers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inbound:
    """What `authenticate` sees: headers alone, before the body is read. Lower-case header names, in order.

    `user` is the host's `scope["user"]`, where there is one. `client` is the peer's address. `query` is the URL's, as it
    was sent. Only this hook ever sees credentials.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    client: str | None = None
    user: object | None = None
    query: str = ""

    def header(self, name: str) -> str | None:
        """The header's values joined by a comma, as HTTP allows, or None."""
        found = [value for key, value in self.headers if key == name]
        return ", ".join(found) if found else None

    def __repr__(self) -> str:  # header values may be credentials, and a path any text of a caller's
        return f"<Inbound of {len(self.headers)} headers>"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the caller is: the name of a `[keys.NAME]` block (or the host's user). It carries no grants: those are
    configuration, and the core alone builds the `Principal` from it."""

    name: str
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller, built by the core from configuration. Never the key or its hash.

    `routes`, `targets`, `providers`: None = all. `attributes`: values bound to the key or its tenant, with their source.
    `may_say`: values this caller may claim although they could leave more than silence does.
    """

    name: str
    tenant: str | None = None
    tags: frozenset[str] = frozenset()
    routes: frozenset[str] | None = None
    targets: frozenset[str] | None = None
    providers: frozenset[str] | None = None
    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    may_say: Mapping[str, frozenset[str]] = field(default_factory=dict)


# ---- answers of hooks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a target cannot meet a demand. `code` is stable, `why` says it from the user's side ("region is not eu")."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal as data. `code` is a stable code (`errors.STATUS`); each hook may use only its own.

    `param`: the field or header at fault. `retry_after`: seconds, for temporary codes. `remedy`: what to do instead.
    """

    code: str
    why: str
    param: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of an attempt, or of a request's attempts together. `reported`: by the provider; False means our
    estimate."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reported: bool = False
    cost_micro_usd: int = 0


class Allowance(Protocol):
    """Held money of one budget plugin, in micro-USD. `settle` and `release` are idempotent."""

    def room(self) -> int:
        """What `hold` would grant now. Changes nothing (explain calls it)."""

    def hold(self, amount: int) -> int:
        """Set the hold to `amount`, never wait, return what is granted. Less than before always succeeds."""

    def settle(self, usage: Usage) -> None:
        """Charge what was really used (`usage.cost_micro_usd`)."""

    def release(self) -> None:
        """Give back what is still held."""


# ---- replies -----------------------------------------------------------------------------------------------------


class Chunks(Protocol):
    """A body as it arrives. `aclose` may be called from any task and closes the upstream."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class Body:
    """`Chunks` over any async iterator (or none): the form replies of providers and the core share."""

    __slots__ = ("_close", "_source")

    def __init__(self, source: AsyncIterator[bytes], close: Callable[[], Awaitable[None]] | None = None) -> None:
        self._source, self._close = source, close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._source

    async def aclose(self) -> None:
        close = self._close or getattr(self._source, "aclose", None)
        if close is not None:
            await close()


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer: status, headers (lower-case names, in order), and the body as it arrives."""

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: Chunks

    def header(self, name: str) -> str | None:
        """The first value of that header, or None."""
        return next((value for key, value in self.headers if key == name), None)

    @classmethod
    def whole(cls, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> Reply:
        """A reply whose body is already here."""
        return cls(status, (*headers, ("content-length", str(len(body)))), Body(_one(body)))


async def _one(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


class ClientGone(Exception):
    """The caller left while it was still sending its request."""
