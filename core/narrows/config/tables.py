"""The tables of the file as pydantic models: which keys there are, and of which type. Strict, nothing unknown.

These are the shapes as they are written; `conversion` makes `Settings` of them. What may stand at a key: `values`. The
text below a key is what editors show (`documented`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from narrows.config.values import (
    BlockTable,
    Capabilities,
    Count,
    Failover,
    Header,
    Label,
    Name,
    Names,
    OwnLabel,
    Said,
    Secs,
    Sha256,
    Source,
    Tags,
    Texts,
    Usd,
    Values,
)


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


class AttributeTable(Table):
    """What a request says of itself."""

    values: Values
    """The declared values. Any other value in a request is refused with 400 `attribute_unknown`."""
    sources: tuple[Source, ...] = ("header", "metadata", "key", "tenant")
    """Who may say it. What a key or a tenant is bound to always adds."""
    header: Header | None = None
    """The header that says it. Left out: the attribute's own name."""
    missing: Literal["floor", "refuse", "unrestricted"] = "floor"
    """What silence means: every value at once (`floor`), a refusal (`refuse`), or nothing (`unrestricted`)."""


class PriceTable(Table):
    """USD per million tokens."""

    input: Usd | None = None
    """A million tokens of the prompt, in USD."""
    output: Usd | None = None
    """A million tokens of the answer, in USD."""
    cached_input: Usd | None = None
    """A million tokens of the prompt that the vendor had in its cache, in USD."""
    cache_write: Usd | None = None
    """A million tokens that the vendor writes into its cache, in USD."""


class TargetTable(Table):
    """One thing a request can be sent to."""

    provider: str
    """The name of a `[providers.NAME]` block."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """What the vendor is asked for. `id` is another spelling; one of the two is required."""
    id: Annotated[str, Field(min_length=1)] | None = None
    """Another spelling of `model`."""
    region: Label | None = None
    """Label: where it runs. A list means "may be any of these"."""
    processing_region: Label | None = None
    """Label: where the vendor may process the data."""
    jurisdiction: Label | None = None
    """Label: whose law binds the vendor."""
    class_: Label | None = Field(default=None, alias="class")
    """Label: `private`, `public`, or a word of your own."""
    zero_retention: bool | None = None
    """Label: the vendor keeps nothing of a request."""
    no_training: bool | None = None
    """Label: the vendor trains on nothing of a request."""
    output_uses: Texts | None = None
    """Label: what its terms permit the output to be used for."""
    tier: Label | None = None
    """Label: how strong or dear it is, in a word of your own."""
    labels: dict[Name, OwnLabel] = Field(default_factory=dict)
    """Labels of your own, by name."""
    capabilities: Capabilities = Field(default_factory=dict)
    """What it can do, by name, true or false. Undeclared counts as capable; a vendor-run `server_tool.NAME` does not."""
    context_window: Count | None = None
    """The longest prompt with its answer, in tokens. Undeclared: never a reason to remove it."""
    max_output_tokens: Count | None = None
    """The longest answer, in tokens. It bounds the worst case of a call and is not sent to the vendor."""
    price: PriceTable | None = None
    """What it costs, USD per million tokens. Left out: unpriced, which is not the same as free."""
    cost_per_mtok_in: Usd | None = None
    """Short for `price.input`."""
    cost_per_mtok_out: Usd | None = None
    """Short for `price.output`."""
    extra_body: dict[str, Any] | None = None
    """Members of the body that the operator adds for this target, in place of the caller's."""


class RouteTable(Table):
    """A public model name. Options of its ranker stand in a table named after the algorithm."""

    targets: Annotated[Names, Field(min_length=1)]
    """The pool, in order. Nothing outside it can be reached."""
    constraints: Names = ()
    """The rules that stand on this route, besides those with `always`."""
    algorithm: str = "ordered"
    """The ranker: who orders what the rules left. Its options stand in `[routes.NAME.ALGORITHM]`."""
    failover_on: tuple[Failover, ...] = ("timeout", "rate_limited", "server_error")
    """Which failures move on to the next target. The list replaces the default."""
    deadline_secs: Secs = 300.0
    """All attempts together, up to the first byte to the caller."""
    max_retries: Annotated[int, Field(ge=0, le=100)] | None = None
    """Repeats on one target, in place of its provider's."""


class KeyTable(Table):
    """A caller, recognised by the hash of its key."""

    sha256: Sha256 | None = None
    """The hash of the client's key, 64 hexadecimal digits. Left out: a caller that no key opens."""
    tenant: str | None = None
    """The name of a `[tenants.NAME]` table."""
    routes: Names | None = None
    """The routes it may use. Left out: every one."""
    targets: Names | None = None
    """The targets it may use; others do not exist for it. Left out: every one."""
    providers: Names | None = None
    """The providers it may use; others do not exist for it. Left out: every one."""
    tags: Tags = ()
    """Words that a cap may name, as `tag.WORD`."""
    attributes: Said = Field(default_factory=dict)
    """Values that are always said for it. Nobody can take them back."""
    may_say: Said = Field(default_factory=dict)
    """Values that it may say although they leave more than silence does."""


class TenantTable(Table):
    """Several keys under one name."""

    attributes: Said = Field(default_factory=dict)
    """Values that are always said for each of its keys."""
    may_say: Said = Field(default_factory=dict)
    """Values that each of its keys may say although they leave more than silence does."""


class AuthTable(Table):
    """Who may call."""

    mode: Literal["keys", "host", "open"] | None = None
    """Who may call: those with a key (`keys`), the host's users (`host`), everybody (`open`)."""
    may_say: Said = Field(default_factory=dict)
    """Values that callers without a key may say although they leave more than silence does."""


class ServerTable(Table):
    """Only for `narrows serve`."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address to listen on. Where nobody has to authenticate, only loopback is possible."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    """The port; 0 takes a free one."""
    shutdown_grace_secs: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 30.0
    """How long running requests may take after TERM."""
    max_body_bytes: Count = 20_000_000
    """A larger body is refused with 413, also in a mount."""
    metrics_key_sha256: Sha256 | None = None
    """The SHA-256 of the key that opens `/metrics`, and nothing else. Without it only this machine may scrape."""


class TelemetryTable(Table):
    """Spans."""

    detail: Literal["request", "stages", "plugins"] = "request"
    """Which spans there are: of requests and attempts; of stages and HTTP calls too; of plugins' calls too."""
    exporter: Literal["none", "otlp"] = "none"
    """Where spans go: where the process's own OpenTelemetry sends them (`none`); with `narrows serve`, to a collector
    (`otlp`), as the variables `OTEL_*` say."""


class HooksTable(Table):
    """How long a plugin's hook may take."""

    deadline_secs: Secs = 5.0
    """An asynchronous hook that has not answered by then has failed."""
    slow_secs: Secs = 0.05
    """A synchronous hook that took longer is named in the log. It cannot be interrupted."""


class Document(Table):
    """The whole file. Blocks are checked by their kinds' own classes."""

    attributes: dict[Name, AttributeTable] = Field(default_factory=dict)
    constraints: dict[Name, BlockTable] = Field(default_factory=dict)
    providers: dict[Name, BlockTable] = Field(default_factory=dict)
    targets: dict[Name, TargetTable] = Field(default_factory=dict)
    routes: dict[Name, RouteTable] = Field(default_factory=dict)
    keys: dict[Name, KeyTable] = Field(default_factory=dict)
    tenants: dict[Name, TenantTable] = Field(default_factory=dict)
    authenticators: dict[Name, BlockTable] = Field(default_factory=dict)
    plugins: dict[Name, BlockTable] = Field(default_factory=dict)
    sinks: dict[Name, BlockTable] = Field(default_factory=dict)
    auth: AuthTable = Field(default_factory=AuthTable)
    server: ServerTable = Field(default_factory=ServerTable)
    telemetry: TelemetryTable = Field(default_factory=TelemetryTable)
    hooks: HooksTable = Field(default_factory=HooksTable)
