"""What a load refuses because the compiled whole is wrong, each with the repaired twin that loads; and what it warns of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from narrows import Block, ConfigError, Constraint, Exclusion, Problem, Request, Target
from tests.properties.engine import ask, calls, chat, explain, of_text

BASE = """
[attributes.data-region]
values = ["eu", "us"]

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"

[providers.acme]
kind = "echo"

[targets.one]
provider = "acme"
model = "one"
region = "eu"

[targets.two]
provider = "acme"
model = "two"
region = "us"

[routes.chat]
targets = ["one", "two"]
constraints = ["residency"]
"""
STRICT = """
[constraints.strict]
kind = "allowed_classes"
classes = ["private"]
always = true
"""


def line_of(text: str, part: str) -> int:
    """The line, from 1, of the only line that begins with this."""
    found = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(part)]
    assert len(found) == 1, f"{part!r} stands in lines {found}"
    return found[0]


def refused(text: str, kinds: dict[str, type[Block]] | None = None) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        of_text(text, kinds)
    return caught.value.problems


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Case(NamedTuple):
    """A file that is refused: the problem's code and path, the line it points at, what its text must hold; and the
    changes that repair it."""

    name: str
    text: str
    code: str
    path: str
    line: str
    says: Sequence[str]
    repair: Sequence[tuple[str, str]]


NO_REGION = changed(BASE, ('model = "two"\nregion = "us"\n', 'model = "two"\n'))
OWN_LABEL = changed(BASE, ('target_attribute = "region"', 'target_attribute = "licence zone"'))
ACCEPT = changed(
    BASE, ('target_attribute = "region"\n', 'target_attribute = "region"\naccept = { eu = ["eu"], us = "*" }\n')
)
CLASSES = changed(BASE + STRICT, ('region = "eu"', 'region = "eu"\nclass = "private"'))

CASES = [
    Case(
        "a target without the label that a rule compares: the lines to add are printed",
        NO_REGION,
        "unmet_constraint",
        "constraints.residency",
        "[constraints.residency]",
        ["on route 'chat'", "target two declares no region", '[targets.two]\nregion = "…"'],
        [('model = "two"\n', 'model = "two"\nregion = "us"\n')],
    ),
    Case(
        "an own label stands under labels",
        changed(OWN_LABEL, ('region = "eu"', 'labels = { "licence zone" = "eu" }')),
        "unmet_constraint",
        "constraints.residency",
        "[constraints.residency]",
        ["target two declares no licence zone", '[targets.two]\nlabels = { "licence zone" = "…" }'],
        [('region = "us"', 'labels = { "licence zone" = "us" }')],
    ),
    Case(
        "an unclassed target on a strict route (ADR 0017)",
        CLASSES,
        "unmet_constraint",
        "constraints.strict",
        "[constraints.strict]",
        ["on route 'chat'", "target two declares no class", '[targets.two]\nclass = "…"'],
        [('region = "us"', 'region = "us"\nclass = "public"')],
    ),
    Case(
        "a strict route without an allowed target (ADR 0017)",
        changed(CLASSES, ('class = "private"', 'class = "paid"'), ('region = "us"', 'region = "us"\nclass = "public"')),
        "unmet_constraint",
        "constraints.strict",
        "[constraints.strict]",
        ["on route 'chat'", "no target of the route is of class private"],
        [('class = "paid"', 'class = "private"')],
    ),
    Case(
        "accept has no entry for a declared value",
        changed(ACCEPT, (', us = "*"', "")),
        "missing_key",
        "constraints.residency.accept",
        "accept = ",
        ["no entry for 'us'", 'Add us = ["…"]'],
        [('{ eu = ["eu"] }', '{ eu = ["eu"], us = ["us"] }')],
    ),
    Case(
        "accept has an entry for a value that nobody declares",
        changed(ACCEPT, ('us = "*" }', 'us = "*", uk = ["uk"] }')),
        "unknown_reference",
        "constraints.residency.accept.uk",
        "accept = ",
        ["'uk' is no value of attribute 'data-region'", "Its values: eu, us."],
        [('values = ["eu", "us"]', 'values = ["eu", "us", "uk"]')],
    ),
    Case(
        "accept on an attribute that nobody declares",
        changed(ACCEPT, ('[attributes.data-region]\nvalues = ["eu", "us"]\n', "")),
        "unknown_reference",
        "constraints.residency.accept",
        "accept = ",
        ["there is no [attributes.data-region]", "Declare it with its values, or leave accept out."],
        [("[constraints.residency]", '[attributes.data-region]\nvalues = ["eu", "us"]\n[constraints.residency]')],
    ),
    Case(
        "a route that no request could satisfy",
        changed(BASE, ('region = "eu"', 'region = "uk"'), ('region = "us"', 'region = ["eu", "us"]')),
        "route_unsatisfiable",
        "routes.chat",
        "[routes.chat]",
        ["no request could be served on route 'chat'", "[residency]", "one", "two"],
        [('region = ["eu", "us"]', 'region = "eu"')],
    ),
    Case(
        "two rules that leave each a target, and together none",
        BASE + '[constraints.cap]\nkind = "cost_ceiling"\nmax_cost_per_mtok_out = 1\nalways = true\n',
        "route_unsatisfiable",
        "routes.chat",
        "[routes.chat]",
        ["no request could be served on route 'chat'", "[cap]"],
        [('region = "us"', 'region = "us"\ncost_per_mtok_out = 1.0')],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_refused_and_its_repaired_twin_loads(case: Case) -> None:
    problem = next(one for one in refused(case.text) if one.code == case.code)
    assert (problem.path, problem.line, problem.severity) == (case.path, line_of(case.text, case.line), "problem")
    text = str(problem)
    for part in case.says:
        assert part in text
    assert {one.code for one in refused(case.text)} == {case.code}, "and nothing else is said"
    assert of_text(changed(case.text, *case.repair)).policy


def test_the_printed_lines_repair_the_file() -> None:
    (problem,) = refused(NO_REGION)
    printed = problem.message.partition("Add what is true of each:\n")[2].replace("…", "us")
    table, line = printed.splitlines()
    assert of_text(changed(NO_REGION, (f"{table}\n", f"{table}\n{line}\n"))).policy


def test_every_route_tells_its_problems_at_once() -> None:
    text = changed(BASE, ('region = "eu"', 'region = "uk"'), ('region = "us"', 'region = "nl"'))
    text += '[routes.other]\ntargets = ["two"]\nconstraints = ["residency"]\n'
    assert [(one.code, one.path) for one in refused(text)] == [
        ("route_unsatisfiable", "routes.chat"),
        ("route_unsatisfiable", "routes.other"),
    ]


def test_a_missing_label_on_one_route_hides_nothing_of_another() -> None:
    text = NO_REGION + '[targets.three]\nprovider = "acme"\nmodel = "three"\nregion = "uk"\n'
    text += '[routes.other]\ntargets = ["three"]\nconstraints = ["residency"]\n'
    assert {(one.code, one.path) for one in refused(text)} == {
        ("unmet_constraint", "constraints.residency"),
        ("route_unsatisfiable", "routes.other"),
    }


def test_a_label_may_be_missing_where_no_rule_compares_it() -> None:
    assert of_text(changed(NO_REGION, ('constraints = ["residency"]\n', ""))).policy


# ---- always ------------------------------------------------------------------------------------------------------------

TWO_ROUTES = changed(BASE, ('region = "eu"', 'region = "eu"\nclass = "private"'), ('region = "us"', 'region = "us"\nclass = "public"')) + """
[routes.free]
targets = ["two", "one"]
"""  # fmt: skip


@pytest.mark.anyio
async def test_always_stands_on_every_route_also_where_it_is_not_named() -> None:
    async with of_text(TWO_ROUTES + STRICT) as gateway:
        for asked, order in ((chat(("data-region", "eu")), ["one"]), (chat(model="free"), ["one"])):
            assert (await explain(gateway, asked))["order"] == order
            assert (await ask(gateway, asked)).target == "one"
        assert calls(gateway) == {"one": 2, "two": 0}
    async with of_text(TWO_ROUTES + STRICT.replace("always = true", "")) as gateway:  # the same file without it
        assert (await ask(gateway, chat(model="free"))).target == "two"


@pytest.mark.anyio
async def test_always_and_named_is_judged_once_in_the_routes_order() -> None:
    text = changed(TWO_ROUTES, ('constraints = ["residency"]', 'constraints = ["strict", "residency"]')) + STRICT
    async with of_text(text) as gateway:
        document = await explain(gateway, chat(("data-region", "eu")))
    two = next(row for row in document["targets"] if row["target"] == "two")
    assert [(why["constraint"], why["code"]) for why in two["exclusions"]] == [
        ("strict", "class"),
        ("residency", "attribute_mismatch"),
    ]


def test_always_is_checked_on_every_route_too() -> None:
    problems = refused(BASE + "[routes.free]\ntargets = ['two']\n" + STRICT)
    assert {one.message.split(":")[0] for one in problems} == {"on route 'chat'", "on route 'free'"}


# ---- warnings ----------------------------------------------------------------------------------------------------------


def warned(text: str) -> list[tuple[str, str, int | None]]:
    """The warnings about silence, with their places."""
    warnings = of_text(text).warnings
    assert all(one.severity == "warning" for one in warnings)
    about = ("silence_refused", "binds_only_who_says")
    return [(one.code, one.path, one.line) for one in warnings if one.code in about]


def test_an_empty_floor_is_told() -> None:
    expected = ("silence_refused", "attributes.data-region", line_of(BASE, "[attributes.data-region]"))
    assert warned(BASE) == [expected]
    warning = next(one for one in of_text(BASE).warnings if one.code == "silence_refused")
    assert warning.message == (
        "on route 'chat' no target is permitted for every value of 'data-region': a request that does not say it "
        "(header or metadata) is refused"
    )


@pytest.mark.parametrize(
    "twin",
    [
        changed(BASE, ('values = ["eu", "us"]', 'values = ["eu", "us"]\nmissing = "refuse"')),
        changed(BASE, ('values = ["eu", "us"]', 'values = ["eu", "us"]\nmissing = "unrestricted"')),
        changed(BASE, ('values = ["eu", "us"]', 'values = ["eu"]')),
        changed(BASE, ('constraints = ["residency"]\n', "")),
        changed(ACCEPT, ('{ eu = ["eu"], us = "*" }', '{ eu = ["eu"], us = ["eu", "us"] }')),
    ],
    ids=["refuse says so itself", "unrestricted", "one value", "no reader", "one target fits all"],
)
def test_a_floor_that_is_served_or_declared_is_not(twin: str) -> None:
    assert warned(twin) == []


def test_a_floor_that_only_the_largest_body_empties_is_not_refused() -> None:
    """A rule on sizes is asked about the smallest body: what it excludes even there it always excludes."""
    cap = '[constraints.cap]\nkind = "cost_ceiling"\nmax_cost_per_request = 1\nby = { "attribute.data-region.eu" = 0.0 }\n'
    priced = ('constraints = ["residency"]', 'constraints = ["cap"]'), ('region = "us"', 'region = "us"\nPRICE')
    text = changed(BASE, *priced) + cap
    assert warned(text.replace("PRICE", "price = { input = 1.0, output = 1.0 }")) == []
    assert [code for code, *_ in warned(text.replace("PRICE", ""))] == ["silence_refused"], "unpriced whatever the size"


def test_an_attribute_that_nobody_declares_binds_only_who_says_it() -> None:
    text = changed(BASE, ('[attributes.data-region]\nvalues = ["eu", "us"]\n', ""))
    assert warned(text) == [("binds_only_who_says", "constraints.residency", line_of(text, "[constraints.residency]"))]
    warning = next(one for one in of_text(text).warnings if one.code == "binds_only_who_says")
    assert "nobody declares the attribute 'data-region'" in warning.message
    assert warning.remedy is not None
    assert "[attributes.data-region]" in warning.remedy


def test_it_is_told_once_however_many_rules_read_it() -> None:
    text = changed(BASE, ('[attributes.data-region]\nvalues = ["eu", "us"]\n', "")) + (
        '[constraints.also]\nkind = "attribute_match"\nrequest_attribute = "data-region"\ntarget_attribute = "region"\n'
    )
    assert len(warned(text)) == 1


# ---- a third party's code, run at load ---------------------------------------------------------------------------------


class Faulty(Constraint[Any]):
    """Raises in one of its methods, or gives what it may not."""

    where: str
    request_attribute: str = "data-region"

    def demands(self, request: Request) -> Iterable[Any]:
        if self.where == "demands":
            raise KeyError("k")
        if self.where == "demands of eu" and request.attributes.get("data-region") == frozenset({"eu"}):
            raise KeyError("k")
        return ["d"]

    def excludes(self, demand: Any, target: Target) -> Exclusion | None:
        if self.where == "excludes":
            raise KeyError("k")
        return None

    def problems(self, targets: Sequence[Target]) -> Iterable[str]:
        if self.where == "problems":
            raise KeyError("k")
        return None if self.where == "no problems" else ()  # type: ignore[return-value]


FAULTY = BASE + '[constraints.faulty]\nkind = "faulty"\nalways = true\nwhere = "WHERE"\n'
KINDS: dict[str, type[Block]] = {"constraints.faulty": Faulty}


@pytest.mark.parametrize("where", ["demands", "demands of eu", "excludes", "problems", "no problems"])
def test_a_constraint_that_raises_at_load_is_a_problem_of_its_block(where: str) -> None:
    text = FAULTY.replace("WHERE", where)
    (problem,) = refused(text, KINDS)
    assert (problem.code, problem.path) == ("bad_plugin", "constraints.faulty")
    assert problem.line == line_of(text, "[constraints.faulty]")
    assert "Error when it is asked" in problem.message
    assert of_text(FAULTY.replace("WHERE", "nowhere"), KINDS).policy


# ---- a third party's code, run in a request ----------------------------------------------------------------------------


class LateFault(Constraint[Any]):
    """Well-behaved at load; raises for who says us. `where` it raises then."""

    where: str
    request_attribute: str = "mood"

    def demands(self, request: Request) -> Iterable[Any]:
        said = request.attributes.get("mood", frozenset())
        if "bad" in said and self.where == "demands":
            raise KeyError("the prompt")
        if "bad" in said and self.where == "sizes":
            return [request.sizes.at_least]
        return [["unhashable"]] if "bad" in said and self.where == "unhashable" else sorted(said)

    def excludes(self, demand: Any, target: Target) -> Exclusion | None:
        if demand == "bad":
            raise KeyError("the prompt")
        return None


LATE = BASE + '[constraints.late]\nkind = "late"\nalways = true\nwhere = "WHERE"\n'


@pytest.mark.anyio
@pytest.mark.parametrize("where", ["demands", "sizes", "unhashable", "excludes"])
@pytest.mark.parametrize("region", ["eu", "eu, us"], ids=["one left", "emptied by an earlier rule"])
async def test_a_constraint_that_raises_in_a_request_refuses_it(where: str, region: str) -> None:
    """Also where an earlier rule has emptied the set: the order of rules changes nothing."""
    kinds: dict[str, type[Block]] = {"constraints.late": LateFault}
    async with of_text(LATE.replace("WHERE", where), kinds) as gateway:
        asked = chat(("data-region", region), ("mood", "bad"))
        answer, document = await ask(gateway, asked), await explain(gateway, asked)
        assert (answer.status, answer.code) == (503, "constraint_failed")
        assert document["code"] == "constraint_failed"
        message = answer.json()["error"]["message"]
        assert message.startswith("a constraint could not be judged: plugin 'late' failed (")
        assert "the prompt" not in message
        assert not any(calls(gateway).values())
        assert gateway.engine.calls.errors["late", "narrow"] >= 2, "counted like any plugin's failure"
        good = await ask(gateway, chat(("data-region", "eu"), ("mood", "good")))
        assert (good.status, good.target) == (200, "one")
