"""What a validated configuration says, as frozen values. The core compiles it; nothing here is looked up again.

Names are as in the file. Attribute values and header names are folded (trimmed, without case), prices are micro-USD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from narrows.types import EMPTY, LabelValue, Price

EVERY_SOURCE = ("header", "metadata", "key", "tenant")
MOVING_CLASSES = ("timeout", "rate_limited", "server_error")


@dataclass(frozen=True, slots=True)
class AttributeConf:
    """`[attributes.NAME]`. `values`: folded. `header`: lower case; None where no caller can say it."""

    name: str
    values: tuple[str, ...]
    sources: tuple[str, ...] = EVERY_SOURCE
    header: str | None = None
    missing: Literal["floor", "refuse", "unrestricted"] = "floor"


@dataclass(frozen=True, slots=True)
class TargetConf:
    """`[targets.NAME]`. `labels`: the named ones and the own ones, together; a tuple means "may be any of these".
    `context_window`, `max_output_tokens`: tokens. `extra_body`: the operator's own members of each body, JSON."""

    name: str
    provider: str
    model: str
    labels: Mapping[str, LabelValue] = field(default_factory=dict)
    capabilities: Mapping[str, bool] = field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None
    price: Price = Price()
    extra_body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RouteConf:
    """`[routes.NAME]`. `deadline_secs` ends at the first byte. `max_retries` None: what each provider says."""

    name: str
    targets: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    algorithm: str = "ordered"
    failover_on: tuple[str, ...] = MOVING_CLASSES
    deadline_secs: float = 300.0
    max_retries: int | None = None


@dataclass(frozen=True, slots=True)
class KeyConf:
    """`[keys.NAME]`. `sha256`: 64 lower-case hex digits. `routes`, `targets`, `providers`: None = all."""

    name: str
    sha256: str | None = field(default=None, repr=False)
    tenant: str | None = None
    routes: frozenset[str] | None = None
    targets: frozenset[str] | None = None
    providers: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    attributes: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)
    may_say: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class TenantConf:
    """`[tenants.NAME]`: what is bound to each of its keys, and what they may say."""

    name: str
    attributes: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)
    may_say: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class AuthConf:
    """`[auth]`. `mode` None: not said; what that means depends on how the gateway is run."""

    mode: Literal["keys", "host", "open"] | None = None
    may_say: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class ServerConf:
    """`[server]`, for `narrows serve`; a mounted gateway uses `max_body_bytes` and `metrics_key_sha256` alone.
    `metrics_key_sha256`: 64 lower-case hex digits."""

    host: str = "127.0.0.1"
    port: int = 8000
    shutdown_grace_secs: float = 30.0
    max_body_bytes: int = 20_000_000
    metrics_key_sha256: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TelemetryConf:
    """`[telemetry]`: which spans exist, and where they go."""

    detail: Literal["request", "stages", "plugins"] = "request"
    exporter: Literal["none", "otlp"] = "none"


@dataclass(frozen=True, slots=True)
class HooksConf:
    """`[hooks]`: how long an asynchronous hook may take, and from when a synchronous one is called slow. Seconds."""

    deadline_secs: float = 5.0
    slow_secs: float = 0.05


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything but the blocks. Each mapping is in the order of the files."""

    attributes: Mapping[str, AttributeConf]
    targets: Mapping[str, TargetConf]
    routes: Mapping[str, RouteConf]
    keys: Mapping[str, KeyConf]
    tenants: Mapping[str, TenantConf]
    auth: AuthConf
    server: ServerConf
    telemetry: TelemetryConf
    hooks: HooksConf
