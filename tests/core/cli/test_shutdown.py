"""The end of `narrows serve`: who is told what, who is waited for and for how long, and what stands in the record then."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from narrows.cli.draining import TURNS, Draining
from narrows.testing import Answer, Hold, RecordingProvider, Stream, event
from tests.e2e.support import CHAT, PROMPT, Caller, chat
from tests.support.config import basic_config, write_config
from tests.support.process import NarrowsProcess, narrows_process
from tests.support.servers import HOST, Server

if TYPE_CHECKING:
    from narrows.gateway import Gateway

PATIENCE = 20.0
FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello there"}}]})
DONE = b"data: [DONE]\n\n"
LONG = "shutdown_grace_secs = 600\n"
"""A grace that no test waits for: what ends before it was not ended by it."""


@contextmanager
def running(provider: RecordingProvider, folder: Path, server: str = LONG) -> Iterator[NarrowsProcess]:
    text = basic_config({"acme": provider.base_url}, more=f"[server]\n{server}")
    with narrows_process(write_config(folder, text), arguments=("--log-format", "json")) as process:
        yield process


def caller(process: NarrowsProcess, *, stream: bool = True) -> Caller:
    return Caller(Server(process.port, "asyncio"), chat("chat", stream=stream), {})


def get(process: NarrowsProcess, path: str) -> httpx.Response:
    return httpx.get(process.url + path, timeout=PATIENCE, trust_env=False)


def post(process: NarrowsProcess, path: str = CHAT) -> httpx.Response:
    return httpx.post(process.url + path, json=chat("chat"), timeout=PATIENCE, trust_env=False)


def eventually(true: Callable[[], bool], what: str) -> None:
    """Wait for what another process does, and tells by no event."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.02)


def send(process: NarrowsProcess, number: signal.Signals = signal.SIGTERM) -> None:
    """Send it, and wait until the gateway has heard it."""
    process.process.send_signal(number)
    eventually(lambda: get(process, "/health/ready").status_code == 503, "readiness turns")


def lines(process: NarrowsProcess, logger: str = "narrows.requests") -> list[dict[str, Any]]:
    """The log lines of that logger. Every line of the process is an object."""
    found = [json.loads(line) for line in process.stderr.splitlines()]
    return [line for line in found if line["logger"] == logger]


def quiet(process: NarrowsProcess) -> bool:
    """Nothing went wrong on its way out, nobody's words are in the log."""
    levels = {json.loads(line)["level"] for line in process.stderr.splitlines()}
    return levels <= {"info", "warning"} and PROMPT not in process.stderr


# ---- TERM under load -------------------------------------------------------------------------------------------------


def test_64_streams_half_finish_and_half_are_cut_by_an_event(tmp_path: Path) -> None:
    halves = [Stream((FIRST, Hold(name), DONE)) for name in ("finishes", "never")] * 32
    database = tmp_path / "decisions.db"
    ledger = f'{LONG}[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{database}"\n'
    with RecordingProvider() as provider, running(provider, tmp_path, ledger) as process, ExitStack() as callers:
        provider.script("acme", *halves)
        served: dict[str, list[Caller]] = {"finishes": [], "never": []}
        for number in range(64):
            one = callers.enter_context(caller(process))
            one.read_until(b"Hello there")
            served["never" if number % 2 else "finishes"].append(one)
        send(process)
        provider.open("finishes")
        for one in served["finishes"]:
            assert one.read_all().endswith(DONE + b"\r\n0\r\n\r\n")
        assert process.process.poll() is None
        process.process.send_signal(signal.SIGTERM)  # the second one: the grace is over
        for one in served["never"]:
            got = one.read_all()
            assert b"[DONE]" not in got
            assert got.endswith(b"\n\n\r\n0\r\n\r\n")  # a whole event, and a clean end of the connection's answer
            assert json.loads(got.rpartition(b"data: ")[2].splitlines()[0])["error"]["code"] == "stopping"
        assert process.process.wait(PATIENCE) == 0
        provider.wait_open(0)
        rows = [row for row in lines(process) if row["route"] == "chat"]  # the others are refused health checks
        assert len({row["decision"] for row in rows}) == len(rows) == sum(row["attempts"] for row in rows) == 64
        assert provider.count() == 64
        ends = [(row["outcome"], row["code"], row["status"], row["class"]) for row in rows]
        assert ends.count(("answered", "ok", 200, "ok")) == 32
        assert ends.count(("upstream_incomplete", "stopping", 200, "ok")) == 32
    with closing(sqlite3.connect(database)) as kept:
        decided = [key for (key,) in kept.execute("SELECT id FROM decisions")]
        attempts = kept.execute("SELECT id, decision, class FROM attempts").fetchall()
        assert kept.execute("SELECT count(*) FROM gaps").fetchone() == (0,)
    assert sorted(decided) == sorted(row["decision"] for row in rows) == sorted(row[1] for row in attempts)
    assert len({row[0] for row in attempts}) == 64
    assert {row[2] for row in attempts} == {"ok"}
    assert quiet(process)


def test_nothing_new_begins_and_who_asks_is_told(tmp_path: Path) -> None:
    with RecordingProvider(Stream((FIRST, Hold(), DONE))) as provider, running(provider, tmp_path) as process:
        assert get(process, "/health/ready").status_code == 200
        kept = http.client.HTTPConnection(HOST, process.port, timeout=PATIENCE)
        kept.request("GET", "/v1/models")
        kept.getresponse().read()
        with caller(process) as one:
            one.read_until(b"Hello there")
            send(process)
            for path in (CHAT, "/v1/explain"):
                refused = post(process, path)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "stopping")
                assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
                assert "x-should-retry" not in refused.headers
            ready = get(process, "/health/ready")
            assert (ready.headers["x-narrows-code"], ready.headers["retry-after"]) == ("stopping", "1")
            assert get(process, "/health/live").status_code == 200
            kept.request("GET", "/v1/models")  # the connection of before is still served, for the last time
            assert kept.getresponse().headers["connection"] == "close"
            kept.close()
            assert provider.count() == 1
            provider.release()
            assert one.read_all().endswith(DONE + b"\r\n0\r\n\r\n")
        assert process.process.wait(PATIENCE) == 0  # long before the grace: nothing is in flight any more
        (answered,) = [row for row in lines(process) if row["outcome"] == "answered"]
        assert answered["attempts"] == 1
    assert quiet(process)


# ---- what must not hold it up ----------------------------------------------------------------------------------------


def half(process: NarrowsProcess, path: str) -> socket.socket:
    """A request whose body does not come."""
    connection = socket.create_connection((HOST, process.port), PATIENCE)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n"
    connection.sendall(head.encode() + b'{"model": "chat"')
    return connection


def read_all(connection: socket.socket) -> bytes:
    got = b""
    while chunk := connection.recv(65536):
        got += chunk
    return got


def test_whatever_hangs_is_told_or_hung_up_on_when_the_grace_is_over(tmp_path: Path) -> None:
    flood = Stream((FIRST, *[b": " + b"x" * 65536 + b"\n\n"] * 1024, Hold("never")))
    with (
        RecordingProvider() as provider,
        running(provider, tmp_path, "shutdown_grace_secs = 0.5\n") as process,
        ExitStack() as open_,
    ):
        idle = open_.enter_context(socket.create_connection((HOST, process.port), PATIENCE))
        idle.sendall(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        greeting = b""
        while not greeting.endswith(b'"live"}'):
            greeting += idle.recv(65536)
        head = open_.enter_context(socket.create_connection((HOST, process.port), PATIENCE))
        head.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost:")
        bodies = [open_.enter_context(half(process, path)) for path in (CHAT, "/v1/explain")]
        provider.script("acme", Answer(before=Hold("never")), Answer(status=503, headers={"retry-after": "9"}), flood)
        unanswered = open_.enter_context(caller(process, stream=False))
        provider.wait_calls(1)
        repeating = open_.enter_context(caller(process))
        provider.wait_calls(2)
        deaf = open_.enter_context(caller(process))
        deaf.read_until(b"Hello there")  # and never again
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(PATIENCE) == 0
        for got in (read_all(bodies[0]), read_all(bodies[1]), unanswered.read_all(), repeating.read_all()):
            assert got.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in got
            assert b'"code":"stopping"' in got
        assert read_all(idle) == read_all(head) == b""
        assert provider.count() == 3  # nobody was asked again
        provider.wait_open(0)
        rows = [(row["attempts"], row["outcome"], row["code"], row["status"]) for row in lines(process)]
        assert sorted(rows) == [
            (0, "refused", "stopping", 503),
            (0, "refused", "stopping", 503),
            (1, "refused", "stopping", 503),
            (1, "refused", "stopping", 503),
            (1, "upstream_incomplete", "stopping", 200),
        ]
    assert quiet(process)


def test_a_third_signal_waits_for_nothing(tmp_path: Path) -> None:
    with (
        RecordingProvider(Stream((FIRST, Hold("never")))) as provider,
        running(provider, tmp_path) as process,
        caller(process) as one,
    ):
        one.read_until(b"Hello there")
        send(process)
        for _ in range(2):
            process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("times", [1, 2])
def test_int_drains_too_and_exits_130(tmp_path: Path, times: int) -> None:
    answers: list[httpx.Response] = []
    processes = []

    def interrupt() -> None:
        with (
            RecordingProvider(Answer(before=Hold())) as provider,
            running(provider, tmp_path) as process,
        ):
            processes.append(process)
            asking = threading.Thread(target=lambda: answers.append(post(process)))
            asking.start()
            provider.wait_held(1)
            send(process, signal.SIGINT)
            if times == 1:
                provider.release()
            else:
                process.process.send_signal(signal.SIGINT)
            process.process.wait(PATIENCE)
            asking.join(PATIENCE)

    with pytest.raises(RuntimeError, match="it ended with 130"):
        interrupt()
    assert [answer.status_code for answer in answers] == [200 if times == 1 else 503]
    assert quiet(processes[0])


# ---- step by step, on a clock of the test's own ----------------------------------------------------------------------


@dataclass
class Stopped:
    """A gateway with one request in flight, its connection, and the time."""

    in_flight: int = 1
    unsent: int = 0
    now: float = 100.0
    done: list[str] = field(default_factory=list)

    def drain(self) -> None:
        self.done.append("drain")

    def cut(self) -> None:
        self.done.append("cut")

    @property
    def transport(self) -> Stopped:
        return self

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.done.append("abort")


@pytest.fixture
def stopped() -> Stopped:
    return Stopped()


@pytest.fixture
def draining(stopped: Stopped) -> Draining:
    return Draining(cast("Gateway", stopped), 30.0, lambda: [stopped], lambda: stopped.now)


def test_each_step_has_its_time(stopped: Stopped, draining: Draining) -> None:
    assert draining.signal()
    assert (draining.began, stopped.done) == (True, ["drain"])  # with the signal itself, not a tick later
    for now, over, done in [
        (100.0, False, ["drain"]),
        (129.9, False, ["drain"]),
        (130.0, False, ["drain", "cut"]),
        (130.9, False, ["drain", "cut"]),
        (131.0, False, ["drain", "cut", "abort"]),
        (135.9, False, ["drain", "cut", "abort"]),
        (136.0, True, ["drain", "cut", "abort"]),
    ]:
        stopped.now = now
        assert ([draining.over() for _ in range(TURNS)][-1], stopped.done) == (over, done), now


def test_a_process_that_gets_no_time_tells_before_it_hangs_up(stopped: Stopped, draining: Draining) -> None:
    draining.signal()
    stopped.now = 130.0
    draining.over()
    stopped.now = 134.0  # nothing of ours ran meanwhile
    assert not any(draining.over() for _ in range(TURNS - 1))
    assert stopped.done == ["drain", "cut"]
    draining.over()
    assert stopped.done == ["drain", "cut", "abort"]


def test_it_is_over_as_soon_as_nothing_is_in_flight_and_all_is_sent(stopped: Stopped, draining: Draining) -> None:
    draining.signal()
    stopped.in_flight, stopped.unsent = 0, 7
    assert not draining.over()  # the caller has not read the end of its answer
    stopped.unsent = 0
    assert draining.over()
    assert stopped.done == ["drain"]


def test_a_second_signal_ends_the_grace_and_a_third_everything(stopped: Stopped, draining: Draining) -> None:
    assert draining.signal()
    assert not draining.over()
    assert draining.signal()
    assert not draining.over()
    assert stopped.done == ["drain", "drain", "cut"]
    assert not draining.signal()
