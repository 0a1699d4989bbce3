"""What requests say of themselves: every source adds, every spelling means the same or is refused, and who may say what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import Denial, Gateway
from narrows.attributes import Attribute, Reader, effective, folded
from narrows.types import Json
from tests.properties.engine import ask, calls, chat, explain, of_text

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


# ---- through the gateway: A24, and the table of who may say what -------------------------------------------------------

POLICY = """
[attributes.data-region]
values = ["eu", "any"]
sources = ["header", "metadata"]
header = "x-region"

[attributes.output-use]
values = ["internal", "public-artifact", "training-data"]
sources = ["header"]
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
accept = { eu = ["eu-west", "eu-central"], any = "*" }
always = true

[constraints.price-cap]
kind = "cost_ceiling"
max_cost_per_mtok_out = 100
by = { "tag.intern" = 10, "attribute.output-use.training-data" = 7 }

[constraints.quantisation]
kind = "attribute_match"
request_attribute = "x-quantisation"
target_attribute = "quantisation"

[providers.acme]
kind = "echo"

[targets.eu-large]
provider = "acme"
model = "eu-large"
region = "eu-west"
labels = { quantisation = "fp8" }
price = { input = 1.0, output = 8.0, cached_input = 0.1 }

[targets.us-small]
provider = "acme"
id = "us-small"
region = "us-east"
labels = { quantisation = "bf16" }
cost_per_mtok_in = 0.1
cost_per_mtok_out = 0.6

[routes.chat]
targets = ["eu-large", "us-small"]
constraints = ["price-cap", "quantisation"]

[tenants.payments]
attributes = { data-region = "eu" }

[keys.ci]
sha256 = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"
tenant = "payments"
tags = ["intern"]

[keys.batch]
sha256 = "91db1e49a07dcab0cc93eddd6d20a5e49c36c2040fe9155a5b8e805bff3c1541"
may_say = { data-region = ["any"] }

[keys.plain]
sha256 = "d9b846bbace034894762c0f0abafc2ea00aab3bf2971a2d55a1be7772168e4bf"
"""
CI, BATCH, PLAIN = "nrw_example_ci", "nrw_example_batch", "nrw_example_plain"
EU_ONLY, BOTH = ["eu-large"], ["eu-large", "us-small"]


@pytest.fixture(scope="module")
def example() -> Gateway:
    """The example of the shared names, with the parts that are built."""
    return of_text(POLICY)


async def told(gateway: Gateway, asked: dict[str, object]) -> tuple[str, list[str]]:
    """Code and order as explained; the live request agrees, and who is refused calls nobody."""
    async with gateway:
        document = await explain(gateway, asked)
        before = calls(gateway)
        answer = await ask(gateway, asked)
        made = {name for name, count in calls(gateway).items() if count > before[name]}
    assert answer.code == document["code"]
    assert made == set(document["order"][:1])
    return document["code"], document["order"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("key", "said", "code", "targets"),
    [
        (BATCH, [], "ok", EU_ONLY),  # silent: only what every value permits
        (BATCH, ["eu"], "ok", EU_ONLY),  # leaves no more than silence: needs no leave
        (BATCH, ["any"], "ok", BOTH),  # has leave
        (BATCH, ["any", "eu"], "ok", EU_ONLY),
        (PLAIN, [], "ok", EU_ONLY),
        (PLAIN, ["eu"], "ok", EU_ONLY),
        (PLAIN, ["any"], "attribute_forbidden", []),
        (PLAIN, ["any", "eu"], "attribute_forbidden", []),  # each value by itself
        (PLAIN, ["mars"], "attribute_unknown", []),
        (CI, [], "ok", EU_ONLY),  # its tenant says eu
        (CI, ["eu"], "ok", EU_ONLY),
        (CI, ["any"], "ok", EU_ONLY),  # adds, and takes nothing back
    ],
)
async def test_who_may_say_what(example: Gateway, key: str, said: list[str], code: str, targets: list[str]) -> None:
    assert await told(example, chat(*(("x-region", value) for value in said), key=key)) == (code, targets)
    assert await told(example, chat(key=key, metadata={"data_region": said} if said else None)) == (code, targets)


@pytest.mark.anyio
async def test_where_a_value_came_from_is_told(example: Gateway) -> None:
    async with example:
        document = await explain(example, chat(("x-region", "any"), key=CI))
        silent = await explain(example, chat(key=BATCH))
    assert document["attributes"] == {
        "data-region": {"values": ["any", "eu"], "sources": ["header", "tenant"], "assumed": False}
    }
    assert {"constraint": "residency", "demand": "eu", "source": "said"} in document["demands"]
    assert silent["attributes"] == {"data-region": {"values": ["any", "eu"], "sources": [], "assumed": True}}
    assert {"constraint": "residency", "demand": "eu", "source": "assumed"} in silent["demands"]


@pytest.mark.anyio
async def test_an_unrestricted_attribute_binds_who_says_it_and_needs_no_leave(example: Gateway) -> None:
    for use, targets in (("internal", BOTH), ("training-data", ["us-small"])):
        asked = chat(("x-region", "any"), ("output-use", use), key=BATCH)
        assert await told(example, asked) == ("ok", targets)
    # Silent on the region, so only eu-large may answer, and money alone excludes it.
    assert await told(example, chat(("output-use", "training-data"), key=BATCH)) == ("cost_ceiling", [])


@pytest.mark.anyio
async def test_an_undeclared_attribute_binds_only_who_says_it(example: Gateway) -> None:
    assert await told(example, chat(("x-region", "any"), key=BATCH)) == ("ok", BOTH)
    assert await told(example, chat(("x-region", "any"), ("x-quantisation", "BF16"), key=BATCH)) == ("ok", ["us-small"])
    assert await told(example, chat(("x-quantisation", "int4"), key=BATCH)) == ("no_eligible_target", [])
    assert "binds_only_who_says" in [warning.code for warning in example.warnings]


ALTERNATIVES: list[Json] = [
    None,
    "",
    " ",
    "eu",
    "EU",
    "any",
    ["any"],
    ["eu", "any"],
    [],
    [None],
    3,
    True,
    {},
    {"eu": "any"},
    "eu,any",
]
SPELLINGS = ["data-region", "data_region", "DATA-REGION", "Data_Region", "x-region", "X_Region"]


@pytest.mark.anyio
async def test_a24_no_spelling_of_metadata_ever_widens(example: Gateway) -> None:
    """The same request with every alternative spelling present, empty or of a wrong type: the same set, or 400."""
    for key, said, widest in ((PLAIN, "eu", EU_ONLY), (CI, None, EU_ONLY), (BATCH, "eu", EU_ONLY)):
        for spelling in SPELLINGS:
            for value in ALTERNATIVES:
                headers = [("x-region", said)] if said else []
                async with example:
                    document = await explain(
                        example, chat(*headers, key=key, metadata={spelling: value, "other": "any"})
                    )
                if document["code"] == "ok":
                    assert document["order"] == widest
                else:
                    assert document["code"] in ("attribute_unknown", "attribute_forbidden")
                    assert (document["status"] == 400) == (document["code"] == "attribute_unknown")


@pytest.mark.anyio
@pytest.mark.parametrize("metadata", [{}, {"other": {"data-region": "any"}}, {"tags": ["any"]}, {"data-region": None}])
async def test_a24_metadata_that_says_nothing_changes_nothing(example: Gateway, metadata: dict[str, object]) -> None:
    assert await told(example, chat(key=BATCH, metadata=metadata)) == ("ok", EU_ONLY)
    assert await told(example, chat(("x-region", "any"), key=BATCH, metadata=metadata)) == ("ok", BOTH)


@pytest.mark.anyio
@pytest.mark.parametrize("metadata", ["data-region", ["eu"], 3, True])
async def test_a24_metadata_that_is_no_object_is_refused(example: Gateway, metadata: object) -> None:
    assert await told(example, chat(key=BATCH, metadata=metadata)) == ("invalid_body", [])


# ---- what silence means ------------------------------------------------------------------------------------------------

TWO = """
[attributes.region]
values = ["eu", "us"]
{more}
[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"
[providers.e]
kind = "echo"
[targets.eu]
provider = "e"
model = "eu"
region = "eu"
[targets.us]
provider = "e"
model = "us"
region = {us}
[routes.chat]
targets = ["eu", "us"]
constraints = ["residency"]
[routes.free]
targets = ["eu", "us"]
"""


def two(more: str = "", us: str = '"us"') -> Gateway:
    return of_text(TWO.format(more=more, us=us))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("more", "silent", "eu"),
    [
        ("", ("attribute_missing", []), ("ok", ["eu"])),  # its floor is empty: works at once, either may be said
        ('missing = "floor"', ("attribute_missing", []), ("ok", ["eu"])),
        ('missing = "refuse"', ("attribute_missing", []), ("ok", ["eu"])),
        ('missing = "unrestricted"', ("ok", ["eu", "us"]), ("ok", ["eu"])),
    ],
)
async def test_what_silence_means(more: str, silent: tuple[str, list[str]], eu: tuple[str, list[str]]) -> None:
    assert await told(two(more), chat()) == silent
    assert await told(two(more), chat(("region", "eu"))) == eu
    assert await told(two(more), chat(("region", "eu, us"))) == ("no_eligible_target", [])
    assert await told(two(more), chat(model="free")) == ("ok", ["eu", "us"]), "no rule reads it there"


@pytest.mark.anyio
async def test_a_floor_that_somebody_permits_is_served_and_choosing_needs_leave() -> None:
    """`us` is a target that may be either only if it fits both; here each value would leave more than silence."""
    gateway = of_text(
        TWO.format(more="", us='["eu", "us"]').replace(
            'target_attribute = "region"\n',
            'target_attribute = "region"\naccept = { eu = ["eu"], us = ["eu", "us"] }\n',
        )
    )
    assert await told(gateway, chat()) == ("ok", ["eu"])
    assert await told(gateway, chat(("region", "eu"))) == ("ok", ["eu"])
    assert await told(gateway, chat(("region", "us"))) == ("attribute_forbidden", [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sources", "how", "param"),
    [
        ('["header", "metadata"]', "send the header 'region' with one of: eu, us", "region"),
        ('["metadata"]', "put metadata.region into the body, one of: eu, us", "metadata.region"),
        ('["key"]', "an operator can bind your key or its tenant to one of: eu, us", "region"),
    ],
)
async def test_who_must_say_it_is_told_how(sources: str, how: str, param: str) -> None:
    gateway = two(f"sources = {sources}")
    async with gateway:
        answer = await ask(gateway, chat(("region", "eu") if "header" not in sources else ("other", "eu")))
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["param"]) == (400, "attribute_missing", param)
    assert error["message"] == f"this route needs to know 'region'; {how}"


@pytest.mark.anyio
async def test_silence_is_refused_also_where_only_a_rule_on_sizes_reads_it() -> None:
    """Found by the reference model: such a request was served, without the lower cap of eu."""
    text = (
        TWO.format(more='missing = "refuse"', us='"us"').replace(
            'kind = "attribute_match"\nrequest_attribute = "region"\ntarget_attribute = "region"\n',
            'kind = "cost_ceiling"\nmax_cost_per_request = 1\nby = { "attribute.region.eu" = 0.0 }\n',
        )
        + "[targets.eu.price]\ninput = 1.0\noutput = 1.0\n[targets.us.price]\ninput = 0.0\noutput = 0.0\n"
    )
    assert await told(of_text(text), chat()) == ("attribute_missing", [])
    assert await told(of_text(text), chat(("region", "eu"))) == ("ok", ["us"])
