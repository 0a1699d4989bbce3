"""What a later part brings is refused by name; what nobody plans is a mistake. One table holds both lists."""

from __future__ import annotations

import pytest

from narrows import Block
from narrows.config.unbuilt import ANY, TABLE, planned_keys, planned_words
from tests.core.config.support import (
    BASE,
    CASES,
    KINDS,
    brief,
    line_of,
    loaded,
    only,
    refused,
    refused_files,
)

RULE = "[constraints.c]\nkind = 'allowed_classes'\nclasses = ['private']\n"
PRIVATE = BASE.replace('region = "eu"', "class = 'private'")


@pytest.mark.parametrize(
    ("more", "path", "part"),
    [
        *((RULE + f"scope = '{scope}'", "constraints.c.scope", "sessions") for scope in ("session", "content")),
        (RULE + "sticks = ['eu']", "constraints.c.sticks", "sessions"),
        (RULE + "exempt = ['*.txt']", "constraints.c.exempt", "sessions"),
        (RULE + "pieces = ['tool']", "constraints.c.pieces", "sessions"),
        (RULE + "enforce = false", "constraints.c.enforce", "shadow"),
        (RULE + "waivable = true", "constraints.c.waivable", "waivers"),
        *(
            (f"[constraints.c]\nkind = '{kind}'\nanything = 1", "constraints.c.kind", "rules")
            for kind in ("data_handling", "output_licence", "expression")
        ),
        ("[[guarantees]]\nname = 'x'", "guarantees", "guarantees"),
        ("[[examples]]\nname = 'x'", "examples", "guarantees"),
        ("[attributes.a]\nvalues = ['x']\n[[attributes.a.content]]\ndetector = 'iban'", "attributes.a.content", "text"),
        *(
            (f"[attributes.a]\nvalues = ['x']\nsources = ['header', '{source}']", "attributes.a.sources", "text")
            for source in ("constant", "host", "content")
        ),
        *(
            (f"[routes.x]\ntargets = ['eu']\nalgorithm = '{word}'\n[routes.x.{word}]\nn = 1", "routes.x.algorithm", "rank")
            for word in ("fastest", "sticky", "stage", "escalation", "classifier", "tiered")
        ),
        ("[routes.x]\ntargets = ['eu']\nunknown_history = 'floor'", "routes.x.unknown_history", "sessions"),
        ("[targets.y]\nprovider = 'acme'\nmodel = 'm'\nmax_in_flight = 4", "targets.y.max_in_flight", "limits"),
        *(
            (f"[providers.p]\nkind = '{kind}'\nregion = 'x'", "providers.p.kind", "vendors")
            for kind in ("openai", "azure_openai", "anthropic", "gemini", "bedrock", "openrouter")
        ),
        ("[state]\nurl = 'memory:'", "state", "sessions"),
        ("[operators.alice]\nroles = ['observe']", "operators", "operators"),
    ],
)  # fmt: skip
def test_each_later_part_is_refused_and_named(more: str, path: str, part: str) -> None:
    text = PRIVATE + more
    problem = only(refused(text))
    assert (problem.code, problem.path) == ("not_built_yet", path)
    assert problem.line is not None
    assert path.rsplit(".", 1)[-1] in text.splitlines()[problem.line - 1]
    assert "not built yet" in problem.message
    assert part in problem.message
    assert problem.remedy


@pytest.mark.parametrize(
    "more",
    [
        RULE + "scope = 'turn'\nenforce = true\nwaivable = false",
        "[telemetry]\nexporter = 'none'\ndetail = 'request'",
        "[telemetry]\nexporter = 'otlp'\ndetail = 'plugins'",
        "[routes.x]\ntargets = ['eu']\nalgorithm = 'ordered'",
        "[attributes.a]\nvalues = ['x']\nsources = ['header', 'metadata', 'key', 'tenant']",
    ],
)
def test_what_is_built_may_be_said(more: str) -> None:
    loaded(PRIVATE + more)


@pytest.mark.parametrize(
    ("more", "code", "path", "suggestion"),
    [
        (RULE + "scope = 'conversation'", "wrong_type", "constraints.c.scope", None),
        (RULE + "enforce = 'false'", "wrong_type", "constraints.c.enforce", None),
        (RULE + "waivable = 1", "wrong_type", "constraints.c.waivable", None),
        ("[constraints.c]\nkind = 'data_handlin'", "unknown_kind", "constraints.c.kind", "data_handling"),
        ("[constraints.c]\nkind = 'magic'", "unknown_kind", "constraints.c.kind", None),
        ("[providers.p]\nkind = 'openay'", "unknown_kind", "providers.p.kind", "openai"),
        ("[sinks.s]\nkind = 'csv'", "unknown_kind", "sinks.s.kind", None),
        ("[routes.x]\ntargets = ['eu']\nalgorithm = 'fastets'", "unknown_kind", "routes.x.algorithm", "fastest"),
        ("[telemetry]\nexporter = 'prometheus'", "wrong_type", "telemetry.exporter", None),
        ("[attributes.a]\nvalues = ['x']\nsources = ['cookie']", "wrong_type", "attributes.a.sources", None),
        ("[budgets.b]\nday = 1", "unknown_key", "budgets", None),
    ],
)
def test_what_nobody_plans_is_a_mistake(more: str, code: str, path: str, suggestion: str | None) -> None:
    problem = only(refused(PRIVATE + more))
    assert (problem.code, problem.path, problem.suggestion) == (code, path, suggestion)


def test_an_unknown_kind_lists_those_that_are_available() -> None:
    problem = only(refused(PRIVATE + "[constraints.c]\nkind = 'magic'"))
    assert "allowed_classes, attribute_match" in problem.message


def test_a_kind_that_somebody_brings_is_built() -> None:
    """A third party may be ahead of us: its kind of a planned name is used."""
    more: dict[str, type[Block]] = {"rankers.fastest": KINDS["rankers.ordered"]}
    found = loaded(PRIVATE + "[routes.x]\ntargets = ['eu']\nalgorithm = 'fastest'", more=more)
    assert found.settings.routes["x"].algorithm == "fastest"


def test_a_name_of_a_block_that_is_not_built_is_still_a_name() -> None:
    """One problem, not a second one about the route that names it."""
    text = PRIVATE.replace('targets = ["eu"]', "targets = ['eu']\nconstraints = ['licence']")
    problem = only(refused(text + "[constraints.licence]\nkind = 'output_licence'"))
    assert problem.path == "constraints.licence.kind"


def test_the_table_is_asked_by_place() -> None:
    assert planned_words("telemetry", "exporter") == ()
    assert "fastest" in planned_words("routes", ANY, "algorithm")
    assert planned_words("targets", ANY, "max_in_flight") == ()
    assert planned_keys(()) == ("guarantees", "examples", "state", "operators")
    assert planned_keys(("constraints", "x")) == ("sticks", "exempt", "pieces")
    assert not any(set(row.planned) & set(row.built) for row in TABLE)


# ---- the two files that the project was given -----------------------------------------------------------------------


def test_the_sketch_loads_but_for_its_ranker() -> None:
    path = CASES / "seed-sketch.toml"
    text = path.read_text("utf-8")
    assert brief(refused_files(path)) == [("not_built_yet", "routes.agent.algorithm", line_of(text, "algorithm"))]
    found = loaded(text.replace("escalation", "ordered"))
    assert [target.price.output for target in found.settings.targets.values()] == [
        80_000_000,
        90_000_000,
        140_000_000,
        0,
    ]
    assert found.settings.routes["agent"].constraints == ("budget", "residency")


def test_the_example_loads_but_for_the_parts_that_are_later() -> None:
    path = CASES / "narrows.example.toml"
    problems = refused_files(path)
    assert {one.code for one in problems} == {"not_built_yet"}
    assert [one.path for one in problems] == [
        "attributes.data-region.content",
        "constraints.residency.scope",
        "constraints.residency.sticks",
        "constraints.handling.kind",
        "constraints.licence.kind",
        "constraints.quantisation.enforce",
        "guarantees",
        "examples",
        "targets.eu-large.max_in_flight",
        "operators",
        "state",
    ]


def test_the_example_without_them_loads() -> None:
    later = ("scope", "sticks", "enforce", "max_in_flight")
    tables = ("[[", "[constraints.handling]", "[constraints.licence]", "[operators", "[sinks", "[state]")
    kept: list[str] = []
    skipping = False
    for line in (CASES / "narrows.example.toml").read_text("utf-8").splitlines():
        skipping = line.startswith(tables) if line.startswith("[") else skipping
        if not skipping and not line.startswith(later):
            kept.append(line.replace(', "handling", "licence"', ""))
    found = loaded("\n".join(kept))
    assert found.settings.attributes["data-region"].header == "x-region"
    assert found.settings.keys["batch"].may_say == {"data-region": {"any"}}
    assert found.settings.tenants["payments"].attributes == {"data-region": {"eu"}}
    assert found.settings.targets["us-small"].labels == {
        "region": "us-east",
        "jurisdiction": "us",
        "quantisation": "bf16",
    }
