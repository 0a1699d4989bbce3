"""The bases that plugins are written on: `Block` and its typed kinds.

A configured block *is* the plugin: a frozen pydantic class whose fields are the options, whose docstring is the help and
whose methods are the behaviour. Each typed base carries one hook, because a type checker never sees pluggy's
specifications. Source: DESIGN sections 3 and 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, final

from pydantic import BaseModel, ConfigDict, Field

from narrows.candidates import Candidates
from narrows.decision import Decision
from narrows.hookspecs import hookimpl
from narrows.ledger import Gap, Reader
from narrows.ranking import Ranked
from narrows.request import Reads, Request
from narrows.types import Denial, Exclusion, Identity, Inbound, Json, Maybe, Reply, Target

D = TypeVar("D", bound=Hashable)
API = 1
"""The newest plugin interface this version speaks. A class that states a newer `api` is refused by name."""


class Block(BaseModel):
    """A configured block. Subclass it for a free plugin (`plugins.NAME`) and mark its hooks with `@hookimpl`.

    Two blocks are never equal, whatever their options: each is one instance in one place of the configuration.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
    api: ClassVar[int] = API

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        # pydantic gives each frozen subclass an __eq__ and __hash__ over its fields, and pluggy refuses equal plugins.
        type.__setattr__(cls, "__eq__", object.__eq__)
        type.__setattr__(cls, "__hash__", object.__hash__)
        super().__pydantic_init_subclass__(**options)


class Constraint(Block, ABC, Generic[D]):
    """A hard rule: `demands` says what a request obliges, `excludes` why one target cannot meet it.

    Both are pure. `excludes` judges one target alone, so its answer is remembered per demand. A demand is hashable and
    becomes JSON of at most 1 KB. Only what `reads` names is readable in `demands`.
    """

    reads: ClassVar[frozenset[Reads]] = frozenset({"attributes"})

    scope: Literal["turn", "session", "content"] = "turn"
    """What a demand sticks to: this request (`turn`), the session, or the content that caused it."""
    sticks: tuple[str, ...] = ()
    """Which values stick, where `scope` is not `turn`."""
    always: bool = False
    """On every route, also on those that somebody adds tomorrow."""
    enforce: bool = True
    """`false` records what the rule would have removed, and removes nothing."""
    waivable: bool = False
    """An operator may lift the rule for some minutes."""

    @abstractmethod
    def demands(self, request: Request) -> Iterable[D]:
        """What this request obliges, as plain data."""

    @abstractmethod
    def excludes(self, demand: D, target: Target) -> Exclusion | None:
        """Why this target cannot meet that demand, or None."""

    def problems(self, targets: Sequence[Target]) -> Iterable[str]:
        """At load: what is wrong with these targets of a route that this rule stands on (a label it needs)."""
        return ()

    def attributes_read(self) -> frozenset[str] | None:
        """At load: the names of the request attributes that `demands` reads; None: any may be. A field named
        `request_attribute` is known without being told."""
        name = getattr(self, "request_attribute", None)
        return frozenset({name}) if isinstance(name, str) else None

    @final
    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Candidates | None:
        """The core's own: the registry calls `judging` in its place, which knows the block's name."""
        raise NotImplementedError


def judging(name: str, prefix: str, rule: Constraint[Any]) -> Callable[[Request, Candidates], Candidates]:
    """The `narrow` of a constraint in its place: removes what the request's demands under that name exclude. `prefix` is
    what a third party's codes begin with."""

    def narrow(request: Request, candidates: Candidates) -> Candidates:
        pool = candidates._pool
        for obliged in request.demands_of(name):
            candidates = candidates._cut(pool.verdict(name, rule, obliged.demand, prefix))
        return candidates

    return narrow


class Ranker(Block, ABC):
    """Preference: orders what is left. It can neither add nor remove."""

    def judges(self) -> Sequence[str]:
        """At load: the targets that `consult` may ask. It reaches no other."""
        return ()

    @abstractmethod
    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Maybe[Sequence[Target] | Ranked]:
        """A prefix of the candidates, best first; the rest follow in their order. `Ranked` says why, too."""


class Provider(Block, ABC):
    """How to reach one vendor account.

    `base_url` is the only origin its attempts can reach; without one the provider answers in this process (`answer`).
    `timeout_secs` bounds the wait for headers and between bytes. `max_retries` are repeats on the same target.
    """

    base_url: str | None = None
    """Origin and path prefix, the only place that its attempts can reach. Without one it answers in this process."""
    timeout_secs: float = Field(default=120.0, gt=0, le=86_400, allow_inf_nan=False)
    """The wait for headers, and between bytes."""
    max_retries: int = Field(default=1, ge=0, le=10)
    """Repeats on the same target: for time-outs and server errors, and for a rate limit at the last candidate."""
    max_connections: int = Field(default=1000, ge=1)
    """Open connections to this account at most."""
    proxy: str | None = Field(default=None, repr=False)
    """The URL of an HTTP proxy. Proxy variables of the environment are ignored."""

    @abstractmethod
    @hookimpl
    def dispatch(self, attempt: Attempt) -> Awaitable[Reply]:
        """Send the attempt with `attempt.send(path, headers, body)` and answer with its reply."""

    def credential(self) -> str | None:
        """The name of the environment variable that holds this account's key: two providers that name the same one
        share a credential."""
        return None

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply of a provider without `base_url`. Called by `attempt.send` in place of the network."""
        raise NotImplementedError("a provider without base_url answers itself; write `answer`, or give it a base_url")


class Authenticator(Block, ABC):
    """Recognises callers by their headers."""

    @abstractmethod
    @hookimpl
    def authenticate(self, inbound: Inbound) -> Maybe[Identity | Denial]:
        """The identity, a `Denial` for a bad credential, or None: not mine."""


class Sink(Block, ABC):
    """Keeps decisions. Its methods run in a thread of its own, one at a time, never on the request path.

    So they may block. Asynchronous ones run in that thread too, on the gateway's kind of event loop, each under the
    deadline of `[hooks]`. One that raises is called again, with a back-off of at most a second, and the queue fills
    meanwhile; a decision that alone fails three times is given up. `record` is the only one that has to be written.
    """

    queue: int = Field(default=10_000, ge=1, le=1_000_000)
    """How many decisions may wait to be written. More are dropped and counted, and leave a gap record."""

    @abstractmethod
    @hookimpl
    def record(self, decision: Decision) -> Maybe[None]:
        """Keep it, at the latest at the next `flush`. Not called again for a decision that it took."""

    def open(self) -> Maybe[None]:
        """Before anything else, also after a stop. An exception refuses the start; LedgerUnavailable does not: it is
        called again while the gateway serves."""

    def policy(self, digest: str, text: str) -> Maybe[None]:
        """The canonical text of a policy, once, before the first decision that names its digest."""

    def gap(self, gap: Gap) -> Maybe[None]:
        """A stretch of time of which decisions are missing, because the queue was full for one."""

    def flush(self) -> Maybe[None]:
        """At the end of a batch: what was taken must be kept now. Called again after it has raised; more may have been
        recorded in between, as many as the queue holds."""

    def close(self) -> Maybe[None]:
        """At the stop. Nothing is called after it but `open`."""

    def reader(self) -> Reader | None:
        """Where decisions are read again, if this sink can say; called before `open`, and outside of the thread."""
        return None


class Attempt(Protocol):
    """One upstream call for the answer, as its provider sees it.

    `body` is what the caller sent, re-encoded with the target's model and the operator's `extra_body`. `headers` are the
    caller's that may travel, with the trace's. `number` counts from 1.
    """

    target: Target
    number: int
    stream: bool
    headers: Mapping[str, str]
    body: bytes

    async def send(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Call the provider's origin. It follows no redirect, ignores proxy variables, and may be called once.

        Raises ContractViolation on a second call, after `dispatch` has answered, and where the gate has closed meanwhile.
        """


class Consult(Protocol):
    """A ranker's way to ask a judge model. Judges are egress: their pool is narrowed by every demand of the request."""

    @property
    def conversation(self) -> Sequence[Mapping[str, Json]]:
        """The messages, read-only."""

    async def __call__(self, judge: str, messages: Sequence[Mapping[str, Json]], schema: Mapping[str, Json]) -> Json:
        """The judge's answer as JSON of that schema, or None where it may not or did not answer."""


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """What `check` is given: the compiled targets, the targets of each route by name, and the values of each declared
    attribute. No secret. `route`: for a ranker, whose it is. A problem's `path` is taken from the plugin's own block on
    ("accept.eu")."""

    targets: Mapping[str, Target]
    routes: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, frozenset[str]]
    route: str | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """What `start` is given. `clock`: monotonic seconds."""

    clock: Callable[[], float]
