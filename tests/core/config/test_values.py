"""Values of the wrong type or range: the path, the line, what is expected, how it is written. And money."""

from __future__ import annotations

import pytest

from narrows.types import Price
from tests.core.config.support import BASE, brief, line_of, loaded, only, refused


def target(line: str) -> str:
    """The base with this line in its target."""
    return BASE.replace('region = "eu"', line)


@pytest.mark.parametrize(
    ("line", "path", "text"),
    [
        ("region = 1", "region", "'region' must be text, in quotes or a list, not a number."),
        ("region = ''", "region", "'region' is empty"),
        ("region = []", "region", "'region' is empty"),
        ("region = ['eu', '']", "region", "'region' holds an empty text"),
        ("region = ['eu', 1]", "region", "element 1 of 'region' must be text, in quotes, not a number."),
        ("zero_retention = 'yes'", "zero_retention", "'zero_retention' must be true or false, not text."),
        ("zero_retention = 1", "zero_retention", "'zero_retention' must be true or false, not a number."),
        ("context_window = 1.5", "context_window", "'context_window' must be a whole number, not a number."),
        ("context_window = '128k'", "context_window", "'context_window' must be a whole number, not text."),
        ("context_window = true", "context_window", "'context_window' must be a whole number, not true or false."),
        ("context_window = 0", "context_window", "'context_window' must be 1 or more, not 0."),
        ("context_window = 1e999", "context_window", "'context_window' is no finite number."),
        ("labels = 'x'", "labels", "'labels' must be a table, not text."),
        ("labels = { a = { b = 1 } }", "labels.a", "'a' must be "),
        ("labels = { a = '' }", "labels.a", "'a' is empty"),
        ("labels = { no_training = 'yes' }", "labels.no_training", "'no_training' must be true or false."),
        ("capabilities = { tools = 'no' }", "capabilities.tools", "'tools' must be true or false, not text."),
        ("output_uses = 1", "output_uses", "'output_uses' must be a list, not a number."),
        ("extra_body = []", "extra_body", "'extra_body' must be a table, not a list."),
        ("extra_body = { since = 2020-01-01 }", "extra_body.since", "'since' is a date or time"),
        ("extra_body = { x = [1, nan] }", "extra_body.x", "1 is no finite number"),
        ("context_window = 9223372036854775808", "context_window", "'context_window' is too large a number"),
        ("extra_body = { x = -9223372036854775809 }", "extra_body.x", "'x' is too large a number"),
        ("tier = 1979-05-27T07:32:00Z", "tier", "'tier' is a date or time"),
        ("price = 1", "price", "'price' must be a table, not a number."),
        ("price = { input = -1 }", "price.input", "'input' must be 0 or more, not -1"),
        ("price = { input = nan }", "price.input", "'input' is no finite number."),
        ("price = { output = inf }", "price.output", "'output' is no finite number."),
        ("price = { output = '1' }", "price.output", "'output' must be a number, not text."),
        ("price = { output = 0.0000001 }", "price.output", "'output' is less than a millionth"),
        ("cost_per_mtok_in = -0.1", "cost_per_mtok_in", "'cost_per_mtok_in' must be 0 or more"),
        ("cost_per_mtok_out = 1e300", "cost_per_mtok_out", "'cost_per_mtok_out' must be at most"),
    ],
)
def test_a_wrong_value_of_a_target(line: str, path: str, text: str) -> None:
    problem = only(refused(target(line)))
    assert (problem.code, problem.path, problem.line) == ("wrong_type", f"targets.eu.{path}", 9)
    assert problem.message.startswith(text), problem.message
    assert problem.remedy


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("[routes.x]\ntargets = 'eu'", "routes.x.targets"),
        ("[routes.x]\ntargets = []", "routes.x.targets"),
        ("[routes.x]\ntargets = ['eu']\ndeadline_secs = 0", "routes.x.deadline_secs"),
        ("[routes.x]\ntargets = ['eu']\nmax_retries = -1", "routes.x.max_retries"),
        ("[routes.x]\ntargets = ['eu']\nfailover_on = ['timeot']", "routes.x.failover_on"),
        ("[routes.x]\ntargets = ['eu']\nfailover_on = ['content_policy']", "routes.x.failover_on"),
        ("[routes.x]\ntargets = ['eu']\nalgorithm = 1", "routes.x.algorithm"),
        ("[routes.x]\ntargets = ['eu']\nordered = 1", "routes.x.ordered"),
        ("[routes.x]\nordered = []\ntargets = ['eu']", "routes.x.ordered"),
        ("routes.x = 1", "routes.x"),
        ("[routes.' x']\ntargets = ['eu']", "routes. x"),
        ("[routes.'é']\ntargets = ['eu']", "routes.é"),
        ("[routes.'']\ntargets = ['eu']", "routes."),
        ("[server]\nport = 70000", "server.port"),
        ("[server]\nport = '80'", "server.port"),
        ("[server]\nhost = ''", "server.host"),
        ("[server]\nmax_body_bytes = 0", "server.max_body_bytes"),
        ("[server]\nshutdown_grace_secs = -1", "server.shutdown_grace_secs"),
        ("[hooks]\ndeadline_secs = 0", "hooks.deadline_secs"),
        ("server = 1", "server"),
        ("[auth]\nmode = 'key'", "auth.mode"),
        ("[keys.k]\ntags = ['']", "keys.k.tags"),
        ("[keys.k]\nroutes = 'chat'", "keys.k.routes"),
        ("[attributes.a]\nvalues = []", "attributes.a.values"),
        ("[attributes.a]\nvalues = ['x', ' ']", "attributes.a.values"),
        ("[attributes.a]\nvalues = ['x,y']", "attributes.a.values"),
        ("[attributes.a]\nvalues = ['x']\nmissing = 'flor'", "attributes.a.missing"),
        ("[attributes.a]\nvalues = ['x']\nsources = ['heder']", "attributes.a.sources"),
        ("[attributes.a]\nvalues = ['x']\nheader = 'x region'", "attributes.a.header"),
        ("[attributes.a]\nvalues = ['x']\nheader = ''", "attributes.a.header"),
        ("[constraints]\nc = 1", "constraints.c"),
        ("[constraints.c]\nkind = 1", "constraints.c.kind"),
        ("[constraints.c]\nkind = 'allowed_classes'\nclasses = 'private'", "constraints.c.classes"),
        ("[constraints.c]\nkind = 'allowed_classes'\nclasses = ['private']\nscope = 'sesion'", "constraints.c.scope"),
        ("[constraints.c]\nkind = 'allowed_classes'\nclasses = ['private']\nenforce = 'no'", "constraints.c.enforce"),
        ("[constraints.c]\nkind = 'cost_ceiling'", "constraints.c"),
        ("[constraints.c]\nkind = 'cost_ceiling'\nmax_cost_per_mtok_in = -1", "constraints.c.max_cost_per_mtok_in"),
        ("[constraints.c]\nkind = 'cost_ceiling'\nmax_cost_per_mtok_in = 1\nby = { x = 1 }", "constraints.c.by.x"),
        ("[providers.p]\nkind = 'openai_compatible'\nbase_url = 'ftp://x'", "providers.p.base_url"),
    ],
)
def test_a_wrong_value_elsewhere(more: str, path: str) -> None:
    text = more + "\n" + BASE if more.startswith(("routes.x", "server =")) else BASE + more
    problem = only(refused(text))
    assert (problem.code, problem.path) == ("wrong_type", path), problem
    assert problem.line is not None
    assert path.rsplit(".", 1)[-1] in text.splitlines()[problem.line - 1]
    assert problem.remedy


@pytest.mark.parametrize(
    ("more", "suggestion", "shown"),
    [
        ("[auth]\nmode = 'key'", "keys", "not 'key'."),
        ("[attributes.a]\nvalues = ['x']\nmissing = 'flor'", "floor", "not 'flor'."),
        ("[attributes.a]\nvalues = ['x']\nsources = ['meta-data']", "metadata", "not 'meta-data'."),
        ("[routes.x]\ntargets = ['eu']\nfailover_on = ['timeot']", "timeout", "not 'timeot'."),
        ("[constraints.c]\nkind = 'allowed_classes'\nclasses = ['p']\nscope = 'sesion'", "session", "not 'sesion'."),
        ("[auth]\nmode = '" + "k" * 60 + "'", None, "must be 'keys', 'host' or 'open'."),
    ],
)
def test_a_word_of_a_closed_list_has_a_suggestion_and_is_shown_if_short(
    more: str, suggestion: str | None, shown: str
) -> None:
    problem = only(refused(BASE + more))
    assert problem.suggestion == suggestion
    assert problem.message.endswith(shown)


def test_a_provider_refusal_can_never_be_moved_on() -> None:
    """A3: no configuration turns a refusal into a failover."""
    more = "[routes.x]\ntargets = ['eu']\nfailover_on = ['timeout', 'content_policy']"
    problem = only(refused(BASE + more))
    assert "always stops" in problem.message
    allowed = "[routes.x]\ntargets = ['eu']\nfailover_on = ['timeout', 'context_length', 'endpoint_dead', 'timeout']"
    route = loaded(BASE + allowed).settings.routes["x"]
    assert route.failover_on == ("timeout", "context_length", "endpoint_dead")


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = BASE.replace('"eu"\n', "1\n").replace("[targets.eu]", "[targets.eu]\nmodell = 1") + (
        "[server]\nport = 'x'\nhosst = 'y'\n[keys.k]\ntenant = 'nobody'\nsha256 = 'short'\n"
    )
    assert brief(refused(text)) == [
        ("unknown_key", "targets.eu.modell", line_of(text, "modell")),
        ("wrong_type", "targets.eu.region", line_of(text, "region")),
        ("wrong_type", "server.port", line_of(text, "port")),
        ("unknown_key", "server.hosst", line_of(text, "hosst")),
        ("unknown_reference", "keys.k.tenant", line_of(text, "tenant")),
        ("plaintext_key", "keys.k.sha256", line_of(text, "sha256")),
    ]


def test_a_missing_key_names_its_table() -> None:
    text = BASE.replace('provider = "acme"\n', "")
    problem = only(refused(text))
    assert (problem.code, problem.path, problem.line) == ("missing_key", "targets.eu.provider", 6)
    assert problem.remedy == "Add provider = … to [targets.eu]."


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (BASE.replace('model = "large"\n', ""), "targets.eu.model"),
        (BASE.replace('targets = ["eu"]\n', ""), "routes.chat.targets"),
        (BASE.replace('kind = "openai_compatible"\n', ""), "providers.acme.kind"),
        (BASE.replace('base_url = "http://127.0.0.1:9901/v1"\n', ""), "providers.acme.base_url"),
        (BASE + "[attributes.a]\nmissing = 'floor'", "attributes.a.values"),
        (BASE + "[constraints.c]\nclasses = ['private']", "constraints.c.kind"),
    ],
)
def test_every_key_that_must_be_there(text: str, path: str) -> None:
    problem = only(refused(text))
    assert (problem.code, problem.path) == ("missing_key", path)


# ---- money -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "price"),
    [
        ("price = { input = 0.1, output = 8, cached_input = 0.01, cache_write = 1.25 }",
         Price(100_000, 8_000_000, 10_000, 1_250_000)),
        ("cost_per_mtok_in = 0.1\ncost_per_mtok_out = 0", Price(100_000, 0)),
        ("cost_per_mtok_out = 0.000001", Price(None, 1)),
        ("price = { output = 0.3 }", Price(None, 300_000)),
        ("tier = 'unpriced'", Price()),
    ],
)  # fmt: skip
def test_prices_are_exact_micro_usd(line: str, price: Price) -> None:
    assert loaded(target(line)).settings.targets["eu"].price == price
