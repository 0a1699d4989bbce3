"""Loading for these tests: our own kinds as classes, so that nothing need be installed; and short ways to ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from narrows import Block, ConfigError, Problem
from narrows.config import Loaded, load, loads
from narrows.registry import Registry
from narrows_plugins.authenticate.host import Host
from narrows_plugins.authenticate.keys import Keys
from narrows_plugins.classify_error.generic import ErrorClasses
from narrows_plugins.dispatch.echo import Echo
from narrows_plugins.dispatch.openai_compatible import OpenAICompatible
from narrows_plugins.narrow.allowed_classes import AllowedClasses
from narrows_plugins.narrow.attribute_match import AttributeMatch
from narrows_plugins.narrow.capability import Capability
from narrows_plugins.narrow.context_window import ContextWindow
from narrows_plugins.narrow.cost_ceiling import CostCeiling
from narrows_plugins.rank.ordered import Ordered
from narrows_plugins.record.sql import Sql

CASES = Path(__file__).resolve().parents[2] / "cases"
ENV = {"ACME_API_KEY": "sk-acme-0123456789abcdef", "DEEPSEEK_API_KEY": "sk-deepseek-0123456789"}
KINDS: Mapping[str, type[Block]] = {
    "authenticators.host": Host,
    "authenticators.keys": Keys,
    "constraints.allowed_classes": AllowedClasses,
    "constraints.attribute_match": AttributeMatch,
    "constraints.capability": Capability,
    "constraints.context_window": ContextWindow,
    "constraints.cost_ceiling": CostCeiling,
    "plugins.error_classes": ErrorClasses,
    "providers.echo": Echo,
    "providers.openai_compatible": OpenAICompatible,
    "rankers.ordered": Ordered,
    "sinks.sql": Sql,
}

BASE = """
[providers.acme]
kind = "openai_compatible"
base_url = "http://127.0.0.1:9901/v1"

[targets.eu]
provider = "acme"
model = "large"
region = "eu"

[routes.chat]
targets = ["eu"]
"""
"""The smallest configuration that loads, 12 lines long with a blank one in front."""


def registry(more: Mapping[str, type[Block]] | None = None, without: str = "") -> Registry:
    """A registry of our own kinds and these, whatever is installed."""
    kinds = {name: kind for name, kind in KINDS.items() if name != without}
    with patch("narrows.registry._installed", return_value=()):
        return Registry({**kinds, **(more or {})})


def loaded(text: str, env: Mapping[str, str] = ENV, more: Mapping[str, type[Block]] | None = None) -> Loaded:
    """A text that loads."""
    return loads(text, registry(more), env)


def refused(text: str, env: Mapping[str, str] = ENV, more: Mapping[str, type[Block]] | None = None) -> list[Problem]:
    """The problems of a text that does not load."""
    with pytest.raises(ConfigError) as caught:
        loads(text, registry(more), env)
    return list(caught.value.problems)


def refused_files(*paths: str | Path) -> list[Problem]:
    """The problems of files that do not load."""
    with pytest.raises(ConfigError) as caught:
        load(paths, registry(), ENV)
    return list(caught.value.problems)


def only(problems: list[Problem]) -> Problem:
    """The one problem that there is."""
    assert len(problems) == 1, "\n".join(map(str, problems))
    return problems[0]


def brief(problems: list[Problem]) -> list[tuple[str, str, int | None]]:
    """Code, path and line of each."""
    return [(one.code, one.path, one.line) for one in problems]


def line_of(text: str, part: str) -> int:
    """The line, from 1, of the only line that begins with this."""
    found = [number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith(part)]
    assert len(found) == 1, f"{part!r} stands in lines {found}"
    return found[0]
