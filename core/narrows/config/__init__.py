"""The configuration: TOML files to settings and blocks, or every problem at once. Source: DESIGN section 11."""

from __future__ import annotations

from narrows.config.loading import Loaded, load, loads
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

__all__ = [
    "AttributeConf",
    "AuthConf",
    "HooksConf",
    "KeyConf",
    "Loaded",
    "RouteConf",
    "ServerConf",
    "Settings",
    "TargetConf",
    "TelemetryConf",
    "TenantConf",
    "load",
    "loads",
]
