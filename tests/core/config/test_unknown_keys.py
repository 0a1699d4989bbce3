"""Every key that can be written, misspelt once, all in one file: each is found in one run, with path, line, suggestion."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

import pytest

from narrows.config.fields import known_keys
from narrows.config.tables import Document
from narrows.config.values import CAPABILITIES
from narrows.config.words import listed, nearest
from tests.core.config.support import BASE, KINDS, brief, line_of, loaded, only, refused
from tests.core.config.test_places import paths

# Keys of the schema stand in ⟨ ⟩; all others are names that the file's author gives.
EVERYTHING = """
⟨attributes⟩.data-region = { ⟨values⟩ = ["eu", "any"], ⟨sources⟩ = ["header"], ⟨header⟩ = "x-region", ⟨missing⟩ = "refuse" }

[⟨constraints⟩.residency]
⟨kind⟩ = "attribute_match"
⟨request_attribute⟩ = "data-region"
⟨target_attribute⟩ = "region"
⟨accept⟩ = { eu = ["eu"], any = "*" }
⟨scope⟩ = "turn"
⟨always⟩ = true
⟨enforce⟩ = true
⟨waivable⟩ = false

[⟨constraints⟩.price-cap]
⟨kind⟩ = "cost_ceiling"
⟨max_cost_per_mtok_out⟩ = 100
⟨by⟩ = { "tag.intern" = 10 }

[⟨constraints⟩.input-cap]
⟨kind⟩ = "cost_ceiling"
⟨max_cost_per_mtok_in⟩ = 100

[⟨constraints⟩.request-cap]
⟨kind⟩ = "cost_ceiling"
⟨max_cost_per_request⟩ = 1

[⟨constraints⟩."private only"]
⟨kind⟩ = "allowed_classes"
⟨classes⟩ = ["private"]

[⟨providers⟩.acme]
⟨kind⟩ = "openai_compatible"
⟨base_url⟩ = "http://127.0.0.1:9901/v1"
⟨api_key_env⟩ = "ACME_API_KEY"
⟨timeout_secs⟩ = 120
⟨max_retries⟩ = 1
⟨max_connections⟩ = 10
⟨proxy⟩ = "http://127.0.0.1:3128"
⟨headers⟩ = { x-title = "narrows" }

[⟨providers⟩.echo]
⟨kind⟩ = "echo"
⟨fail⟩ = "rate_limited"
⟨fail_times⟩ = 1
⟨delay_secs⟩ = 0
⟨chunk_delay_secs⟩ = 0

[⟨sinks⟩.ledger]
⟨kind⟩ = "sql"
⟨url⟩ = "sqlite:///narrows.db"
⟨queue⟩ = 100

[⟨targets⟩.large]
⟨provider⟩ = "acme"
⟨model⟩ = "large-2"
⟨region⟩ = "eu"
⟨processing_region⟩ = ["eu", "ch"]
⟨jurisdiction⟩ = "eu"
⟨class⟩ = "private"
⟨zero_retention⟩ = true
⟨no_training⟩ = true
⟨output_uses⟩ = ["internal"]
⟨tier⟩ = "frontier"
⟨labels⟩ = { quantisation = "fp8" }
⟨context_window⟩ = 128_000
⟨max_output_tokens⟩ = 4_096
⟨extra_body⟩ = { whatever = { the = ["vendor"] } }
⟨capabilities⟩ = { ⟨tools⟩ = true, ⟨vision⟩ = false, "⟨json_schema⟩" = true, "server_tool.web_search" = true }

[⟨targets⟩.large.⟨price⟩]
⟨input⟩ = 1.0
⟨output⟩ = 8.0
⟨cached_input⟩ = 0.1
⟨cache_write⟩ = 2

[⟨targets⟩.small]
⟨provider⟩ = "acme"
⟨id⟩ = "small-1"
⟨class⟩ = "private"
⟨region⟩ = "eu"
⟨cost_per_mtok_in⟩ = 0.1
⟨cost_per_mtok_out⟩ = 0.6

[⟨routes⟩.chat]
⟨targets⟩ = ["large", "small"]
⟨constraints⟩ = ["residency", "price-cap"]
⟨algorithm⟩ = "ordered"
⟨failover_on⟩ = ["timeout"]
⟨deadline_secs⟩ = 300
⟨max_retries⟩ = 0
⟨ordered⟩ = {}

[⟨tenants⟩.payments]
⟨attributes⟩ = { data-region = "eu" }
⟨may_say⟩ = { data-region = ["any"] }

[⟨keys⟩.ci]
⟨sha256⟩ = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"
⟨tenant⟩ = "payments"
⟨routes⟩ = ["chat"]
⟨targets⟩ = ["large"]
⟨providers⟩ = ["acme"]
⟨tags⟩ = ["intern"]
⟨attributes⟩.data-region = "eu"
⟨may_say⟩.data-region = ["any"]

[⟨server⟩]
⟨host⟩ = "127.0.0.1"
⟨port⟩ = 8000
⟨shutdown_grace_secs⟩ = 30
⟨max_body_bytes⟩ = 20_000_000
⟨metrics_key_sha256⟩ = "b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1"

[⟨auth⟩]
⟨mode⟩ = "keys"
⟨may_say⟩ = { data-region = "any" }

[⟨telemetry⟩]
⟨detail⟩ = "request"
⟨exporter⟩ = "none"

[⟨hooks⟩]
⟨deadline_secs⟩ = 5
⟨slow_secs⟩ = 0.05
"""
_MARKED = re.compile("⟨(.*?)⟩")

FIRST = 2  # the line of attributes, which has no header
MISSPELLINGS: dict[str, Callable[[str], str]] = {
    "a letter lost": lambda word: word[0] + word[2:],
    "first two swapped": lambda word: word[1] + word[0] + word[2:] if len(word) > 2 else word + word[-1],
    "a letter doubled": lambda word: word[: len(word) // 2] + word[len(word) // 2 - 1 :],
    "an x within": lambda word: word[: len(word) // 2] + "x" + word[len(word) // 2 :],
}


def test_the_file_is_right_before_it_is_misspelt() -> None:
    assert loaded(_MARKED.sub(r"\1", EVERYTHING)).settings.routes["chat"].targets == ("large", "small")


@pytest.mark.parametrize("misspelt", MISSPELLINGS.values(), ids=MISSPELLINGS)
def test_every_key_misspelt_is_found_in_one_run(misspelt: Callable[[str], str]) -> None:
    text = _MARKED.sub(lambda match: misspelt(match[1]), EVERYTHING)
    meant = {misspelt(word): word for word in _MARKED.findall(EVERYTHING)}
    assert not set(meant) & set(meant.values()), "no misspelt key is another one spelt right"
    expected = {
        (".".join(map(str, path)), meant[str(path[-1])]) for path in paths(tomllib.loads(text)) if path[-1] in meant
    }

    problems = refused(text)

    assert {one.code for one in problems} == {"unknown_key"}, "\n".join(map(str, problems))
    assert sorted((one.path, one.suggestion) for one in problems) == sorted(expected)
    assert [(one.line, one.path.split(".")[-1]) for one in problems] == occurrences(misspelt)
    assert len(problems) > 90


def occurrences(misspelt: Callable[[str], str]) -> list[tuple[int, str]]:
    """Line and misspelt word of each marked key; of a table that has several headers the first."""
    found: dict[tuple[int, str], None] = {}
    groups: set[str] = set()
    for number, line in enumerate(EVERYTHING.splitlines(), 1):
        group = re.match(r"\[?⟨(.*?)⟩[.\]]", line) if line.startswith("[") or number == FIRST else None
        for word in _MARKED.findall(line):
            if group is not None and word == group[1]:
                if word in groups:
                    continue
                groups.add(word)
            found[number, misspelt(word)] = None
    return list(found)


def test_the_file_above_holds_every_key_that_there_is() -> None:
    """So a key that is added one day is misspelt here too."""
    words = set(_MARKED.findall(EVERYTHING))
    tables = [(name,) for name in known_keys(Document, ())] + [(name, "x") for name in known_keys(Document, ())]
    keys = {key for table in ((), *tables, ("targets", "x", "price")) for key in known_keys(Document, table)}
    assert keys - words == {"authenticators", "plugins"}, "these have no built-in kind that a file may name"
    options = {
        key
        for kind in KINDS
        if kind.split(".")[0] in ("constraints", "providers", "sinks")
        for key in option_names(kind)
    }
    assert options - words == {"sticks", "thresholds"}, "one is not built, one is the core's own"


def option_names(kind: str) -> tuple[str, ...]:
    return known_keys(KINDS[kind], ())


def test_a_key_beside_its_misspelling_is_said_to_be_unknown_and_nothing_more() -> None:
    problem = only(refused(BASE.replace('region = "eu"', 'region = "eu"\nregoin = "us"')))
    assert (problem.code, problem.path, problem.line, problem.suggestion) == (
        "unknown_key",
        "targets.eu.regoin",
        10,
        "region",
    )


def test_a_table_beside_its_misspelling_is_read_with_it() -> None:
    text = BASE + '[tragets.us]\nprovider = "acme"\nmodel = "m"\nregoin = "us"\n'
    assert brief(refused(text)) == [
        ("unknown_key", "tragets", line_of(text, "[tragets.us]")),
        ("unknown_key", "tragets.us.regoin", line_of(text, "regoin")),
    ]


def test_a_key_that_is_near_nothing_has_no_suggestion_and_the_known_ones_as_remedy() -> None:
    problem = only(refused(BASE + "[hooks]\nzzzzz = 1\n"))
    assert problem.suggestion is None
    assert problem.remedy == "Take it out; known here: deadline_secs, slow_secs."


def test_another_style_of_word_is_a_misspelling() -> None:
    problem = only(refused(BASE + "[server]\nMax-Body-Bytes = 1\n"))
    assert problem.suggestion == "max_body_bytes"


def test_a_misspelt_part_that_is_not_built_is_named() -> None:
    problem = only(refused(BASE + "[[guarantes]]\nname = 'x'\n"))
    assert (problem.code, problem.path, problem.suggestion) == ("unknown_key", "guarantes", "guarantees")


def test_a_capability_that_no_request_needs_would_never_exclude() -> None:
    problem = only(refused(BASE.replace('region = "eu"', "capabilities = { toolz = false }")))
    assert (problem.code, problem.path, problem.suggestion) == ("unknown_key", "targets.eu.capabilities.toolz", "tools")
    assert "audio" in CAPABILITIES


def test_what_is_written_already_is_suggested_last() -> None:
    assert nearest("modl", ["mode", "model"]) == "model"
    assert nearest("mod", ["mode", "model"], {"mode"}) == "model"
    assert nearest("mode", ["model"], {"model"}) == "model"
    assert nearest("x", []) is None


def test_many_words_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
