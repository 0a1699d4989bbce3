"""Money is integer micro-USD. This module holds every conversion; floats appear only at its edges.

Prices are micro-USD per million tokens, so a price of 1.0 USD per million tokens is the integer 1_000_000, and tokens
times a price are pico-USD exactly. Costs round up: a reservation must never be smaller than the bill. A test over the
syntax tree finds a conversion anywhere else (tests/core/test_money_everywhere.py). Source: DESIGN section 8.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from narrows import tokens
from narrows.types import Price, Target, Usage

MICRO = 1_000_000
PER_MILLION = 1_000_000


# ---- the edges: what people write and read -----------------------------------------------------------------------


def micro_usd(usd: float | int | str) -> int:
    """USD from a configuration file to micro-USD, exact for what was written (0.1 is 100_000). Raises ValueError
    for a negative, infinite or NaN amount, and for a text that is no number."""
    try:
        amount = Decimal(str(usd))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"{usd!r} is no amount of money; write a number of USD that is zero or more")
    return int((amount * MICRO).to_integral_value(rounding=ROUND_HALF_EVEN))


def usd(micro: int) -> str:
    """Micro-USD to a text in USD for people, without trailing zeros ("0.0325")."""
    text = f"{Decimal(micro) / MICRO:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def usd_float(micro: int) -> float:
    """Micro-USD to the nearest number of USD, for a metric whose unit is USD. Nothing is computed from it."""
    return micro / MICRO


# ---- tokens times prices ---------------------------------------------------------------------------------------------


def micro_from_pico(pico: int) -> int:
    """Pico-USD (tokens times a price) to micro-USD, rounded up."""
    return -(-pico // PER_MILLION)


def tokens_cost(tokens: int, price_per_million: int) -> int:
    """Micro-USD of that many tokens, rounded up."""
    return micro_from_pico(tokens * price_per_million)


def attempt_cost(usage: Usage, price: Price) -> int | None:
    """Micro-USD of one attempt, or None where a price it needs is not declared. Cached input without a price of its own
    costs what input costs (the higher, so nothing is under-charged)."""
    if price.input is None or price.output is None:
        return None
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh = max(usage.input - usage.cached, 0)
    return micro_from_pico(fresh * price.input + usage.cached * cached_price + usage.output * price.output)


def worst_case(at_most: int, max_output: int | None, n: int, target: Target) -> int | None:
    """The most one call of this target can cost in micro-USD, nothing cached, or None where a price is not declared.

    `at_most`: prompt tokens. `max_output`: the caller's own limit, tokens per answer. `n`: how many answers. Input that
    is written to a cache, or read from one, may cost more than plain input; the dearest of the three counts.
    """
    price = target.price
    if price.input is None or price.output is None:
        return None
    output = tokens.most_output(max_output, target.max_output_tokens, target.context_window) * n
    dearest = max(price.input, price.cache_write or 0, price.cached_input or 0)
    return micro_from_pico(at_most * dearest + output * price.output)


def expected_cost(at_most: int, max_output: int | None, n: int, usual_output: int, target: Target) -> int | None:
    """What one call of this target is expected to cost, or None where a price is not declared.

    In pico-USD, exact: which of two targets is the cheaper may hang on less than one micro-USD (`micro_from_pico` rounds).
    `at_most`, `max_output` and `n` as in `worst_case`. A prompt counts as one token for four bytes; an answer as the
    caller's own limit, or as `usual_output` tokens where it sets none, and never as more than the target can give.
    """
    price = target.price
    if price.input is None or price.output is None:
        return None
    bounds = (usual_output if max_output is None else max_output, target.max_output_tokens, target.context_window)
    output = min(bound for bound in bounds if bound is not None) * n
    return tokens.estimate(at_most) * price.input + output * price.output
