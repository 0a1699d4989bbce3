"""From the tables as they are written to `Settings`. Everything here has been checked."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.config import tables
from narrows.config.settings import (
    AttributeConf,
    AuthConf,
    HooksConf,
    KeyConf,
    RouteConf,
    ServerConf,
    Settings,
    TargetConf,
    TelemetryConf,
    TenantConf,
)
from narrows.money import micro_usd
from narrows.types import LabelValue, Price

Said = Mapping[str, frozenset[str]]


def settings_of(document: tables.Document) -> Settings:
    """The settings that a checked document says."""
    return Settings(
        attributes={name: _attribute(name, table) for name, table in document.attributes.items()},
        targets={name: _target(name, table) for name, table in document.targets.items()},
        routes={name: _route(name, table) for name, table in document.routes.items()},
        keys={name: _key(name, table) for name, table in document.keys.items()},
        tenants={
            name: TenantConf(name, _said(table.attributes), _said(table.may_say))
            for name, table in document.tenants.items()
        },
        auth=AuthConf(document.auth.mode, _said(document.auth.may_say)),
        server=_server(document.server),
        telemetry=TelemetryConf(**document.telemetry.model_dump()),
        hooks=HooksConf(**document.hooks.model_dump()),
    )


def _attribute(name: str, table: tables.AttributeTable) -> AttributeConf:
    header = table.header
    if header is None and "header" in table.sources:
        header = name.casefold()
    return AttributeConf(name, table.values, tuple(dict.fromkeys(table.sources)), header, table.missing)


def _target(name: str, table: tables.TargetTable) -> TargetConf:
    labels: dict[str, LabelValue | None] = {
        "region": table.region,
        "processing_region": table.processing_region,
        "jurisdiction": table.jurisdiction,
        "class": table.class_,
        "zero_retention": table.zero_retention,
        "no_training": table.no_training,
        "output_uses": table.output_uses,
        "tier": table.tier,
    }
    declared = {key: value for key, value in labels.items() if value is not None}
    return TargetConf(
        name=name,
        provider=table.provider,
        model=table.model or table.id or "",
        labels={**declared, **table.labels},
        capabilities=table.capabilities,
        context_window=table.context_window,
        max_output_tokens=table.max_output_tokens,
        price=_price(table),
        extra_body=table.extra_body,
    )


def _price(table: tables.TargetTable) -> Price:
    price = table.price or tables.PriceTable.model_construct(
        input=table.cost_per_mtok_in, output=table.cost_per_mtok_out
    )
    return Price(_micro(price.input), _micro(price.output), _micro(price.cached_input), _micro(price.cache_write))


def _micro(usd: float | None) -> int | None:
    return None if usd is None else micro_usd(usd)


def _route(name: str, table: tables.RouteTable) -> RouteConf:
    return RouteConf(
        name=name,
        targets=table.targets,
        constraints=table.constraints,
        algorithm=table.algorithm,
        failover_on=tuple(dict.fromkeys(table.failover_on)),
        deadline_secs=table.deadline_secs,
        max_retries=table.max_retries,
    )


def _key(name: str, table: tables.KeyTable) -> KeyConf:
    return KeyConf(
        name=name,
        sha256=None if table.sha256 is None else table.sha256.lower(),
        tenant=table.tenant,
        routes=_set(table.routes),
        targets=_set(table.targets),
        providers=_set(table.providers),
        tags=frozenset(table.tags),
        attributes=_said(table.attributes),
        may_say=_said(table.may_say),
    )


def _server(table: tables.ServerTable) -> ServerConf:
    key = table.metrics_key_sha256
    return ServerConf(**{**table.model_dump(), "metrics_key_sha256": None if key is None else key.lower()})


def _set(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _said(values: Mapping[str, tuple[str, ...]]) -> Said:
    return {attribute: frozenset(said) for attribute, said in values.items()}
