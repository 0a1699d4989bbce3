"""What a configuration says once it holds: folded, merged, with its defaults."""

from __future__ import annotations

import dataclasses

import pytest

from narrows.config import AttributeConf, AuthConf, HooksConf, KeyConf, RouteConf, ServerConf, TelemetryConf, TenantConf
from narrows.types import Price
from tests.core.config.support import BASE, loaded


def test_the_defaults() -> None:
    settings = loaded(BASE).settings
    assert settings.routes == {"chat": RouteConf("chat", ("eu",))}
    route = settings.routes["chat"]
    assert (route.algorithm, route.constraints, route.deadline_secs, route.max_retries) == ("ordered", (), 300.0, None)
    assert route.failover_on == ("timeout", "rate_limited", "server_error")
    assert settings.server == ServerConf("127.0.0.1", 8000, 30.0, 20_000_000)
    assert settings.auth == AuthConf(None, {})
    assert settings.telemetry == TelemetryConf("request", "none")
    assert settings.hooks == HooksConf(5.0, 0.05)
    assert (settings.keys, settings.tenants, settings.attributes) == ({}, {}, {})
    target = settings.targets["eu"]
    assert (target.name, target.provider, target.model, target.price) == ("eu", "acme", "large", Price())
    assert (target.context_window, target.max_output_tokens, target.extra_body) == (None, None, None)


def test_an_attribute_is_folded() -> None:
    settings = loaded(
        BASE + "[attributes.Data-Region]\nvalues = [' EU ', 'Any']\n"
        "[attributes.b]\nvalues = ['x']\nsources = ['metadata']\n"
        "[attributes.c]\nvalues = 'one'\nsources = ['key', 'header', 'key']\nheader = 'X-C'\nmissing = 'refuse'\n"
    ).settings
    every = ("header", "metadata", "key", "tenant")
    assert settings.attributes == {
        "Data-Region": AttributeConf("Data-Region", ("eu", "any"), every, "data-region", "floor"),
        "b": AttributeConf("b", ("x",), ("metadata",), None, "floor"),
        "c": AttributeConf("c", ("one",), ("key", "header"), "x-c", "refuse"),
    }


def test_labels_are_merged() -> None:
    lines = (
        "region = ['eu', 'ch']\nprocessing_region = 'eu'\njurisdiction = 'eu'\nclass = 'private'\nzero_retention = true\n"
        "no_training = false\noutput_uses = ['internal']\ntier = 'frontier'\n"
        "labels = { own = 'x', number = 1, fraction = 0.5, yes = true, several = ['a', 'b'] }"
    )
    assert loaded(BASE.replace('region = "eu"', lines)).settings.targets["eu"].labels == {
        "region": ("eu", "ch"),
        "processing_region": "eu",
        "jurisdiction": "eu",
        "class": "private",
        "zero_retention": True,
        "no_training": False,
        "output_uses": ("internal",),
        "tier": "frontier",
        "own": "x",
        "number": 1,
        "fraction": 0.5,
        "yes": True,
        "several": ("a", "b"),
    }


def test_callers() -> None:
    settings = loaded(
        BASE + "[attributes.a]\nvalues = ['x', 'y']\n"
        "[tenants.t]\nattributes = { a = 'X' }\n"
        "[keys.k]\ntenant = 't'\nroutes = []\ntags = ['intern']\nmay_say = { a = ['y', ' X '] }\n"
        "[keys.other]\n[auth]\nmode = 'open'\nmay_say.a = 'y'\n"
    ).settings
    assert settings.tenants == {"t": TenantConf("t", {"a": frozenset({"x"})}, {})}
    assert settings.keys["k"] == KeyConf(
        "k", None, "t", frozenset(), None, None, frozenset({"intern"}), {}, {"a": frozenset({"x", "y"})}
    )
    assert settings.keys["other"] == KeyConf("other")
    assert settings.auth == AuthConf("open", {"a": frozenset({"y"})})


def test_what_is_loaded_is_frozen() -> None:
    found = loaded(BASE)
    for value in (found, found.settings, found.settings.targets["eu"], found.settings.routes["chat"]):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
