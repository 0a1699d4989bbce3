"""A credential in the file is refused, and never repeated: not in a message, a path, a suggestion, a remedy."""

from __future__ import annotations

import pytest

from narrows import ConfigError
from narrows.config import secrecy
from tests.core.config.support import BASE, loaded, only, refused

RANDOM = "Zx8fK2mQ9tLw4RbV7nYc3JhD"
HEX = "3f786850e387550fdaab836ed7e6dc881de23001aa"
HASH = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"


def provider(line: str) -> str:
    """The base with this line in its provider."""
    return BASE.replace('base_url = "', line + '\nbase_url = "', 1)


@pytest.mark.parametrize(
    ("text", "secret", "path"),
    [
        (provider('api_key = "sk-live-0123456789abcdef"'), "sk-live-0123456789abcdef", "providers.acme.api_key"),
        (provider('api_key = "hunter2-the-dog"'), "hunter2-the-dog", "providers.acme.api_key"),
        (provider('api_key_env = "sk-live-0123456789abcdef"'), "sk-live-0123456789abcdef", "providers.acme.api_key_env"),
        (provider('api_key_env = "Bearer abcdefgh1"'), "abcdefgh1", "providers.acme.api_key_env"),
        (provider(f'api_key_env = "{RANDOM}"'), RANDOM, "providers.acme.api_key_env"),
        (provider(f'api_key_env = "{HEX}"'), HEX, "providers.acme.api_key_env"),
        (provider(f'token = "{RANDOM}"'), RANDOM, "providers.acme.token"),
        (provider(f'headers = {{ x-title = "{RANDOM}" }}'), RANDOM, "providers.acme.headers.x-title"),
        (provider('proxy = "http://me:pa55word@proxy:1"'), "pa55word", "providers.acme.proxy"),
        (BASE.replace("http://127", "http://me:pa55word@127"), "pa55word", "providers.acme.base_url"),
        (BASE.replace("9901/v1", "9901/v1?key=AIzaSyA1234567890abcdefghijk"), "AIzaSyA", "providers.acme.base_url"),
        (BASE.replace('"large"', '"sk-proj-0123456789"'), "sk-proj-0123456789", "targets.eu.model"),
        (BASE.replace('"eu"\n', f'"{RANDOM}"\n'), RANDOM, "targets.eu.region"),
        (BASE + '[keys.ci]\nsha256 = "nrw_abcdef0123456789"', "nrw_abcdef0123456789", "keys.ci.sha256"),
        (BASE + '[keys.ci]\nsha256 = "hunter2"', "hunter2", "keys.ci.sha256"),
        (BASE + f'[keys.ci]\nsha256 = "{HASH[:-1]}"', HASH[:-1], "keys.ci.sha256"),
        (BASE + '[keys.ci]\nkey = "hunter2"', "hunter2", "keys.ci.key"),
        (BASE + '[keys.ci]\nkey = "nrw_abcdef0123456789"', "nrw_abcdef0123456789", "keys.ci.key"),
        (BASE + '[keys.ci]\ntags = ["nrw_abcdef0123456789"]', "nrw_abcdef0123456789", "keys.ci.tags"),
        (BASE + '[keys.nrw_abcdef0123456789]\ntags = ["x"]', "nrw_abcdef0123456789", "keys.…"),
        (BASE + '[server]\nsk-live-0123456789abcdef = "x"', "sk-live-0123456789abcdef", "server.…"),
        (BASE + '[auth]\nmode = "sk-live-0123456789abcdef"', "sk-live-0123456789abcdef", "auth.mode"),
        (BASE + '[attributes.a]\nvalues = ["ghp_0123456789abcdefghij"]', "ghp_0123456789", "attributes.a.values"),
        (BASE + '[constraints.c]\nkind = "sk-live-0123456789abcdef"', "sk-live-0123456789abcdef", "constraints.c.kind"),
    ],
)  # fmt: skip
def test_a_plaintext_key_is_refused_once_and_not_repeated(text: str, secret: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    problem = only(list(caught.value.problems))
    assert (problem.code, problem.path) == ("plaintext_key", path)
    assert problem.line is not None
    assert secret in text.splitlines()[problem.line - 1]
    assert problem.remedy
    assert secret not in f"{problem!r} {caught.value!r} {caught.value}"


def test_a_secret_is_hidden_in_every_other_problem_too() -> None:
    """The same word elsewhere, as a name that is referred to, as a suggestion."""
    secret = "nrw_abcdef0123456789"
    text = (
        BASE + f'[keys.{secret}]\nrutes = ["chat"]\n[keys.{secret}.attributes]\nx = "y"\n[tenants]\n"{secret}x" = 1\n'
    )
    problems = refused(text.replace('"acme"', f'"{secret}"'))
    assert {one.code for one in problems} == {"plaintext_key"}
    assert secret not in "\n".join(map(repr, problems))


def test_where_a_hash_stands_at_a_misspelt_key_the_spelling_is_the_problem() -> None:
    table, key = refused(BASE + f'[kyes.ci]\nsah256 = "{HASH}"')
    assert (table.code, table.suggestion) == ("unknown_key", "keys")
    assert (key.code, key.suggestion) == ("unknown_key", "sha256")


def test_a_variable_at_a_misspelt_key_too() -> None:
    problem = only(refused(provider('api_key = "ACME_API_KEY"')))
    assert (problem.code, problem.suggestion) == ("unknown_key", "api_key_env")


def test_a_hash_is_read_without_case_and_kept_out_of_texts() -> None:
    found = loaded(BASE + f'[keys.ci]\nsha256 = "{HASH.upper()}"')
    assert found.settings.keys["ci"].sha256 == HASH
    assert HASH not in repr(found)
    assert HASH not in found.canonical


@pytest.mark.parametrize(
    "text",
    [
        "eu-central-1",
        "sk-bratislava-1",
        "sk-bratislava",
        "sk_learn_model",
        "claude-sonnet-4-20250514",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "12345678901234567890123456789012",
        "internationalisation",
        "AZURE_OPENAI_EASTUS2_API_KEY",
        "a bearer of news",
        "prompts/*.txt",
        "http://127.0.0.1:9901/v1",
        "de-nrw",
        "",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    assert not secrecy.is_secret(text)
    assert not secrecy.has_user(text)
    assert loaded(BASE.replace('"large"', f'"{text or "x"}"')).settings.targets["eu"].model == (text or "x")


@pytest.mark.parametrize(
    "text",
    [
        "sk-0123456789",
        "sk-ant-api03-abcdefgh",
        "sk-or-v1-0123456789abcdef",
        "my key is sk-proj-abc123def456",
        "nrw_example_ci",
        "Bearer abcdefghij1",
        "xoxb-0123456789-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "-----BEGIN RSA PRIVATE KEY-----",
        RANDOM,
        HEX,
        HASH,
        "q7x0c1v9b2n8m3k5j4h6g7f8d9s0a1w2",
    ],
)
def test_what_looks_like_a_secret(text: str) -> None:
    assert secrecy.is_secret(text)
    assert secrecy.shown(text) is None


@pytest.mark.parametrize("name", ["ACME_API_KEY", "_X", "A1", "OPENAI_KEY_EASTUS2"])
def test_a_variable_may_be_named(name: str) -> None:
    assert secrecy.is_plain_variable(name)
    problem = only(refused(provider(f'api_key_env = "{name}"'), {}))
    assert (problem.code, name in problem.message) == ("variable_unset", True)


@pytest.mark.parametrize("name", ["acme_key", "hunter2", "A1B2C3D4E5F6G7H8I9J0K1L2"])
def test_a_word_that_may_be_a_password_is_not_repeated(name: str) -> None:
    problem = only(refused(provider(f'api_key_env = "{name}"'), {}))
    assert name not in repr(problem)


def test_values_that_may_be_shown() -> None:
    assert [secrecy.shown(value) for value in (True, 1.5, "eu", "x" * 41, "a\nb", ["x"], 10**50)] == [
        "true", "1.5", "'eu'", None, None, None, None,
    ]  # fmt: skip
