"""Keys that contradict each other, and variables that hold no key."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.config import load
from narrows.errors import ConfigError
from tests.core.config.support import BASE, ENV, brief, line_of, loaded, only, refused, registry

HASH = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (BASE.replace('region = "eu"', "id = 'other'"), "targets.eu.id"),
        (BASE.replace('region = "eu"', "price = {}\ncost_per_mtok_in = 1"), "targets.eu.cost_per_mtok_in"),
        (BASE.replace('region = "eu"', "price = {}\ncost_per_mtok_out = 1"), "targets.eu.cost_per_mtok_out"),
        (BASE.replace('region = "eu"', "region = 'eu'\nlabels = { region = 'us' }"), "targets.eu.labels.region"),
        (BASE.replace('region = "eu"', "class = 'a'\nlabels = { class = 'a' }"), "targets.eu.labels.class"),
        (BASE.replace('region = "eu"', "extra_body = { model = 'x' }"), "targets.eu.extra_body.model"),
        (BASE.replace('region = "eu"', "extra_body = { stream = true }"), "targets.eu.extra_body.stream"),
        (BASE + "[attributes.a]\nvalues = ['EU', ' eu']", "attributes.a.values"),
        (BASE + "[attributes.a]\nvalues = ['x']\n[attributes.b]\nvalues = ['x']\nheader = 'A'", "attributes.b.header"),
        (BASE + "[attributes.a-b]\nvalues = ['x']\n[attributes.A_B]\nvalues = ['x']", "attributes.A_B"),
        (
            BASE + "[attributes.a]\nvalues = ['x']\nheader = 'x-r'\n[attributes.b]\nvalues = ['x']\nheader = 'X-R'",
            "attributes.b.header",
        ),
        (
            BASE + "[attributes.a]\nvalues = ['x']\nheader = 'x_r'\n[attributes.x-r]\nvalues = ['x']",
            "attributes.x-r",
        ),
        (BASE + "[attributes.a]\nvalues = ['x']\nsources = ['key']\nheader = 'x-r'", "attributes.a.header"),
        (BASE + f"[keys.a]\nsha256 = '{HASH}'\n[keys.b]\nsha256 = '{HASH.upper()}'", "keys.b.sha256"),
    ],
)
def test_what_contradicts(text: str, path: str) -> None:
    problem = only(refused(text))
    assert (problem.code, problem.path) == ("contradiction", path)
    assert problem.line is not None
    assert path.rsplit(".", 1)[-1] in text.splitlines()[problem.line - 1]
    assert problem.remedy
    assert HASH not in repr(problem)


def test_what_does_not() -> None:
    found = loaded(
        BASE.replace('region = "eu"', "labels = { region = 'eu', zero_retention = true, x = ['a', 'b'] }")
        + "[attributes.a]\nvalues = ['x']\nheader = 'A'\n[attributes.b]\nvalues = ['x']\n"
        + "[targets.eu_]\nprovider = 'acme'\nmodel = 'm'\nextra_body = { provider = { order = ['x'] }, seed = 1 }\n"
    ).settings
    assert found.targets["eu"].labels == {"region": "eu", "zero_retention": True, "x": ("a", "b")}
    assert found.targets["eu_"].extra_body == {"provider": {"order": ["x"]}, "seed": 1}
    assert found.attributes["a"].header == "a"


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "X-Api-Key",
        "cookie",
        "Host",
        "content-type",
        "content-length",
        "traceparent",
        "x-narrows-session",
    ],
)
def test_headers_with_a_meaning_of_their_own(name: str) -> None:
    problem = only(refused(BASE + f"[attributes.a]\nvalues = ['x']\nheader = '{name}'"))
    assert (problem.code, problem.path) == ("wrong_type", "attributes.a.header")
    problem = only(refused(BASE + f"[attributes.{name}]\nvalues = ['x']"))
    assert (problem.code, problem.path) == ("reserved_name", f"attributes.{name}")
    settings = loaded(BASE + f"[attributes.{name}]\nvalues = ['x']\nsources = ['key', 'tenant']").settings
    assert settings.attributes[name].header is None, "what no caller can say needs no header"


def test_a_name_that_is_no_header_needs_another() -> None:
    problem = only(refused(BASE + "[attributes.'data region']\nvalues = ['x']"))
    assert (problem.code, problem.path) == ("reserved_name", "attributes.data region")
    found = loaded(BASE + "[attributes.'data region']\nvalues = ['x']\nheader = ' X-Data '").settings
    assert found.attributes["data region"].header == "x-data"


def test_a_later_file_cannot_declare_what_a_rule_reads_already(tmp_path: Path) -> None:
    rule = "[constraints.r]\nkind = 'attribute_match'\nrequest_attribute = 'x-region'\ntarget_attribute = 'region'\n"
    attribute = "[attributes.x-region]\nvalues = ['eu']\nheader = 'x-other'\n"
    files = [tmp_path / name for name in ("one.toml", "two.toml")]
    files[0].write_text(BASE + rule)
    files[1].write_text(attribute)
    with pytest.raises(ConfigError) as caught:
        load(files, registry(), ENV)
    assert [(one.code, one.path, one.file) for one in caught.value.problems] == [
        ("policy_redefined", "attributes.x-region", str(files[1]))
    ]
    load(files[::-1], registry(), ENV)  # the control: declared first


def test_nobody_is_called_anonymous() -> None:
    problem = only(refused(BASE + "[keys.anonymous]\ntags = ['x']"))
    assert (problem.code, problem.path) == ("reserved_name", "keys.anonymous")


# ---- variables -----------------------------------------------------------------------------------------------------

WITH_KEY = BASE.replace('base_url = "', 'api_key_env = "ACME_API_KEY"\nbase_url = "', 1)


def test_a_variable_that_is_set() -> None:
    assert loaded(WITH_KEY).policy
    assert loaded(WITH_KEY, {"ACME_API_KEY": "a key with space, printable \n"}).policy


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ({}, "is not set"),
        ({"acme_api_key": "x"}, "is not set"),
        ({"ACME_API_KEY": ""}, "holds no key"),
        ({"ACME_API_KEY": "  "}, "holds no key"),
        ({"ACME_API_KEY": "two\nlines-of-secret"}, "holds what cannot be a key"),
        ({"ACME_API_KEY": "schlüssel"}, "holds what cannot be a key"),
    ],
)
def test_a_variable_that_holds_no_key(env: dict[str, str], what: str) -> None:
    problem = only(refused(WITH_KEY, env))
    assert (problem.code, problem.path) == ("variable_unset", "providers.acme.api_key_env")
    assert problem.line == line_of(WITH_KEY, "api_key_env")
    assert problem.message == f"environment variable ACME_API_KEY {what}."
    assert "secret" not in repr(problem)


def test_every_variable_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only in the environment that was given."""
    monkeypatch.setenv("ACME_API_KEY", "x")
    monkeypatch.setenv("OTHER_KEY", "x")
    other = (
        "[providers.other]\nkind = 'openai_compatible'\nbase_url = 'http://127.0.0.1:1'\napi_key_env = 'OTHER_KEY'\n"
    )
    assert [one[:2] for one in brief(refused(WITH_KEY + other, {}))] == [
        ("variable_unset", "providers.acme.api_key_env"),
        ("variable_unset", "providers.other.api_key_env"),
    ]


def test_only_keys_may_call_and_there_is_none() -> None:
    (warning,) = loaded(BASE + "[auth]\nmode = 'keys'").warnings
    assert (warning.code, warning.severity, warning.path, warning.line) == (
        "nobody_may_call",
        "warning",
        "auth.mode",
        14,
    )
    assert loaded(BASE + f"[auth]\nmode = 'keys'\n[keys.k]\nsha256 = '{HASH}'").warnings == ()
