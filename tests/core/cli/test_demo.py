"""`narrows demo`: the lines it prints are run as they stand, from a bare environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from narrows.cli.demo import FIRST, MORE
from tests.core.cli.commands import narrows
from tests.support.servers import free_port

PATIENCE = 15.0
LAST = "Every request is told here:"


class Demo:
    """A running demo: what it has printed so far, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def lines(self, more: int = 0) -> list[str]:
        """Everything up to the introduction's end, and so many lines after it."""

        def complete() -> bool:
            return LAST in self._lines and len(self._lines) >= self._lines.index(LAST) + 1 + more

        with self._changed:
            if not self._changed.wait_for(complete, PATIENCE):
                raise TimeoutError(f"it printed only: {self._lines}")
            return list(self._lines)

    def told(self, count: int) -> list[str]:
        """The lines about requests."""
        lines = self.lines(count)
        return lines[lines.index(LAST) + 1 :]

    def stop(self) -> tuple[int, str]:
        """TERM: the exit code and stderr."""
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code, self.process.stderr.read() if self.process.stderr else ""


class Answer(NamedTuple):
    """What a printed line got."""

    status: int
    headers: dict[str, str]
    body: Any


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One demo for the whole module, without our environment and in an empty folder."""
    empty = tmp_path_factory.mktemp("empty")
    bare = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
    command = [sys.executable, "-m", "narrows", "demo", "--port", str(free_port())]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=empty, env=bare
    ) as process:
        running = Demo(process)
        try:
            yield running
            code, said = running.stop()
            assert code == 0
            assert said == ""
            assert list(empty.iterdir()) == []
        finally:
            process.kill()


def run(line: str) -> Answer:
    """Run a printed curl line as a shell would, with curl where there is one."""
    arguments = shlex.split(line)
    assert arguments[:2] == ["curl", "-si"]
    return with_curl(line) if shutil.which("curl") else with_urllib(arguments)


def with_curl(line: str) -> Answer:
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True, text=True, timeout=PATIENCE)
    head, _, body = done.stdout.partition("\n\n")
    status, *headers = head.splitlines()
    return Answer(int(status.split()[1]), dict(header.split(": ", 1) for header in headers), json.loads(body))


def with_urllib(arguments: list[str]) -> Answer:
    url, *options = arguments[2:]
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(value.split(": ", 1) for option, value in given if option == "-H")
    (body,) = [value.encode() for option, value in given if option == "-d"]
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - the line it printed, on 127.0.0.1
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(request, timeout=PATIENCE)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, json.load(answer))


def curls(demo: Demo) -> list[str]:
    return [line for line in demo.lines() if line.startswith("curl ")]


def test_the_printed_lines_do_what_they_say(demo: Demo) -> None:
    answers = [run(line) for line in curls(demo)]
    served, moved, refused, failover, stayed, stopped = answers

    assert (served.status, served.headers["x-narrows-target"]) == (200, "us-large")
    assert served.body["choices"][0]["message"]["content"] == "us-large-1: Hello"

    assert (moved.status, moved.headers["x-narrows-target"]) == (200, "eu-main")
    assert moved.body["choices"][0]["message"]["content"] == "eu-main-1: Hello"

    assert (refused.status, refused.headers["x-narrows-code"]) == (403, "no_eligible_target")
    assert refused.body["error"]["exclusions"] == [
        {"constraint": "private-only", "code": "class", "count": 1},
        {"constraint": "residency", "code": "attribute_mismatch", "count": 1},
    ]
    assert "0 of 2 targets eligible" in refused.body["error"]["message"]

    assert (failover.status, failover.headers["x-narrows-target"]) == (200, "us-large")
    assert failover.headers["x-narrows-attempts"] == "2"

    assert (stayed.status, stayed.headers["x-narrows-class"]) == (429, "rate_limited")
    assert stayed.headers["x-narrows-attempts"] == "1"

    assert (stopped.status, stopped.headers["x-narrows-class"]) == (400, "content_policy")
    assert (stopped.headers["x-narrows-target"], stopped.headers["x-narrows-attempts"]) == ("us-strict", "1")

    away = "(region is not eu [residency])"
    assert [line.split("; ") for line in demo.told(6)] == [
        ["chat: 200 answered by us-large", "calls so far: us-large 1, eu-main 0, us-backup 0"],
        [
            "chat: 200 answered by eu-main",
            f"ruled out us-large, us-backup {away}",
            "calls so far: us-large 1, eu-main 1, us-backup 0",
        ],
        [
            "vault: 403 refused (no_eligible_target), nobody was asked",
            f"ruled out eu-main (class is not private [private-only]), us-backup {away}",
            "calls so far: us-backup 0, eu-main 1",
        ],
        ["failover: 200 answered by us-large after eu-busy (rate_limited)", "calls so far: eu-busy 1, us-large 2"],
        [
            "failover: 429 failed at eu-busy (rate_limited)",
            f"ruled out us-large {away}",
            "calls so far: eu-busy 2, us-large 2",
        ],
        ["refused: 400 failed at us-strict (content_policy)", "calls so far: us-strict 1, us-large 2"],
    ]


def test_it_says_where_it_is_and_what_each_line_shows(demo: Demo) -> None:
    lines = demo.lines()
    assert re.fullmatch(
        r"narrows demo on http://127\.0\.0\.1:\d+ \(this machine only; .*Stop it with Ctrl-C\.", lines[0]
    )
    assert re.fullmatch("policy [0-9a-f]{64}", lines[2])
    for number, scene in enumerate((*FIRST, *MORE), start=1):
        assert lines[lines.index(f"{number}. {scene.shows}") + 1].startswith("curl ")
    assert len(FIRST) == 3


def test_its_file_is_an_ordinary_one(demo: Demo) -> None:
    file = Path(demo.lines()[1].removeprefix("Its configuration: "))
    assert file.read_text("utf-8") == files("narrows.cli").joinpath("demo.toml").read_text("utf-8")
    checked = narrows("check", file, "--json")
    assert (checked.code, checked.json()["problems"]) == (0, [])
    explained = narrows("explain", file, "--route", "vault", "--header", "x-region=eu", "--json")
    assert (explained.code, explained.json()["code"]) == (1, "no_eligible_target")


def test_a_busy_port_exits_1_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        ran = narrows("demo", "--port", busy.getsockname()[1])
    assert (ran.code, ran.stdout) == (1, "")
    assert "is in use. Stop what listens there, or choose another: `narrows demo --port" in ran.stderr


def test_urllib_would_do_where_there_is_no_curl(demo: Demo) -> None:
    before = len(demo.told(6))
    assert with_urllib(shlex.split(curls(demo)[1])).headers["x-narrows-target"] == "eu-main"
    assert demo.told(before + 1)[-1].startswith("chat: 200 answered by eu-main")
