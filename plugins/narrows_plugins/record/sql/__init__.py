"""`sql`: decisions in a database, by SQLAlchemy Core. The only place that imports it. Needs the extra `ledger`."""

from __future__ import annotations

from importlib.util import find_spec

from narrows import ConfigError, Problem

if find_spec("sqlalchemy") is None:
    raise ConfigError(
        [
            Problem(
                "extra_missing",
                "the kind 'sinks.sql' needs SQLAlchemy, which is not installed",
                remedy="Run: pip install 'narrows[ledger]'",
            )
        ]
    )

from narrows_plugins.record.sql.sink import Sql

__all__ = ["Sql"]
