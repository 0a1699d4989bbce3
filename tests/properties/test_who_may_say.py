"""Who may say what, and what silence means, through the gateway: explained and sent, and who is refused calls nobody."""

from __future__ import annotations

import pytest

from narrows import Gateway
from narrows.types import Json
from tests.properties.engine import ask, calls, chat, explain, of_text

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
