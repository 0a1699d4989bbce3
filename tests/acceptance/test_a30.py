"""A30 (BerriAI/litellm#24902, #8075): a provider's key in the URL's query appeared in exceptions and logs.

A provider that puts its key there is answered 404 (and everything else that can go wrong): the key is in no body and no
header that the caller gets, in no log line at DEBUG, on no span, in no record, in no byte of the ledger's files, in no
metric and in no exception's `repr`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from narrows import Attempt, FailureClass, Gateway, Provider, Reply, Services, hookimpl
from narrows.errors import ConfigError
from narrows.testing import (
    Answer,
    RecordingProvider,
    Redirect,
    Refuse,
    Script,
    Stall,
    Stream,
    error_event,
    failure_answer,
    stream_events,
)
from tests.e2e.support import until
from tests.surface.spans import Spans
from tests.surface.support import JSON, WAYS, Log, Site, chat, opened

KEY = "AIza-canary-9c4e=+7f"
QUOTED = quote(KEY, safe="")

SCRAPER = "nrw_scraper_51c7"

TEXT = """
[providers.first]
kind = "keyed"
base_url = "{url}"
max_retries = 0
timeout_secs = 0.3

[targets.only]
provider = "first"
model = "m-1"

[routes.chat]
targets = ["only"]
"""


class Keyed(Provider):
    """A vendor that takes its key in the query, as some do."""

    base_url: str

    @hookimpl
    def start(self, services: Services) -> None:
        """Read the key."""
        if not os.environ.get("A30_KEY"):
            raise RuntimeError("A30_KEY is not set")

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send it in the query."""
        key = quote(os.environ["A30_KEY"], safe="")
        return await attempt.send(f"/chat/completions?alt=sse&key={key}", attempt.headers, attempt.body)


@pytest.fixture(scope="module")
def spans() -> Spans:
    return Spans()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger's, and nobody else's."""
    return tmp_path_factory.mktemp("ledger")


@pytest.fixture(scope="module", params=WAYS)
def site(request: pytest.FixtureRequest, spans: Spans, folder: Path) -> Iterator[Site]:
    server = f'[server]\nmetrics_key_sha256 = "{hashlib.sha256(SCRAPER.encode()).hexdigest()}"\n'
    sink = f'[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{folder / request.param}.db"\n'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A30_KEY", KEY)
        kinds = {"providers.keyed": Keyed}
        with opened(request.param, server + TEXT + sink, kinds=kinds, tracer_provider=spans.provider) as site:
            yield site


FAILURES: dict[str, Script] = {
    "404": Answer(404),
    "404 with a body": Answer(404, {"error": {"message": "models/m-1 is not found", "code": 404}}),
    "404 that quotes the key": Answer(404, {"error": {"message": f"no such method for key {KEY}"}}),
    "404 that quotes the URL": Answer(404, f"<title>/v1/chat/completions?alt=sse&key={QUOTED}</title>".encode()),
    "an event that quotes it": Stream(
        (*stream_events("m-1")[:2], error_event(FailureClass.SERVER_ERROR, message=f"?key={QUOTED} failed"))
    ),
    "a first event that does": Stream((error_event(FailureClass.SERVER_ERROR, message=f"?key={QUOTED} failed"),)),
    "401": failure_answer(FailureClass.AUTHENTICATION, message=f"API key not valid: {KEY}"),
    "429": Answer(429),
    "503": Answer(503),
    "a redirect to itself": Redirect(307, f"http://127.0.0.1:9/v1/chat/completions?key={QUOTED}"),
    "closed": Refuse(),
    "silent": Stall(),
    "cut": Stream((b"data: {",), cut_at=7),
    "no answer": Answer(200, b"<html>"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("stream", [False, True])
def test_a30_a_key_in_the_query_is_found_nowhere(
    site: Site, spans: Spans, folder: Path, failure: str, stream: bool
) -> None:
    site.clear()
    spans.clear()
    site.provider.script("m-1", FAILURES[failure])
    with Log("", logging.DEBUG) as everything:
        response = site.send(chat(stream=stream), [JSON])
        decision = site.decision(response)
        site.log.wait(decision.id)
    (call,) = site.provider.calls
    assert QUOTED in call.path  # it was there
    told = [response.text, str(response.headers), repr(decision), str(decision.document())]
    told += [span.to_json() for span in spans.all()]
    told += [line for line in everything.lines if f"key={QUOTED}" not in line or "narrows" in line]
    recorders = site.gateway.engine.recorders
    until(lambda: not recorders.queued, "decisions to be written", lambda: recorders.queued)
    stored = [file.read_bytes().decode("latin-1") for file in folder.iterdir()]
    assert any(decision.id in data for data in stored)
    metrics = site.get("/metrics", [("authorization", f"Bearer {SCRAPER}")]).text
    assert 'target="only"' in metrics
    told += [*stored, metrics]
    assert not [text for text in told if KEY in text or QUOTED in text or "canary" in text]
    assert response.status_code >= 400 or stream


def test_a30_an_exception_does_not_hold_it() -> None:
    """A vendor that cannot be reached: everything that hangs on the exception, to the last cause."""
    import anyio

    from narrows.upstream import Clients, Origin, UpstreamFault

    async def call(port: int) -> BaseException:
        clients = Clients()
        try:
            origin = Origin(base_url=f"http://127.0.0.1:{port}/v1", timeout_secs=0.3, max_connections=1, proxy=None)
            await clients.send(origin, "POST", f"/chat/completions?key={QUOTED}", {"x-key": KEY}, b"{}")
        except UpstreamFault as fault:
            return fault
        finally:
            await clients.aclose()
        raise AssertionError("it answered")

    with RecordingProvider(Refuse()) as provider:
        for backend in ("asyncio", "trio"):
            error = anyio.run(call, provider.port, backend=backend)
            text = "".join(traceback.format_exception(error, chain=True)) + repr(error) + str(error) + repr(vars(error))
            assert "canary" not in text


def test_a30_our_own_kind_takes_no_key_in_a_query() -> None:
    """A load error, which does not repeat it."""
    text = TEXT.replace('"keyed"', '"openai_compatible"').replace("{url}", f"https://api.example/v1?key={QUOTED}")
    with pytest.raises(ConfigError) as caught:
        Gateway.from_text(text)
    assert "has a query" in str(caught.value)
    assert "canary" not in str(caught.value) + repr(caught.value)
