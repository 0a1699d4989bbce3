"""Names that stand for nothing, and attributes that a rule reads under a name that is not theirs."""

from __future__ import annotations

import pytest

from tests.core.config.support import BASE, loaded, only, refused

NAMES = (
    BASE
    + """
[attributes.data-region]
values = ["eu", "any"]
header = "x-region"
[tenants.payments]
[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
"""
)


def test_names_that_are_there() -> None:
    more = (
        "[keys.k]\ntenant = 'payments'\nroutes = ['chat']\ntargets = ['eu']\nproviders = ['acme']\n"
        "attributes = { data-region = [' EU ', 'any'] }\nmay_say = { data-region = 'any' }\n"
        "[routes.r]\ntargets = ['eu']\nconstraints = ['residency']\n"
    )
    key = loaded(NAMES + more).settings.keys["k"]
    assert key.attributes == {"data-region": {"eu", "any"}}
    assert key.routes == frozenset({"chat"})


@pytest.mark.parametrize(
    ("more", "path", "suggestion"),
    [
        ("[routes.r]\ntargets = ['eu', 'uu']", "routes.r.targets", "eu"),
        ("[routes.r]\ntargets = ['eu']\nconstraints = ['residenzy']", "routes.r.constraints", "residency"),
        ("[targets.t]\nmodel = 'm'\nprovider = 'acm'", "targets.t.provider", "acme"),
        ("[targets.t]\nmodel = 'm'\nprovider = 'zzzz'", "targets.t.provider", None),
        ("[keys.k]\ntenant = 'paymnts'", "keys.k.tenant", "payments"),
        ("[keys.k]\nroutes = ['caht']", "keys.k.routes", "chat"),
        ("[keys.k]\ntargets = ['ue']", "keys.k.targets", "eu"),
        ("[keys.k]\nproviders = ['amce']", "keys.k.providers", "acme"),
        ("[keys.k]\nattributes = { data-regoin = 'eu' }", "keys.k.attributes.data-regoin", "data-region"),
        ("[keys.k]\nattributes = { data-region = 'eurpe' }", "keys.k.attributes.data-region", None),
        ("[keys.k]\nattributes = { data-region = ['ani'] }", "keys.k.attributes.data-region", "any"),
        ("[keys.k]\nmay_say = { data-regoin = 'eu' }", "keys.k.may_say.data-regoin", "data-region"),
        ("[tenants.t]\nattributes = { x = 'eu' }", "tenants.t.attributes.x", None),
        ("[tenants.t]\nmay_say = { data-region = ['al'] }", "tenants.t.may_say.data-region", None),
        ("[auth]\nmay_say = { data-regio = 'eu' }", "auth.may_say.data-regio", "data-region"),
    ],
)
def test_names_that_are_not(more: str, path: str, suggestion: str | None) -> None:
    problem = only(refused(NAMES + more))
    assert (problem.code, problem.path, problem.suggestion) == ("unknown_reference", path, suggestion)
    assert problem.line == NAMES.count("\n") + more.count("\n") + 1, "each stands in the last line"
    assert problem.remedy


def test_a_name_in_a_long_list_is_found_in_its_line() -> None:
    problem = only(refused(NAMES + "[routes.r]\ntargets = [\n  'eu',\n  'nobody',\n]"))
    assert problem.line == NAMES.count("\n") + 4


def test_a_route_may_name_a_target_once() -> None:
    problem = only(refused(BASE.replace('["eu"]', '["eu", "eu"]')))
    assert (problem.code, problem.path) == ("contradiction", "routes.chat.targets")


def test_nothing_is_declared_at_all() -> None:
    problem = only(refused(BASE.replace("[providers.acme]", "[providers.other]")))
    assert (problem.code, problem.suggestion, problem.remedy) == (
        "unknown_reference",
        None,
        "Declare it, or name one of: other.",
    )


# ---- attributes that nobody declared -------------------------------------------------------------------------------


def reads(attribute: str) -> str:
    return NAMES.replace('request_attribute = "data-region"', f'request_attribute = "{attribute}"')


def test_an_attribute_that_nobody_declared_is_a_header() -> None:
    loaded(reads("x-quantisation"))


@pytest.mark.parametrize("attribute", ["x-region", "X-Region", "data_region", "Data-Region"])
def test_a_rule_that_reads_the_header_of_a_declared_attribute_would_not_bind_silence(attribute: str) -> None:
    problem = only(refused(reads(attribute)))
    assert (problem.code, problem.path, problem.suggestion) == (
        "unknown_reference",
        "constraints.residency.request_attribute",
        "data-region",
    )


@pytest.mark.parametrize("attribute", ["authorization", "X-Api-Key", "cookie", "x-narrows-session", "two words", "é"])
def test_a_rule_cannot_read_a_credential_or_what_is_no_header(attribute: str) -> None:
    problem = only(refused(reads(attribute)))
    assert (problem.code, problem.path) == ("reserved_name", "constraints.residency.request_attribute")
