"""One module converts money: nothing else in the engine and its plugins scales, rounds or multiplies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.money_scan import conversions

ROOT = Path(__file__).parents[2]
MONEY = "core/narrows/money.py"
OTHER_UNITS = {
    ("core/narrows/run.py", "time.time_ns() // 1000000"),  # milliseconds
}
"""A million of something else. An entry that is not found any more fails."""

PLANTED = (
    "paid = usd * 1_000_000",
    "paid = usd * 1e6",
    "paid = 10**6 * usd",
    "paid = amount * 1000 * 1000",
    "paid = amount * 10**3 * 10**3",
    "paid = amount / 1000 / 1000",
    "paid = amount * 1e-6",
    "paid = -(-tokens * rate // 1000000)",
    "paid = -(-tokens * rate // money.PER_MILLION)",
    "paid = amount * MICRO",
    "from narrows.money import MICRO as SCALE\npaid = amount * money.MICRO",
    "SCALE = 1_000_000\npaid = amount * SCALE",
    "SCALE = 10**6\namount *= SCALE",
    "amount /= 1_000_000",
    "amount //= 1e6",
    "cost = tokens * price",
    "cost = tokens * target.price.input",
    "cost = usage.input * prices['input']",
    "cents = cost_usd * 100",
    "share = cost / total",
    "cost *= 2",
    "paid = float(cost_micro_usd)",
    "paid = float(row.cost_micro_usd or 0)",
    "paid = float(row['cost_micro_usd'])",
    "paid = float(document.get('cost_micro_usd'))",
    "paid = float(sum(row.cost_micro_usd for row in rows))",
    "paid = float(money.usd(count))",
    "paid = worst_case_cost(target) * n",
    "paid = int(price)",
    "paid = round(cost, 6)",
    "paid = math.ceil(cost)",
    "paid = Decimal(price)",
    "import decimal",
    "from decimal import Decimal",
    "from fractions import Fraction",
    "paid = divmod(amount, 1_000_000)",
    "paid = operator.mul(amount, 1_000_000)",
    "paid = pico.scaleb(MICRO)",
    "told = f'{cost:.2f}'",
    "told = f'{row.cost_micro_usd:g}'",
)
HARMLESS = (
    "millis = round(elapsed * 1000)",
    "size = len(body) * 2",
    "limit = 64 * 1024 * 1024",
    "most = 2 * 1_000_000",
    "full = len(body) > 1_000_000",
    "total = cost + other_cost",
    "cost = worst_case(at_most, max_output, n, target) or 0",
    "told = f'{cost} micro-USD'",
    "told = f'{usd(cost)} USD'",
    "known = int(text)",
    "number = round(seconds)",
    "from narrows.money import usd",
)


def sources() -> list[Path]:
    """Every module of the engine and of its plugins but the one that may."""
    every = [*(ROOT / "core").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    return [path for path in every if path != ROOT / MONEY]


def test_nothing_else_converts() -> None:
    found = {(str(path.relative_to(ROOT)), text) for path in sources() for text in conversions(path.read_text("utf-8"))}
    assert found - OTHER_UNITS == set(), "move it into narrows.money"
    assert OTHER_UNITS - found == set(), "this is not there any more: take it out of the list"


def test_the_module_that_converts_is_seen_to() -> None:
    """The scan sees every line there is: what is there would be found elsewhere."""
    assert len(conversions((ROOT / MONEY).read_text("utf-8"))) >= 6
    assert len(sources()) > 100


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_conversion_is_found(planted: str) -> None:
    assert conversions(f"def planted():\n    {planted.splitlines()[-1]}\n" if "\n" not in planted else planted)


@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_converts_nothing_is_not_found(harmless: str) -> None:
    assert conversions(harmless) == []
