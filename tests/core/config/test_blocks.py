"""Blocks: which there are and in which order; a plugin's own option errors come out the same way as ours."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from narrows import Block, ConfigError, Constraint, Exclusion, Ranker, Request, Target, hookimpl
from narrows.config import loads
from narrows.config.fields import known_keys
from narrows.registry import Kind, Registry
from tests.core.config.support import BASE, ENV, KINDS, brief, line_of, loaded, only, refused, registry

HASH = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"
OTHER = "91db1e49a07dcab0cc93eddd6d20a5e49c36c2040fe9155a5b8e805bff3c1541"


class Hours(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    opens: int
    closes: Annotated[int, Field(le=24)] = 24
    days: tuple[Literal["mon", "tue"], ...] = ()


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str


class Shop(Constraint[str]):
    """A third party's kind, with options of every shape."""

    weekday: Hours
    named: dict[str, Hours] = Field(default_factory=dict)
    listed: tuple[Hours, ...] = ()
    noted: dict[str, Annotated[Hours, "a note"]] = Field(default_factory=dict)
    either: Hours | Closed | None = None
    spelt: int = Field(default=0, validation_alias=AliasChoices("spelt", "spelled"))
    short: int | str | tuple[str, ...] = 0

    @field_validator("spelt")
    @classmethod
    def _even(cls, spelt: int) -> int:
        if spelt % 2:
            raise ValueError(f"it is odd, as {'x' * 60} says; write an even number")
        if spelt == 100:
            raise RuntimeError("100")
        return spelt

    def demands(self, request: Request) -> Iterable[str]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


class Half(Constraint[str]):
    def demands(self, request: Request) -> Iterable[str]:
        return ()


class Judge(Ranker):
    judge: str

    def judges(self) -> tuple[str, ...]:
        return (self.judge,)

    def rank(self, request: Request, candidates: object, consult: object) -> None:
        return None


class Alarm(Block):
    where: str

    @hookimpl
    def authorize(self, request: Request) -> None:
        return None


MORE: dict[str, type[Block]] = {
    "constraints.shop": Shop,
    "constraints.half": Half,
    "rankers.judge": Judge,
    "plugins.alarm": Alarm,
}


def shop(options: str) -> str:
    return BASE + "[constraints.open]\nkind = 'shop'\n" + options


# ---- which blocks there are ----------------------------------------------------------------------------------------


def test_the_blocks_and_their_order() -> None:
    text = f"""
[plugins.bell]
kind = "alarm"
where = "door"
[constraints.b]
kind = "attribute_match"
request_attribute = "x"
target_attribute = "region"
[constraints.a]
kind = "cost_ceiling"
max_cost_per_mtok_out = 1
[providers.echo]
kind = "echo"
{BASE}
[routes."gpt-4.1"]
targets = ["eu"]
algorithm = "judge"
judge = {{ judge = "eu" }}
[keys.ci]
sha256 = "{HASH}"
[keys.none]
tags = ["x"]
"""
    found = loaded(text, more=MORE).blocks
    assert [(entry.path, entry.name, entry.kind.name) for entry in found] == [
        ("constraints.b", "b", "constraints.attribute_match"),
        ("constraints.a", "a", "constraints.cost_ceiling"),
        ("constraints.capability", "capability", "constraints.capability"),
        ("constraints.context_window", "context_window", "constraints.context_window"),
        ("providers.echo", "echo", "providers.echo"),
        ("providers.acme", "acme", "providers.openai_compatible"),
        ("routes.chat.ordered", "ordered", "rankers.ordered"),
        ("routes.gpt-4.1.judge", "judge", "rankers.judge"),
        ("authenticators.keys", "keys", "authenticators.keys"),
        ("plugins.bell", "bell", "plugins.alarm"),
        ("plugins.error_classes", "error_classes", "plugins.error_classes"),
    ]
    assert options(text, "authenticators.keys") == {"sha256": {"ci": HASH}}
    hosted = [entry.path for entry in loaded(text + '[auth]\nmode = "host"\n', more=MORE).blocks]
    assert "authenticators.host" in hosted
    assert "authenticators.keys" not in hosted  # there the credentials are the host's own


def options(text: str, path: str) -> dict[str, Any]:
    (entry,) = (entry for entry in loaded(text, more=MORE).blocks if entry.path == path)
    return entry.block.model_dump()


def test_the_windows_are_the_thresholds() -> None:
    windows = "".join(
        f"[targets.t{tokens}{again}]\nprovider = 'acme'\nmodel = 'm'\ncontext_window = {tokens}\n"
        for tokens, again in ((9000, ""), (100, ""), (9000, "b"))
    )
    assert options(BASE + windows, "constraints.context_window")["thresholds"] == (100, 9000)


def test_without_keys_and_host_nobody_is_recognised() -> None:
    assert not [entry for entry in loaded(BASE).blocks if entry.path.startswith("authenticators")]


@pytest.mark.parametrize(
    "name", ["capability", "context_window", "override", "continuation", "health", "saturation", "grants", "money"]
)
def test_names_of_the_core_are_reserved(name: str) -> None:
    text = BASE + f"[constraints.{name}]\nkind = 'allowed_classes'\nclasses = ['x']\n"
    problem = only(refused(text))
    assert (problem.code, problem.path) == ("reserved_name", f"constraints.{name}")
    assert problem.line == line_of(text, "[constraints")


@pytest.mark.parametrize("path", ["plugins.error_classes", "authenticators.keys", "authenticators.host"])
def test_other_names_of_the_core_too(path: str) -> None:
    text = BASE + f"[{path}]\nkind = '{path.split('.')[1]}'\n" + ("sha256 = {}" if path.endswith("keys") else "")
    assert only(refused(text)).code == "reserved_name"


def test_a_rule_of_the_core_need_not_be_listed() -> None:
    problem = only(refused(BASE + "constraints = ['capability']"))
    assert (problem.code, problem.path) == ("reserved_name", "routes.chat.constraints")


def test_a_built_in_kind_that_is_not_installed_is_no_silence() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(BASE, registry(without="constraints.capability"), ENV)
    problem = only(list(caught.value.problems))
    assert (problem.code, problem.path) == ("unknown_kind", "constraints.capability")


# ---- a plugin's own options ----------------------------------------------------------------------------------------


def test_a_third_partys_options_are_read_strictly() -> None:
    found = options(
        shop(
            "spelled = 2\nweekday = { opens = 8, days = ['mon'] }\neither = { reason = 'x' }\n"
            "short = ['a']\n[[constraints.open.listed]]\nopens = 1"
        ),
        "constraints.open",
    )
    assert (found["spelt"], found["short"], found["weekday"]["days"]) == (2, ("a",), ("mon",))


@pytest.mark.parametrize(
    ("line", "code", "path", "suggestion"),
    [
        ("weekdy = { opens = 1 }", "unknown_key", "weekdy", "weekday"),
        ("weekday = { opns = 1 }", "unknown_key", "weekday.opns", "opens"),
        ("weekday = { opens = '8' }", "wrong_type", "weekday.opens", None),
        ("weekday = { opens = 8, days = ['mno'] }", "wrong_type", "weekday.days", "mon"),
        ("weekday = { opens = 8, closes = 25 }", "wrong_type", "weekday.closes", None),
        ("weekday = { closes = 8 }", "missing_key", "weekday.opens", None),
        ("weekday = { opens = 8 }\nnamed = { x = { opens = 1, close = 2 } }", "unknown_key", "named.x.close", "closes"),
        (
            "weekday = { opens = 8 }\nlisted = [{ opens = 1 }, { opens = 1, dais = [] }]",
            "unknown_key",
            "listed.1.dais",
            "days",
        ),
        ("weekday = { opens = 8 }\nspelled = 1", "wrong_type", "spelled", None),
        ("weekday = { opens = 8 }\nspeled = 2", "unknown_key", "speled", "spelled"),
        ("weekday = { opens = 8 }\nshort = [1]", "wrong_type", "short", None),
        ("weekday = { opens = 8 }\nshort = {}", "wrong_type", "short", None),
        ("weekday = { opens = 8 }\neither = 1", "wrong_type", "either", None),
        ("weekday = { opens = 8 }\ncolour = 'red'", "unknown_key", "colour", None),
    ],
)
def test_a_plugins_own_option_errors(line: str, code: str, path: str, suggestion: str | None) -> None:
    text = shop(line)
    problem = only(refused(text, more=MORE))
    assert (problem.code, problem.path, problem.suggestion) == (code, f"constraints.open.{path}", suggestion)
    assert problem.line == line_of(text, line.splitlines()[-1])


def test_a_members_unknown_key_in_a_union_is_said_once() -> None:
    problems = refused(shop("weekday = { opens = 8 }\neither = { reson = 'x' }"), more=MORE)
    assert ("unknown_key", "constraints.open.either.reson", 16) in brief(problems)
    assert len(problems) == 1


def test_several_types_are_said_together() -> None:
    problem = only(refused(shop("weekday = { opens = 8 }\nshort = {}"), more=MORE))
    assert problem.message == "'short' must be a whole number or text, in quotes or a list, not a table."


def test_a_validators_text_is_shown_and_a_long_value_is_not() -> None:
    class Echoes(Shop):
        word: str = ""

        @field_validator("word")
        @classmethod
        def _no(cls, word: str) -> str:
            raise ValueError(f"{word} is no word; write another")

    kinds: dict[str, type[Block]] = {**MORE, "constraints.shop": Echoes}
    long = only(refused(shop("weekday = { opens = 8 }\nword = '" + "long and boring " * 5 + "'"), more=kinds))
    assert long.message == "'word': … is no word; write another."
    short = only(refused(shop("weekday = { opens = 8 }\nword = 'dog'"), more=kinds))
    assert short.message == "'word': dog is no word; write another."


def test_a_validator_that_raises_what_it_may_not_is_the_plugins_fault() -> None:
    problem = only(refused(shop("weekday = { opens = 8 }\nspelt = 100"), more=MORE))
    assert (problem.code, problem.path, problem.line) == ("bad_plugin", "constraints.open", 13)
    assert "RuntimeError" in problem.message


def test_a_kind_without_its_methods_is_the_plugins_fault() -> None:
    problem = only(refused(BASE + "[constraints.h]\nkind = 'half'", more=MORE))
    assert (problem.code, problem.path) == ("bad_plugin", "constraints.h")
    assert "excludes" in problem.message


def test_a_kind_that_cannot_be_imported_names_the_block() -> None:
    kinds = registry()
    point = EntryPoint("constraints.gone", "narrows_of_nobody:Gone", "narrows")
    kinds._kinds["constraints.gone"] = Kind("constraints.gone", "gone-dist", "1", point)
    with pytest.raises(ConfigError) as caught:
        loads(BASE + "[constraints.g]\nkind = 'gone'", kinds, ENV)
    problem = only(list(caught.value.problems))
    assert (problem.code, problem.path, problem.line) == ("bad_plugin", "constraints.g", 13)
    assert "gone-dist" in problem.message


def test_a_kind_that_no_block_names_is_not_imported() -> None:
    kinds = registry()
    point = EntryPoint("constraints.gone", "narrows_of_nobody:Gone", "narrows")
    kinds._kinds["constraints.gone"] = Kind("constraints.gone", "gone-dist", "1", point)
    assert loads(BASE, kinds, ENV).policy


def test_a_free_plugin_and_its_options() -> None:
    problem = only(refused(BASE + "[plugins.bell]\nkind = 'alarm'\nwere = 'door'", more=MORE))
    assert (problem.code, problem.path, problem.suggestion) == ("unknown_key", "plugins.bell.were", "where")


def test_a_misspelt_kind_key_does_not_hide_the_options() -> None:
    text = BASE + "[plugins.bell]\nkidn = 'alarm'\nwere = 'door'"
    assert brief(refused(text, more=MORE)) == [
        ("unknown_key", "plugins.bell.kidn", 14),
        ("unknown_key", "plugins.bell.were", 15),
    ]


def test_a_misspelt_kind_key_of_an_unknown_kind() -> None:
    assert brief(refused(BASE + "[plugins.bell]\nkidn = 'alrm'", more=MORE)) == [
        ("unknown_key", "plugins.bell.kidn", 14),
        ("unknown_kind", "plugins.bell.kidn", 14),
    ]


# ---- rankers -------------------------------------------------------------------------------------------------------


def test_a_rankers_options_stand_in_the_table_of_its_name() -> None:
    text = BASE + "algorithm = 'judge'\n[routes.chat.judge]\njudge = 'eu'"
    assert options(text, "routes.chat.judge") == {"judge": "eu"}


@pytest.mark.parametrize(
    ("more", "code", "path", "suggestion"),
    [
        ("algorithm = 'judge'\n[routes.chat.judge]\njuge = 'eu'", "unknown_key", "judge.juge", "judge"),
        ("algorithm = 'judge'\n[routes.chat.judge]\njudge = 1", "wrong_type", "judge.judge", None),
        ("algorithm = 'judge'", "missing_key", "judge.judge", None),
        ("algorithm = 'judge'\n[routes.chat.judge]\njudge = 'uu'", "unknown_reference", "judge", "eu"),
        ("[routes.chat.ordered]\nx = 1", "unknown_key", "ordered.x", None),
        ("[routes.chat.judge]\njudge = 'eu'", "contradiction", "judge", None),
        ("[routes.chat.fastest]\nx = 1", "contradiction", "fastest", None),
        ("algorithm = 'juge'", "unknown_kind", "algorithm", "judge"),
    ],
)
def test_what_is_wrong_with_a_ranker(more: str, code: str, path: str, suggestion: str | None) -> None:
    problem = only(refused(BASE + more, more=MORE))
    assert (problem.code, problem.path, problem.suggestion) == (code, f"routes.chat.{path}", suggestion)


# ---- what a model knows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ((), "scope"),
        (("weekday",), "opens"),
        (("named", "x"), "opens"),
        (("listed", 3), "opens"),
        (("either",), "opens"),
        (("short",), None),
        (("weekday", "opens"), None),
        (("weekday", "opens", "x"), None),
        (("noted", "x"), "opens"),
        (("nothing", "at", "all"), None),
    ],
)
def test_the_keys_that_a_model_knows(path: tuple[str | int, ...], first: str | None) -> None:
    found = known_keys(Shop, path)
    assert (found[0] if found else None) == first
    if path == ():
        assert {"spelt", "spelled"} < set(found)
    if path == ("either",):
        assert found[-1] == "reason"


def test_kinds_of_these_tests_stand_beside_ours() -> None:
    assert isinstance(registry(MORE), Registry)
    assert set(KINDS).isdisjoint(MORE)
