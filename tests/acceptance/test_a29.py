"""A29 (BerriAI/litellm#32202): a proxy's Authorization was forwarded to the provider verbatim.

A client sends its gateway key in each form that is accepted, and in some that are not: it is in no header, no URL and no
body of any upstream call, on any route, and the provider's own key is.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from narrows import FailureClass
from narrows.testing import failure_answer
from tests.surface.keyring import KEYRING, bearer, secret, sha256
from tests.surface.support import JSON, WAYS, Headers, Site, chat, opened

PROVIDERS = "sk-provider-canary-2f6b9d"
WHO = "all"

FORMS: dict[str, Headers] = {
    "bearer": [bearer(WHO)],
    "bearer, another case": [("Authorization", f"BEARER {secret(WHO)}")],
    "x-api-key": [("x-api-key", secret(WHO))],
    "both": [bearer(WHO), ("x-api-key", secret(WHO))],
    "twice": [("x-api-key", secret(WHO)), ("x-api-key", secret(WHO))],
    "and where vendors look": [
        bearer(WHO),
        ("api-key", secret(WHO)),
        ("x-goog-api-key", secret(WHO)),
        ("proxy-authorization", f"Bearer {secret(WHO)}"),
        ("cookie", f"key={secret(WHO)}"),
        ("x-stainless-api-key", secret(WHO)),
        ("openai-organization", secret(WHO)),
        ("x-narrows-session", secret(WHO)),
        ("x-request-id", secret(WHO)),
        ("referer", f"http://host/?key={secret(WHO)}"),
        ("baggage", f"key={secret(WHO)}"),
        ("traceparent", secret(WHO)),
        ("tracestate", secret(WHO)),
        ("forwarded", f"for={secret(WHO)}"),
    ],
}


@pytest.fixture(scope="module", params=WAYS)
def started(request: pytest.FixtureRequest) -> Iterator[Site]:
    text = KEYRING.replace('base_url = "{url}"', 'base_url = "{url}"\napi_key_env = "A29_KEY"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A29_KEY", PROVIDERS)
        with opened(request.param, text, open_access=False) as site:
            yield site


@pytest.fixture
def site(started: Site) -> Site:
    started.clear()
    return started


def assert_clean(site: Site) -> None:
    """The provider's key is the only one that arrived, in the only place where it belongs."""
    hidden = [secret(WHO), sha256(WHO), base64.b64encode(secret(WHO).encode()).decode()]
    assert site.provider.calls
    for call in site.provider.calls:
        everything = "\n".join((call.path, call.body.decode(), *(f"{k}: {v}" for k, v in call.headers)))
        assert not [word for word in hidden if word in everything]
        assert call.header("authorization") == f"Bearer {PROVIDERS}"
        assert everything.count(PROVIDERS) == 1
        assert call.path == "/v1/chat/completions"
        assert call.header("x-api-key") is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [False, True])
def test_a29_the_callers_key_stays_here_on_every_route(site: Site, form: str, stream: bool) -> None:
    for route in site.gateway.snapshot.routes:
        for path in ("/v1/chat/completions", f"/v1/chat/completions?key={secret(WHO)}"):
            assert site.send(chat(route, stream=stream), (JSON, *FORMS[form]), path=path).status_code == 200
    assert site.provider.count() == 2 * len(site.gateway.snapshot.routes)
    assert_clean(site)


@pytest.mark.parametrize("kind", [FailureClass.SERVER_ERROR, FailureClass.RATE_LIMITED, FailureClass.AUTHENTICATION])
def test_a29_nor_does_it_travel_when_an_attempt_fails(site: Site, kind: FailureClass) -> None:
    for target in site.gateway.snapshot.targets.values():
        site.provider.script(target.model, failure_answer(kind))
    site.send(chat("wide"), (JSON, *FORMS["and where vendors look"]))
    assert_clean(site)


def test_a29_an_unknown_key_reaches_nobody(site: Site) -> None:
    assert site.send(chat(), (JSON, ("x-api-key", secret("stranger")))).status_code == 401
    assert site.provider.calls == []
