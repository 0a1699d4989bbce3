"""`context_window`: excluded exactly where the declared window is smaller than the prompt's floor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import Request, Sizes, Target
from narrows_plugins.narrow.context_window import ContextWindow
from tests.plugins.narrow.ruling import block, demands, hooks, left, reasons, request


def target(name: str, window: int | None = None) -> Target:
    return Target(name, "acme", "echo", name, context_window=window)


SMALL, LARGE, SILENT = target("small", 8192), target("large", 128_000), target("silent")


def windows(*thresholds: int) -> ContextWindow:
    return block(ContextWindow, thresholds=list(thresholds))


def sized(tokens: int) -> Request:
    return request(sizes=Sizes(at_least=tokens, at_most=8 * tokens))


def test_a_window_that_is_certainly_too_small_excludes() -> None:
    rule = windows(8192, 128_000)
    assert left(rule, [SMALL, LARGE, SILENT], sized(8193)) == ["large", "silent"]
    assert reasons(rule, [SMALL], sized(8193)) == {
        "small": ("context_window", "has a context window too small for the prompt")
    }


def test_a_prompt_that_fits_exactly_excludes_nobody() -> None:
    assert left(windows(8192, 128_000), [SMALL, LARGE, SILENT], sized(8192)) == ["small", "large", "silent"]


def test_nothing_declared_is_capable() -> None:
    assert left(windows(8192), [SILENT], sized(10**9)) == ["silent"]
    assert demands(windows(), sized(10**9)) == frozenset()


def test_few_demands_for_many_sizes() -> None:
    rule = windows(8192, 128_000)
    assert {demand for tokens in range(0, 200_000, 500) for demand in demands(rule, sized(tokens))} == {8192, 128_000}


def test_it_reads_sizes_alone() -> None:
    assert windows(1).reads == {"sizes"}


def test_the_registry_takes_it() -> None:
    assert hooks("constraints.context_window", windows(8192)) == ("narrow",)


@pytest.mark.parametrize("tokens", [0, -1])
def test_options_that_are_refused(tokens: int) -> None:
    with pytest.raises(ValidationError, match="must be windows of 1 token or more"):
        windows(tokens)


sizes = st.integers(0, 60)


@given(st.lists(st.none() | st.integers(1, 50), max_size=6), sizes, sizes)
def test_excluded_iff_the_window_is_smaller(declared: list[int | None], tokens: int, other: int) -> None:
    rule = windows(*[window for window in declared if window is not None])
    targets = [target(str(n), window) for n, window in enumerate(declared)]
    fitting = [str(n) for n, window in enumerate(declared) if window is None or window >= tokens]
    assert left(rule, targets, sized(tokens)) == fitting
    larger = max(tokens, other)
    assert set(left(rule, targets, sized(larger))) <= set(fitting)
