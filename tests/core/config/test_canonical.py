"""The canonical form is what a configuration means: how it is written makes no difference, what it says does."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Strict

from narrows import Block, Constraint, Exclusion, Request, Target
from narrows.config import Loaded, load, loads
from narrows.config.canonical import policy_digest
from narrows.registry import Kind, Registered
from tests.core.config.support import BASE, ENV, KINDS, loaded, registry
from tests.support.config import toml

FULL = (
    BASE
    + """
[attributes.data-region]
values = ["eu", "any"]
header = "x-region"
[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
always = true
[targets.us]
provider = "acme"
model = "small"
region = "us"
price = { input = 0.1, output = 0.6 }
capabilities = { vision = false, tools = true }
extra_body = { a = { b = 1, c = 2 } }
[keys.ci]
sha256 = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"
tags = ["x", "y"]
[tenants.t]
may_say = { data-region = ["any", "eu"] }
"""
)


def shuffled(value: Any, draw: random.Random) -> Any:
    """The same document with every table's keys in another order."""
    if not isinstance(value, dict):
        return value
    keys = list(value)
    draw.shuffle(keys)
    return {key: shuffled(value[key], draw) for key in keys}


def same(one: Loaded, other: Loaded) -> bool:
    assert (one.canonical == other.canonical) == (one.policy == other.policy)
    return one.policy == other.policy


def test_it_is_sorted_json_and_the_digest_is_64_hex() -> None:
    found = loaded(FULL)
    document = json.loads(found.canonical)
    assert json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == found.canonical
    assert len(found.policy) == 64
    assert int(found.policy, 16)


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_keys_and_the_style_make_no_difference(seed: int) -> None:
    document = shuffled(tomllib.loads(FULL), random.Random(seed))
    assert same(loaded(FULL), loaded(toml(document)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\n# a comment\n\n"),
        ("\n", "\r\n"),
        ('model = "small"', 'id = "small"'),
        ("price = { input = 0.1, output = 0.6 }", "cost_per_mtok_out = 0.6\ncost_per_mtok_in = 0.10"),
        ("0.6", "6e-1"),
        ('region = "us"', "labels.region = 'us'"),
        ("[routes.chat]", "[server]\nhost = '0.0.0.0'\nport = 1\nshutdown_grace_secs = 1\n[routes.chat]"),
        ('targets = ["eu"]', 'targets = ["eu"]\nalgorithm = "ordered"\ndeadline_secs = 300\nordered = {}'),
        ('values = ["eu", "any"]', 'values = [" EU", "Any "]'),
        ('"any", "eu"]', '"eu", "any", "eu"]'),
        ('tags = ["x", "y"]', 'tags = ["y", "x"]'),
        ("always = true", 'always = true\nscope = "turn"'),
        ('kind = "openai_compatible"', 'kind = "openai_compatible"\ntimeout_secs = 120'),
        ("a9360d", "A9360D"),
        ("[telemetry]", ""),
    ],
)
def test_another_spelling_of_the_same_makes_no_difference(old: str, new: str) -> None:
    assert same(loaded(FULL), loaded(FULL.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('region = "us"', 'region = "uk"'),
        ('model = "small"', 'model = "smaller"'),
        ("0.6", "0.7"),
        ("always = true", "always = false"),
        ('"region"', '"tier"'),
        ('targets = ["eu"]', 'targets = ["us", "eu"]'),
        ('targets = ["eu"]', 'targets = ["eu"]\nmax_retries = 0'),
        ('tags = ["x", "y"]', 'tags = ["x"]'),
        ("a9360d", "b9360d"),
        ("vision = false", "vision = true"),
        ("b = 1", "b = 2"),
        ("9901", "9902"),
        ('header = "x-region"', 'header = "x-other"'),
        ("[tenants.t]", "[server]\nmax_body_bytes = 5\n[tenants.t]"),
        ("[tenants.t]", "[auth]\nmode = 'open'\n[tenants.t]"),
    ],
)
def test_another_meaning_does(old: str, new: str) -> None:
    assert FULL.count(old) >= 1
    assert not same(loaded(FULL), loaded(FULL.replace(old, new)))


def test_the_order_of_a_routes_targets_is_meaning() -> None:
    both = FULL.replace('targets = ["eu"]', 'targets = ["eu", "us"]')
    assert not same(loaded(both), loaded(both.replace('["eu", "us"]', '["us", "eu"]')))


def test_the_split_into_files_makes_no_difference(tmp_path: Path) -> None:
    before, after = FULL.split("[targets.us]")
    (tmp_path / "policy.toml").write_text(f"[targets.us]{after}")
    (tmp_path / "routes.toml").write_text(before)
    found = load([tmp_path / "policy.toml", tmp_path / "routes.toml"], registry(), ENV)
    assert same(loaded(FULL), found)


def test_the_plugins_distributions_and_versions_are_part_of_the_policy() -> None:
    found = loaded(FULL)

    def with_version(version: str) -> str:
        kinds = [Kind(one.kind.name, "narrows", version, one.kind.source) for one in found.blocks]
        blocks = [
            Registered(one.name, one.path, kind, one.block) for one, kind in zip(found.blocks, kinds, strict=True)
        ]
        return policy_digest(found.canonical, blocks)

    assert with_version("1") == with_version("1")
    assert len({with_version("1"), with_version("2"), found.policy}) == 3


def test_a_kind_that_no_block_names_is_no_part_of_it() -> None:
    more: dict[str, type[Block]] = {"constraints.another": KINDS["constraints.allowed_classes"]}
    assert same(loaded(FULL), loads(FULL, registry(more), ENV))


class Colour(StrEnum):
    RED = "red"


class Painted(Constraint[str]):
    colour: Annotated[Colour, Strict(False)]
    share: Annotated[Decimal, Strict(False)] = Decimal("0.10")
    names: frozenset[str] = frozenset()

    def demands(self, request: Request) -> Iterable[str]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


def test_options_of_every_type_are_written_the_same_in_every_run() -> None:
    more: dict[str, type[Block]] = {"constraints.painted": Painted}
    names = [f"n{number}" for number in range(20)]
    block = f"[constraints.p]\nkind = 'painted'\ncolour = 'red'\nnames = {names}\n"
    found = json.loads(loaded(BASE + block, more=more).canonical)["blocks"]["constraints.p"]["options"]
    assert (found["colour"], found["share"], found["names"]) == ("red", "0.10", sorted(names))


def test_no_hash_of_a_key_is_in_it() -> None:
    assert "a9360d07" not in loaded(FULL).canonical
