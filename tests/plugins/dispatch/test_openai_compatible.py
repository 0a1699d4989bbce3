"""`openai_compatible`: what is sent, where the key comes from, and that it is never said."""

from __future__ import annotations

import time

import pytest
from pydantic import ValidationError

from narrows import NarrowsError, Services
from narrows_plugins.dispatch.openai_compatible import HEADERS, OpenAICompatible
from tests.plugins.dispatch.attempts import FakeAttempt
from tests.plugins.narrow.ruling import block, hooks

URL = "https://api.acme.example/v1"
VARIABLE = "NARROWS_TEST_ACME_KEY"
CANARY = "sk-canary-4711"
SERVICES = Services(time.monotonic)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> OpenAICompatible:
    monkeypatch.setenv(VARIABLE, CANARY)
    made = block(OpenAICompatible, base_url=URL, api_key_env=VARIABLE)
    made.start(SERVICES)
    return made


@pytest.mark.anyio
async def test_the_body_goes_as_it_is_with_the_accounts_key(started: OpenAICompatible) -> None:
    attempt = FakeAttempt(b'{"model":"m", "x" : 1}', {"traceparent": "00-1", "content-type": "text/plain"})
    reply = await started.dispatch(attempt)
    assert reply.status == 200
    expected = {"traceparent": "00-1", "content-type": "application/json", "authorization": f"Bearer {CANARY}"}
    assert attempt.sent == [("/chat/completions", expected, b'{"model":"m", "x" : 1}')]


@pytest.mark.anyio
async def test_without_a_variable_no_key_is_sent() -> None:
    made = block(OpenAICompatible, base_url=URL)
    made.start(SERVICES)
    attempt = FakeAttempt()
    await made.dispatch(attempt)
    assert attempt.sent == [("/chat/completions", {"content-type": "application/json"}, b"{}")]


@pytest.mark.anyio
async def test_fixed_headers_are_added_and_win() -> None:
    made = block(OpenAICompatible, base_url=URL, headers={"OpenAI-Project": "p1", "x-title": "Our gateway"})
    attempt = FakeAttempt(headers={"x-title": "a caller's"})
    await made.dispatch(attempt)
    ((_, headers, _),) = attempt.sent
    assert headers == {"content-type": "application/json", "openai-project": "p1", "x-title": "Our gateway"}


@pytest.mark.anyio
async def test_before_start_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CANARY)
    attempt = FakeAttempt()
    with pytest.raises(NarrowsError, match="was not started"):
        await block(OpenAICompatible, base_url=URL, api_key_env=VARIABLE).dispatch(attempt)
    assert attempt.sent == []


@pytest.mark.anyio
async def test_a_new_start_reads_the_key_again(started: OpenAICompatible, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " new-key\n")
    started.start(SERVICES)
    attempt = FakeAttempt()
    await started.dispatch(attempt)
    assert attempt.sent[0][1]["authorization"] == "Bearer new-key"


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_a_missing_key_refuses_the_start(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(NarrowsError, match=f"environment variable {VARIABLE} is not set"):
        block(OpenAICompatible, base_url=URL, api_key_env=VARIABLE).start(SERVICES)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nx-evil: 1", f"{CANARY}é"])
def test_what_cannot_be_a_key_refuses_the_start_unsaid(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(NarrowsError, match=f"environment variable {VARIABLE} holds no printable ASCII") as caught:
        block(OpenAICompatible, base_url=URL, api_key_env=VARIABLE).start(SERVICES)
    assert CANARY not in str(caught.value)


def test_the_key_is_in_no_text_of_the_block(started: OpenAICompatible) -> None:
    for text in (
        repr(started),
        str(started),
        started.model_dump_json(),
        repr(vars(started)),
        repr(started.credential()),
    ):
        assert CANARY not in text
    assert started.credential() == VARIABLE
    assert block(OpenAICompatible, base_url=URL).credential() is None


def test_the_registry_takes_it() -> None:
    assert hooks("providers.acme", block(OpenAICompatible, base_url=URL)) == ("dispatch", "start")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (URL, URL),
        ("http://127.0.0.1:9901/v1", "http://127.0.0.1:9901/v1"),
        ("http://[::1]:9901", "http://[::1]:9901"),
        (f"{URL}/", URL),
        ("HTTPS://api.acme.example", "HTTPS://api.acme.example"),
    ],
)
def test_base_urls_that_are_taken(written: str, kept: str) -> None:
    assert block(OpenAICompatible, base_url=written).base_url == kept


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "no http or https URL"),
        ("api.acme.example/v1", "no http or https URL"),
        ("ftp://api.acme.example", "no http or https URL"),
        ("unix:///run/acme.sock", "no http or https URL"),
        ("https://", "no http or https URL"),
        ("https:///v1", "no http or https URL"),
        ("https://acme.example/a b", "no http or https URL"),
        ("https://acme.example/\n", "no http or https URL"),
        ("https://äcme.example/", "no http or https URL"),
        ("https://acme.example\\.other.example/", "no http or https URL"),
        ("https://acme.example:99999/", "is no URL"),
        ("https://acme.example:port/", "is no URL"),
        ("https://[::1", "is no URL"),
        (f"https://user:{CANARY}@acme.example/v1", "must not name a user"),
        (f"https://{CANARY}@acme.example/v1", "must not name a user"),
        (f"{URL}?key={CANARY}", "has a query"),
        (f"{URL}?", "has a query"),
        (f"{URL}#{CANARY}", "has a fragment"),
        (f"{CANARY}", "no http or https URL"),
    ],
)
def test_base_urls_that_are_refused_and_not_repeated(url: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text) as caught:
        block(OpenAICompatible, base_url=url)
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value)
    assert [error["loc"] for error in caught.value.errors()] == [("base_url",)]


def test_a_base_url_is_required() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        block(OpenAICompatible)


@pytest.mark.parametrize("name", [CANARY, "", "A B", "1A", "$ACME", "ACME=1"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ValidationError, match="no name of an environment variable") as caught:
        block(OpenAICompatible, base_url=URL, api_key_env=name)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["authorization", "x-api-key", "api-key", "cookie", "host", "content-length", "x-other"]
)
def test_a_header_that_may_hold_a_credential_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is no header that can be set here; these can: http-referer") as caught:
        block(OpenAICompatible, base_url=URL, headers={name: CANARY})
    assert CANARY not in str(caught.value)
    assert name not in HEADERS


@pytest.mark.parametrize("value", ["", " a", "a\r\nb: c", "é"])
def test_a_header_value_is_printable(value: str) -> None:
    with pytest.raises(ValidationError, match="printable ASCII"):
        block(OpenAICompatible, base_url=URL, headers={"x-title": value})
