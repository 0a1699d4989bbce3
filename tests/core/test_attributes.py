"""What requests say of themselves: every source adds, and every spelling means the same or is refused.

Who may say what, and what silence means, is asked through the gateway: tests/properties/test_who_may_say.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Denial
from narrows.attributes import Attribute, Reader, effective, folded
from narrows.types import Json

VALUES = frozenset({"eu", "us", "any"})
EVERYWHERE = frozenset({"header", "metadata", "key", "tenant"})
REGION = Attribute("data-region", VALUES, "x-region", EVERYWHERE)
USE = Attribute("Output_Use", frozenset({"internal"}), "output_use", EVERYWHERE, "unrestricted")
TIER = Attribute("x-tier", None, "x-tier", frozenset({"header"}), "unrestricted")
READER = Reader([REGION, USE, TIER])

Headers = Sequence[tuple[str, str]]


def read(
    *headers: tuple[str, str], metadata: Mapping[str, Json] | None = None, reader: Reader = READER, **bound: list[str]
) -> dict[str, set[str]] | Denial:
    """What is said, by attribute; `bound`: source -> values of data-region."""
    fixed = {"data-region": {source: frozenset(values) for source, values in bound.items()}} if bound else {}
    said = reader.read(headers, metadata, fixed)
    return said if isinstance(said, Denial) else {name: set(values) for name, values in effective(said).items()}


def refused(answer: dict[str, set[str]] | Denial) -> tuple[str, str | None]:
    assert isinstance(answer, Denial), answer
    return answer.code, answer.param


# ---- headers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("eu", {"eu"}),
        ("EU", {"eu"}),
        ("  eu\t", {"eu"}),
        ("eu,us", {"eu", "us"}),
        ("eu , US", {"eu", "us"}),
        ("eu,eu", {"eu"}),
        ("any", {"any"}),
    ],
)
def test_a_header_is_split_at_commas_case_and_space_are_nothing(value: str, said: set[str]) -> None:
    assert read(("x-region", value)) == {"data-region": said}


@pytest.mark.parametrize("value", ["", " ", ",", "eu,", ",eu", "eu,,us", "mars", "eu,mars", "eu us", "eu;us", '"eu"'])
def test_an_empty_part_or_an_undeclared_value_is_refused(value: str) -> None:
    assert refused(read(("x-region", value))) == ("attribute_unknown", "x-region")


def test_the_refusal_names_what_is_declared_and_not_what_was_sent() -> None:
    answer = READER.read([("x-region", "s3cret")], None, {})
    assert isinstance(answer, Denial)
    assert answer.why == "x-region says a value that is not declared; 'data-region' is one of any, eu, us"


def test_repeated_headers_join_contradictions_included() -> None:
    assert read(("x-region", "eu"), ("x-region", "us, any")) == {"data-region": set(VALUES)}
    assert refused(read(("x-region", "eu"), ("x-region", ""))) == ("attribute_unknown", "x-region")


def test_other_headers_say_nothing() -> None:
    assert read(("data-region", "eu"), ("x-regions", "mars"), ("accept", "eu")) == {}


def test_an_undeclared_attribute_is_a_header_of_any_value() -> None:
    assert read(("x-tier", "Gold, silver")) == {"x-tier": {"gold", "silver"}}
    assert read(metadata={"x-tier": "gold"}) == {}, "and nothing else"
    assert refused(read(("x-tier", "gold,"))) == ("attribute_unknown", "x-tier")
    assert read(("x-tier", "g" * 128)) == {"x-tier": {"g" * 128}}
    assert refused(read(("x-tier", "g" * 129))) == ("attribute_unknown", "x-tier")


# ---- metadata ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["data-region", "DATA_REGION", "Data-Region", "x-region", "X_Region", " data-region "])
def test_a_metadata_key_is_the_name_or_the_header_folded(key: str) -> None:
    assert read(metadata={key: "eu"}) == {"data-region": {"eu"}}


def test_a_name_is_folded_too() -> None:
    for key in ("output-use", "Output_Use", "OUTPUT-USE"):
        assert read(metadata={key: "internal"}) == {"Output_Use": {"internal"}}
    assert folded(" Output_Use ") == "output-use"


@pytest.mark.parametrize(
    ("value", "said"),
    [("eu", {"eu"}), (" EU ", {"eu"}), (["eu"], {"eu"}), (["eu", "US "], {"eu", "us"}), (["eu", "eu"], {"eu"})],
)
def test_metadata_is_a_string_or_a_list_of_strings(value: Json, said: set[str]) -> None:
    assert read(metadata={"data-region": value}) == {"data-region": said}


@pytest.mark.parametrize(
    "value", ["", " ", "mars", "eu,us", [], [""], ["eu", ""], ["eu", 3], ["eu", None], [["eu"]], 3, 0, True, False, 1.5, {}, {"eu": True}]
)  # fmt: skip
def test_any_other_metadata_is_refused(value: Json) -> None:
    assert refused(read(metadata={"data-region": value})) == ("attribute_unknown", "metadata.data-region")


def test_null_is_silent_and_other_keys_are_not_ours() -> None:
    assert read(metadata={"data-region": None}) == {}
    assert read(metadata={"region": "mars", "data region": 3, "data-regions": {}}) == {}
    assert read(metadata={}) == read(metadata=None) == {}


def test_several_spellings_of_one_key_join() -> None:
    assert read(metadata={"data-region": "eu", "DATA_REGION": "us", "x-region": None}) == {"data-region": {"eu", "us"}}
    assert refused(read(metadata={"data-region": "eu", "X_REGION": 3})) == ("attribute_unknown", "metadata.X_REGION")


def test_a_long_key_is_clipped_in_the_answer() -> None:
    long = Reader([Attribute("r" * 100, VALUES, "x-r", EVERYWHERE)])
    assert refused(read(metadata={"R" * 100: 3}, reader=long)) == ("attribute_unknown", f"metadata.{'R' * 64}")


# ---- all sources -------------------------------------------------------------------------------------------------------


def test_every_source_adds_and_none_takes_back() -> None:
    assert read(("x-region", "us"), metadata={"x-region": "any"}, key=["eu"], tenant=["eu"]) == {
        "data-region": set(VALUES)
    }
    assert read(key=["eu"]) == {"data-region": {"eu"}}
    assert read(("x-region", "any"), tenant=["eu"]) == {"data-region": {"any", "eu"}}


def test_the_sources_are_remembered() -> None:
    said = READER.read([("x-region", "us")], {"x-region": ["us"]}, {"data-region": {"tenant": frozenset({"eu"})}})
    eu, us = frozenset({"eu"}), frozenset({"us"})
    assert said == {"data-region": {"tenant": eu, "header": us, "metadata": us}}


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"header"}, {"data-region": {"eu"}}),
        ({"metadata"}, {"data-region": {"us"}}),
        ({"header", "metadata"}, {"data-region": {"eu", "us"}}),
        ({"key", "tenant"}, {}),
    ],
)
def test_a_source_that_is_not_listed_is_not_read(sources: set[str], said: dict[str, set[str]]) -> None:
    reader = Reader([Attribute("data-region", VALUES, "x-region", frozenset(sources))])
    assert read(("x-region", "eu"), metadata={"x-region": "us"}, reader=reader) == said


def test_silence_is_read_as_every_value_only_where_it_is_declared_so() -> None:
    floor, refuse = Attribute("a", VALUES, "a", EVERYWHERE), Attribute("b", VALUES, "b", EVERYWHERE, "refuse")
    reader = Reader([floor, refuse, USE, TIER])
    assert reader.assumed({}) == {"a": VALUES}
    assert reader.assumed({"a": {"header": frozenset({"eu"})}}) == {}


@st.composite
def spellings(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[str, Json], set[str]]:
    """Some values, each said in some place in some spelling, and what they are."""
    headers: list[tuple[str, str]] = []
    metadata: dict[str, Json] = {}
    said = set()
    for _ in range(draw(st.integers(0, 5))):
        values = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
        said |= set(values)
        words = [draw(st.sampled_from([value, value.upper(), f" {value}", f"{value}\t "])) for value in values]
        if draw(st.booleans()):
            headers.append(("x-region", ",".join(words)))
        else:
            key = draw(st.sampled_from(["data-region", "Data_Region", "X-REGION", "x_region"]))
            already = metadata.get(key)
            metadata[key] = [*(already if isinstance(already, list) else []), *words]
    return draw(st.permutations(headers)), metadata, said


@settings(deadline=None)  # a busy machine is not a finding
@given(spellings())
def test_however_it_is_said_it_is_the_same(spelt: tuple[list[tuple[str, str]], dict[str, Json], set[str]]) -> None:
    headers, metadata, said = spelt
    assert read(*headers, metadata=metadata) == ({"data-region": said} if said else {})


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.sampled_from(sorted(VALUES)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
headers = st.lists(st.tuples(st.sampled_from(["x-region", "x-tier", "output_use"]), st.text(max_size=12)), max_size=3)


@settings(deadline=None)
@given(headers, st.dictionaries(st.sampled_from(["data-region", "X_Region", "output-use", "other"]), json, max_size=3))
def test_whatever_comes_is_read_or_refused(given_headers: list[tuple[str, str]], metadata: dict[str, Json]) -> None:
    said = READER.read(given_headers, metadata, {})
    if isinstance(said, Denial):
        assert said.code == "attribute_unknown"
        return
    for name, sources in said.items():
        declared = READER.attributes[name].values
        assert sources
        for values in sources.values():
            assert values, "a source that says nothing does not speak"
            assert declared is None or values <= declared
