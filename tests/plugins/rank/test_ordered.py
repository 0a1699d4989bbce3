"""`ordered` keeps the order of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from pydantic import ValidationError

from narrows import Candidates, Consult, Request, Target
from narrows.candidates import Pool
from narrows.ranking import accept_order
from narrows.types import Json
from narrows_plugins.rank.ordered import Ordered
from tests.plugins.narrow.ruling import block, hooks


async def nobody(judge: str, messages: Sequence[Mapping[str, Json]], schema: Mapping[str, Json]) -> Json:
    raise RuntimeError("the order of the file asks nobody")


def test_it_answers_nothing_which_keeps_the_order() -> None:
    targets = [Target(name, "acme", "echo", name) for name in ("a", "b")]
    candidates = Candidates(Pool(targets), 0b11)
    answer = block(Ordered).rank(Request("chat"), candidates, cast(Consult, nobody))
    assert answer is None
    assert accept_order("ordered", candidates, answer) == ()
    assert [target.name for target in candidates] == ["a", "b"]


def test_it_has_no_judge() -> None:
    assert block(Ordered).judges() == ()


def test_it_has_no_options() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        block(Ordered, seed=1)


def test_the_registry_takes_it() -> None:
    assert hooks("rankers.ordered", block(Ordered)) == ("rank",)
