"""Money is integer micro-USD. This module holds every conversion; floats appear only at its edges.

Prices are micro-USD per million tokens, so a price of 1.0 USD per million tokens is the integer 1_000_000.
Costs round up: a reservation must never be smaller than the bill. Source: DESIGN section 8.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from narrows import tokens
from narrows.types import Price, Target, Usage

MICRO = 1_000_000
PER_MILLION = 1_000_000


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


def tokens_cost(tokens: int, price_per_million: int) -> int:
    """Micro-USD of that many tokens, rounded up."""
    return -(-tokens * price_per_million // PER_MILLION)


def attempt_cost(usage: Usage, price: Price) -> int | None:
    """Micro-USD of one attempt, or None where a price it needs is not declared. Cached input without a price of its own
    costs what input costs (the higher, so nothing is under-charged)."""
    if price.input is None or price.output is None:
        return None
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh = max(usage.input - usage.cached, 0)
    total = fresh * price.input + usage.cached * cached_price + usage.output * price.output
    return -(-total // PER_MILLION)


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
    return -(-(at_most * dearest + output * price.output) // PER_MILLION)
