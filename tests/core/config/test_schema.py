"""The JSON Schema of the configuration: it never refuses what `check` accepts, and finds every misspelt key by itself."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, ConfigDict, SkipValidation

from narrows import Constraint, Exclusion, Problem, Request, Target
from narrows.cli import demo
from narrows.config import loads
from narrows.config.documented import described
from narrows.config.schema import Schema, schema_of
from narrows.config.tables import Document
from narrows.config.unbuilt import TABLE
from narrows.constraints import Block
from narrows.errors import ConfigError
from tests.core.cli.commands import ECHO, KEYS
from tests.core.config.support import BASE, CASES, ENV, registry
from tests.core.config.test_unknown_keys import _MARKED, EVERYTHING, MISSPELLINGS
from tests.support.config import toml

RIGHT = _MARKED.sub(r"\1", EVERYTHING)


@cache
def ours() -> Schema:
    """The schema with our own kinds, whatever is installed."""
    problems: list[Problem] = []
    schema = schema_of(registry(), problems)
    assert problems == []
    return schema


@cache
def validator() -> Draft202012Validator:
    """Of that schema."""
    return Draft202012Validator(ours())


def accepted(text: str) -> bool:
    return validator().is_valid(tomllib.loads(text))


def loads_it(text: str) -> bool:
    try:
        loads(text, registry(), ENV)
    except ConfigError:
        return False
    return True


def test_it_is_a_schema_of_the_year_2020() -> None:
    schema = ours()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert list(schema["properties"]) == list(Document.model_fields)


GOOD = {
    "every key": RIGHT,
    "the demo": (files("narrows.cli") / demo.FILE).read_text("utf-8"),
    "the smallest": BASE,
    "with keys": ECHO + KEYS,
    "only a policy": RIGHT[: RIGHT.index("[providers.acme]")],
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_check_accepts_is_accepted(text: str) -> None:
    assert loads_it(text) or text == GOOD["only a policy"], "a file of a policy needs the others to load"
    assert accepted(text)


def test_the_example_is_accepted_but_for_what_is_not_built() -> None:
    data = tomllib.loads((CASES / "narrows.example.toml").read_text("utf-8"))
    with pytest.raises(ConfigError) as caught:
        loads(toml(data), registry(), ENV)
    for problem in caught.value.problems:
        if problem.code == "not_built_yet":
            take_out(data, problem.path.split("."))
    assert [error.message for error in validator().iter_errors(data)] == []


def take_out(data: dict[str, Any], path: list[str]) -> None:
    """The key, or the whole block whose kind it is."""
    *outer, key = path[:-1] if path[-1] == "kind" else path
    table = data
    for part in outer:
        table = table.get(part, {})
    table.pop(key, None)


MARKS = list(_MARKED.finditer(EVERYTHING))


@pytest.mark.parametrize("mark", range(len(MARKS)), ids=[f"{number}-{mark[1]}" for number, mark in enumerate(MARKS)])
def test_each_key_misspelt_once_is_refused_by_both(mark: int) -> None:
    misspelt = MISSPELLINGS["an x within"](MARKS[mark][1])
    text = _MARKED.sub(r"\1", f"{EVERYTHING[: MARKS[mark].start()]}{misspelt}{EVERYTHING[MARKS[mark].end() :]}")
    assert not accepted(text)
    assert not loads_it(text)


VALUES: tuple[Any, ...] = ("eu", ["eu", "us"], [], True, 1, 0.5, {"eu": "eu"})


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    else:
        yield path


def test_no_value_that_check_accepts_is_refused() -> None:
    """Each value of the file replaced by others, of other types too: whatever loads is right in the editor as well."""
    data = tomllib.loads(RIGHT)
    loaded = refused = 0
    for path in leaves(data):
        for value in VALUES:
            changed = deepcopy(data)
            table = changed
            for part in path[:-1]:
                table = table[part]
            table[path[-1]] = value
            if loads_it(toml(changed)):
                loaded += 1
                assert validator().is_valid(changed), f"{path} = {value!r} loads"
            else:
                refused += not validator().is_valid(changed)
    assert loaded > 50
    assert refused > 200, "it finds most of what has the wrong type"


BAD = {
    "a word that is none": ('missing = "refuse"', 'missing = "refuze"'),
    "text for a number": ("port = 8000", 'port = "8000"'),
    "out of bounds": ("port = 8000", "port = 65536"),
    "no capability": ("vision = false", "visions = false"),
    "a kind that is not installed": ('kind = "allowed_classes"', 'kind = "allowed_clases"'),
    "an option of another kind": ('kind = "allowed_classes"', 'kind = "allowed_classes"\naccept = {}'),
    "a ranker that is not installed": ('algorithm = "ordered"', 'algorithm = "orderd"'),
    "no hash": ("a9360d07", "z9360d07"),
    "a list for a text": ('provider = "acme"\nmodel', 'provider = ["acme"]\nmodel'),
    "a missing key": ('values = ["eu", "any"], ', ""),
}


@pytest.mark.parametrize(("right", "wrong"), BAD.values(), ids=BAD)
def test_what_has_the_wrong_shape_is_refused_by_both(right: str, wrong: str) -> None:
    assert right in RIGHT
    text = RIGHT.replace(right, wrong, 1)
    assert not accepted(text)
    assert not loads_it(text)


def test_what_is_not_built_is_not_offered() -> None:
    for row in TABLE:
        if row.group or len(row.path) == 1:
            continue
        for table in tables(row.path[0]):
            offered = table["properties"].get(row.path[-1])
            if not row.planned:
                assert offered is None, row.path
            elif offered is not None:
                words = offered.get("enum", offered.get("items", {}).get("enum"))
                assert words, row.path
                assert not [word for word in words if word in row.planned and type(word) is type(row.planned[0])]


def tables(group: str) -> Iterator[Schema]:
    """Every table that may stand in that group."""
    schema = ours()
    value = schema["properties"][group]
    value = value.get("additionalProperties", value) or value
    for one in value.get("oneOf", [value]):
        if "$ref" in one:
            yield schema["$defs"][one["$ref"].removeprefix("#/$defs/")]


def test_every_key_says_what_it_means() -> None:
    schema = ours()
    silent = [
        f"{name}.{key}"
        for name, table in (("", schema), *schema["$defs"].items())
        for key, value in table.get("properties", {}).items()
        if not value.get("description") and "$ref" not in value
    ]
    assert silent == []


class Shift(BaseModel):
    """Hours of a day."""

    model_config = ConfigDict(extra="forbid")

    begins: int = 8
    """The first hour."""


class Hours(Constraint[str]):
    """Only targets of the team on duty."""

    team: Annotated[str, AfterValidator(str.strip)]
    """Which team."""
    shift: Shift = Shift()
    mode: Literal["strict", "lax"] | None = None

    def demands(self, request: Request) -> tuple[str, ...]:
        return (self.team,)

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


class Odd(Constraint[str]):
    """Has an option that no JSON Schema can say."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    when: SkipValidation[Odd | object] | None = None
    of: type | None = None

    def demands(self, request: Request) -> tuple[str, ...]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


def with_kinds(kinds: Mapping[str, type[Block]]) -> tuple[Schema, list[Problem]]:
    problems: list[Problem] = []
    return schema_of(registry(kinds), problems), problems


def valid_in(schema: Schema, text: str) -> bool:
    return Draft202012Validator(schema).is_valid(tomllib.loads(text))


@pytest.mark.parametrize(
    ("block", "valid"),
    [
        ('team = "a"', True),
        ('team = "a"\nshift = { begins = 9 }\nmode = "lax"\nalways = true', True),
        ("", False),
        ('taem = "a"', False),
        ('team = "a"\nshift = { begin = 9 }', False),
        ('team = "a"\nmode = "laxer"', False),
    ],
)
def test_a_third_partys_kind_is_completed_and_checked(block: str, valid: bool) -> None:
    found, problems = with_kinds({"constraints.hours": Hours})
    assert problems == []
    text = f'[constraints.duty]\nkind = "hours"\n{block}'
    assert valid_in(found, text) is valid
    assert not accepted(text), "not installed there"
    options = found["$defs"]["constraints.hours"]["properties"]
    assert options["team"]["description"] == "Which team."
    assert options["kind"] == {"const": "hours", "description": "Only targets of the team on duty."}


def test_a_kind_without_a_schema_stays_open_and_is_named() -> None:
    found, problems = with_kinds({"constraints.odd": Odd})
    assert [(problem.code, "'constraints.odd'" in problem.message) for problem in problems] == [("bad_plugin", True)]
    assert valid_in(found, '[constraints.x]\nkind = "odd"\nwhatever = 1')
    assert not valid_in(found, '[constraints.x]\nkind = "cost_ceiling"\nwhatever = 1')


def test_texts_below_fields_are_read_in_all_bases_and_field_wins() -> None:
    found = described(Hours)
    assert found["team"] == "Which team."
    assert found["always"] == "On every route, also on those that somebody adds tomorrow."
    assert "mode" not in found
    assert described(type("Made", (Hours,), {"__module__": __name__}))["team"] == "Which team."
