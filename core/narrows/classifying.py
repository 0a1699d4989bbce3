"""Classify one failure without a gateway: what `narrows classify` and `narrows.classify` use.

The classifiers are those that every configuration gets; a configuration's own plugins are asked only by its gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from narrows.errors import ConfigError, Problem
from narrows.failover import merge
from narrows.registry import Implementations, Registered, Registry
from narrows.types import Classified, Failure, Target

ALWAYS = ("error_classes",)
FALLBACK_KIND = "openai_compatible"


class Classifier:
    """The built-in classifiers, loaded once. Raises ConfigError where the distribution's plugins are not installed."""

    def __init__(self, registry: Registry | None = None) -> None:
        registry = registry or Registry()
        self._kinds = frozenset(kind.short for kind in registry.of("providers"))
        blocks = []
        for short in ALWAYS:
            kind = registry.get("plugins", short)
            if kind is None:
                raise ConfigError([Problem("unknown_kind", f"the kind plugins.{short} is not installed")])
            blocks.append(Registered(short, f"plugins.{short}", kind, kind.load()()))
        self._impls = Implementations(blocks).of("classify_error")

    def __call__(self, kind: str, failure: Failure) -> Classified:
        """What the failure is. An unknown provider kind is read as `openai_compatible`."""
        known = kind if kind in self._kinds else FALLBACK_KIND
        target = Target("", "", known, "")
        answers = []
        for impl in self._impls:
            ask = cast(Callable[..., Classified | None], impl.function)
            answer = ask(replace(failure, kind=known), target)
            if answer is not None:
                answers.append((impl.plugin, answer))
        return merge(answers)


def classify(kind: str, failure: Failure) -> Classified:
    """What one failure of a provider of that kind is: its class, whether the endpoint is dead, when to try again."""
    return Classifier()(kind, failure)
