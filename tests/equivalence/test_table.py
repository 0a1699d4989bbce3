"""Each cell of the table, on both backends; and that a cell without its control is none."""

from __future__ import annotations

import pytest

from tests.equivalence import table
from tests.equivalence.bench import Bench
from tests.equivalence.guarantees import Guarantee
from tests.equivalence.kinds import Kind
from tests.equivalence.upstreams import Plan

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("guarantee", Guarantee)
async def test_the_guarantee_holds_for_the_kind(guarantee: Guarantee, kind: Kind) -> None:
    await table.measure(guarantee, kind)


async def asks_only_what_is_refused(bench: Bench) -> None:
    async with bench.gateway({"a": Plan()}) as gate:
        assert (await gate.ask("nowhere")).status == 404
        assert gate.taken() == {}


async def controls_elsewhere(bench: Bench) -> None:
    await asks_only_what_is_refused(bench)
    async with bench.gateway({"a": Plan()}) as gate:
        assert (await gate.ask()).status == 200


@pytest.mark.parametrize(
    ("check", "why"), [(asks_only_what_is_refused, "no positive control"), (controls_elsewhere, "one gateway")]
)
async def test_a_cell_without_a_control_in_its_own_gateway_fails(
    check: table.Check, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "CHECKS", {Guarantee.GRANTS: check})
    with pytest.raises(AssertionError, match=why):
        await table.measure(Guarantee.GRANTS, Kind.ECHO)


async def test_every_cell_is_another_check() -> None:
    assert len(set(table.CHECKS.values())) == len(Guarantee)
    assert len(set(table.ROWS.values())) == len(Kind)
