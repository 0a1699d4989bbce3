"""The exporter of `narrows serve`: what it reads from the environment, and how little a broken collector costs."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import typer
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from narrows.cli.collecting import collector
from narrows.telemetry import exporter
from narrows.telemetry.exporter import QUIET_SECS, Collector, Telling
from tests.support.otlp import Sink, sink

SECRET = "SECRET-canary-5151"
PATIENCE = 10.0


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library's logger is the process's."""
    library = exporter._LIBRARY
    before, propagate = list(library.handlers), library.propagate
    yield
    library.handlers[:], library.propagate = before, propagate


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch, url: str, **env: str) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    for name, value in env.items():
        monkeypatch.setenv(f"OTEL_{name}", value)
    made = Collector()
    try:
        yield made
    finally:
        assert made.stop(PATIENCE)


def one_span(made: Collector) -> None:
    made.provider.get_tracer("test").start_span("one").end()


def stopped(monkeypatch: pytest.MonkeyPatch, behind: Sink, **env: str) -> Sink:
    """The sink, after one span and a stop."""
    with collecting(monkeypatch, behind.url, **env) as made:
        one_span(made)
    return behind


def test_a_stop_sends_what_is_left_and_says_who_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    with sink() as behind:
        (span,) = stopped(monkeypatch, behind).wait(bool)
    assert (span.name, span.resource["service.name"]) == ("one", "narrows")
    assert span.resource["service.version"]


def test_the_environment_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"SERVICE_NAME": "edge", "RESOURCE_ATTRIBUTES": "service.name=other,team=llm"}
    with sink() as behind:
        (span,) = stopped(monkeypatch, behind, EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc", **said).wait(bool)
        assert behind.headers[0]["authorization"] == "Bearer abc"
    assert (span.resource["service.name"], span.resource["team"]) == ("edge", "llm")


@pytest.mark.parametrize("env", [{"TRACES_SAMPLER": "always_off"}, {"SDK_DISABLED": "true"}], ids=str)
def test_the_environment_may_switch_it_off(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    with sink() as behind:
        assert stopped(monkeypatch, behind, **env).bodies == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "only http/protobuf"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "schedule_delay"),
    ],
)
def test_what_cannot_be_done_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(typer.Exit) as ended:
        collector("otlp")
    assert ended.value.exit_code == 2
    assert said in capsys.readouterr().err


def test_without_the_extra_the_command_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "narrows.telemetry.exporter")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(typer.Exit) as ended:
        collector("otlp")
    assert ended.value.exit_code == 2
    assert "pip install 'narrows[otel]'" in capsys.readouterr().err


def test_none_needs_nothing() -> None:
    assert collector("none") is None


# ---- a collector that is broken ----------------------------------------------------------------------------------


class Given(SpanExporter):
    """Answers as it is told. `wait` may block it."""

    def __init__(self, result: Callable[[], SpanExportResult], wait: threading.Event | None = None) -> None:
        self.result, self.entered, self._wait = result, threading.Event(), wait

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        if self._wait is not None:
            self._wait.wait(PATIENCE)
        return self.result()


def test_a_stop_does_not_wait_for_a_silent_collector(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    silent = Given(lambda: SpanExportResult.SUCCESS, release)
    made = Collector(silent)
    one_span(made)
    try:
        assert not made.stop(0.05)
        assert silent.entered.is_set()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "did not take the last spans within 0.05 s" in caplog.text
    finally:
        release.set()
    for thread in threading.enumerate():
        if thread.name == "narrows-last-spans":
            thread.join(PATIENCE)


def test_what_is_lost_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "narrows.telemetry")
    now, result = [100.0], [SpanExportResult.FAILURE]
    telling = Telling(Given(lambda: result[0]), lambda: "it answered 503", lambda: now[0])
    spans = [ReadableSpan(name=SECRET)] * 3
    for _ in range(100):
        telling.export(spans)
    (line,) = caplog.messages
    assert "does not take spans (it answered 503); 3 are lost so far" in line
    now[0] += QUIET_SECS
    telling.export(spans)
    assert "303 are lost so far" in caplog.messages[1]
    result[0] = SpanExportResult.SUCCESS
    for _ in range(2):
        telling.export(spans)
    assert caplog.messages[2:] == ["the collector takes spans again"]


@pytest.mark.parametrize("status", [401, None], ids=["refuses", "is-down"])
def test_why_is_told_without_the_url(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int | None
) -> None:
    """The library's own lines quote it, with the key that may stand in it."""
    env = {"EXPORTER_OTLP_TIMEOUT": "0.2"}
    with sink(status or 200) as behind:
        env["EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{behind.url}/{SECRET}?key={SECRET}"
        if status is not None:
            stopped(monkeypatch, behind, **env)
    if status is None:  # nobody listens there any more
        stopped(monkeypatch, behind, **env)
    (line,) = caplog.messages
    assert ("it answered 401" if status else "it gave no answer") in line
    assert SECRET not in line
