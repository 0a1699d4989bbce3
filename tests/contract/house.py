"""One gateway full of hostile plugins, and how a test speaks to it: as a process of its own, or in this one.

Every plugin is silent until a request says its act in the header `x-act`. So one gateway serves all tests of a run, and
the same request without that header is each test's positive control.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import httpx
from starlette.testclient import TestClient

from narrows import Gateway
from narrows.errors import STATUS
from narrows.server import Application
from narrows.testing import Answer, RecordingProvider, Script
from tests.contract.configuration import config
from tests.contract.distribution import install, kinds
from tests.support.process import narrows_process

Way: TypeAlias = Literal["process", "asyncio", "trio"]
T = TypeVar("T")
PROMPT = "a prompt that no log may hold"
CREDENTIAL = "a credential that no log may hold"
PATIENCE = 5.0


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        """The body. Raises ValueError where it is no JSON."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    @property
    def code(self) -> str:
        """Our own stable code, "ok" where there is none. It stands in the header and in the error alike."""
        return self.headers.get("x-narrows-code", "ok")

    @property
    def message(self) -> str:
        """The error's message."""
        message: str = self.json["error"]["message"]
        return message

    @property
    def target(self) -> str | None:
        """Who answered."""
        return self.headers.get("x-narrows-target")


class House:
    """The gateway, its upstream, and somebody else's server. `decisions`: what the honest sink has kept."""

    def __init__(
        self,
        client: httpx.Client | TestClient,
        said: Callable[[], str],
        upstream: RecordingProvider,
        elsewhere: RecordingProvider,
        kept: Path,
    ) -> None:
        self._client, self._said, self._kept = client, said, kept
        self.upstream, self.elsewhere = upstream, elsewhere
        self._read = 0
        self._scripted: set[str] = set()

    def ask(
        self,
        act: str | None = None,
        *,
        route: str = "chat",
        region: str = "eu",
        caller: str | None = None,
        path: str = "/v1/chat/completions",
        **more: object,
    ) -> Answered:
        """One chat request, with the act where there is one. `more`: further fields of the body."""
        headers = {"x-region": region, "x-secret": CREDENTIAL}
        if act is not None:
            headers |= {"x-act": act, "openai-beta": act}
        if caller is not None:
            headers["x-caller"] = caller
        body = {"model": route, "messages": [{"role": "user", "content": PROMPT}], **more}
        answer = self._client.post(path, json=body, headers=headers)
        return Answered(answer.status_code, dict(answer.headers), answer.content)

    def script(self, model: str, *answers: Script) -> None:
        """What the upstream answers for that model, until `clear`."""
        self._scripted.add(model)
        self.upstream.script(model, *answers)

    def clear(self) -> None:
        """Forget what was called, scripted and logged so far."""
        for model in self._scripted:
            self.upstream.script(model, Answer())
        self._scripted.clear()
        for server in (self.upstream, self.elsewhere):
            server.clear()
        self._read = len(self._said())

    @property
    def called(self) -> list[str | None]:
        """The models that the upstream was asked for, in order."""
        return [call.model for call in self.upstream.calls]

    @property
    def log(self) -> list[str]:
        """The lines that were logged since `clear`, but for those that tell of a request."""
        return [line for line in self._said()[self._read :].splitlines() if "decision=dec_" not in line]

    @property
    def everything_said(self) -> str:
        """All that was ever logged."""
        return self._said()

    def wait_log(self, *words: str) -> str:
        """The first line with all these words; waits for it. Raises TimeoutError."""
        return self._wait(lambda: next((line for line in self.log if all(w in line for w in words)), None), words)

    def wait_decision(self, answer: Answered) -> dict[str, Any]:
        """The decision of that answer, as the sink has it; waits for it. Raises TimeoutError."""
        return self._wait(lambda: self._decision(answer.headers["x-narrows-decision"]), answer)

    def _decision(self, ident: str) -> dict[str, Any] | None:
        if not self._kept.exists():
            return None
        rows = self._kept.read_text("utf-8").split("\n")[:-1]  # the last one may still be being written
        return next((json.loads(row) for row in rows if ident in row), None)

    def _wait(self, find: Callable[[], T | None], what: object) -> T:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = find()
            if found is not None:
                return found
            time.sleep(0.01)  # another process's files: nothing can be awaited
        raise TimeoutError(f"nothing of {what!r} within {PATIENCE:g} s; the log:\n{self._said()}")


def refused(house: House, answer: Answered, plugin: str, hook: str, code: str, says: str = "") -> None:
    """Refused with its plugin's name and a stable code, nothing was sent anywhere, and one line of the log says so."""
    assert (answer.status, answer.code) == (STATUS[code], code), answer.body
    assert answer.json["error"]["code"] == code
    assert f"plugin {plugin!r}" in answer.message
    assert says in answer.message
    assert house.called == []
    assert house.elsewhere.connections == 0
    named(house, plugin, hook)


def named(house: House, plugin: str, hook: str) -> str:
    """The one line that names the plugin and its hook; and nothing else was logged."""
    (line,) = house.log
    assert re.search(rf"\b{plugin}\b", line)
    assert re.search(rf"\bhook '?{hook}\b", line)
    return line


def served(house: House, answer: Answered, by: str = "eu") -> None:
    """The positive control: answered by that target, with one call, in silence."""
    assert (answer.status, answer.code, answer.target) == (200, "ok", by), answer.body
    assert house.called == [by]
    assert house.log == []


# ---- the ways to run it ------------------------------------------------------------------------------------------


@contextmanager
def house(way: Way, folder: Path) -> Iterator[House]:
    """The gateway of that configuration: `python -O -m narrows serve`, or in this process on asyncio or trio."""
    kept = folder / "decisions.jsonl"
    file = folder / "narrows.toml"
    with RecordingProvider() as upstream, RecordingProvider() as elsewhere:
        file.write_text(config(upstream, elsewhere, kept), "utf-8")
        if way == "process":
            path = os.pathsep.join([str(install(folder / "site")), os.environ.get("PYTHONPATH", "")])
            with (
                narrows_process(file, env={"PYTHONPATH": path.rstrip(os.pathsep)}) as running,
                httpx.Client(base_url=running.url, timeout=PATIENCE, trust_env=False) as client,
            ):
                yield House(client, lambda: running.stderr, upstream, elsewhere, kept)
        else:
            gateway = Gateway.from_file(file, kinds=kinds(), open_access=True)
            with (
                logged() as lines,
                TestClient(Application(gateway), backend=way, raise_server_exceptions=False) as inside,
            ):
                yield House(inside, lambda: "".join(lines), upstream, elsewhere, kept)


@contextmanager
def logged() -> Iterator[list[str]]:
    """Every line that narrows logs in this process."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {self.format(record)}\n")

    log = logging.getLogger("narrows")
    handler, level = Keep(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
