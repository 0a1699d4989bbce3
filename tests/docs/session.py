"""A page's commands, run as a reader would: one shell, one folder, files as the page writes them, in the page's order.

A python block runs in the test's own process; an application in it has to start and to be ready. A console block is either commands alone, each of which must succeed, or `$ command` lines with what they print. There `…`
stands for any text within a line, and a line of it alone for any lines. `narrows serve` and `narrows demo` start in the
background on a free port, which takes the place of 8000 in everything after; the next one, or the page's end, stops it.
"""

from __future__ import annotations
import __future__

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from starlette.testclient import TestClient

from tests.docs.pages import Block, Page
from tests.support.servers import free_port

PATIENCE = 30.0
_SAY_DONE = 'printf "\\n--done-- %s\\n" "$?"'
_DONE = re.compile(r"^--done-- (\d+)$")
_SERVES = re.compile(r"narrows (serve|demo)\b")
_FILE = re.compile(r"^`([\w./-]+)`:$")
_MORE = re.compile(r"to `([\w./-]+)`:$")


class Differs(AssertionError):
    """A command did not do what the page says."""


def steps(page: Page) -> Iterator[tuple[str, str]]:
    """What a reader does, in order: ("command", text), ("file", name + text), ("more", name + text), ("prints", text)."""
    for block in page.blocks:
        last = (block.before.strip().splitlines() or [""])[-1]
        if block.language == "console":
            yield from commands(block)
        elif block.language != "text":
            for word, form in (("file", _FILE), ("more", _MORE)):
                named = form.search(last)
                if named is not None:
                    yield word, f"{named[1]}\n{block.source}"
            if block.language == "python":
                yield "python", block.source


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of one block. A line that ends in a backslash goes on; so does one inside a here-document."""
    prompted = block.source.startswith("$ ")
    lines = iter(block.source.splitlines())
    for line in lines:
        if prompted and not line.startswith("$ "):
            yield "prints", line
            continue
        command = line.removeprefix("$ ") if prompted else line
        while command.endswith("\\"):
            command = f"{command}\n{next(lines)}"
        if command.strip():
            yield ("command" if prompted else "succeeds"), command


def matches(expected: list[str], printed: list[str]) -> bool:
    """Is this what was printed? Blank lines and space at the ends of lines do not count."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        elif line.strip():
            pattern += ".*?".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
    text = "".join(f"{line.rstrip()}\n" for line in printed if line.strip())
    return re.fullmatch(pattern, text) is not None


def ready(names: Mapping[str, Any]) -> None:
    """An application that a program defines starts, and the gateway in it is ready, or says that its file lets nobody in
    (README says so of its own)."""
    app = names.get("app")
    if app is not None:
        with TestClient(app) as client:
            answer = client.get("/llm/health/ready")
            assert answer.status_code == 200 or answer.headers["x-narrows-code"] == "auth_unset"


class Session:
    """The shell. Everything that it started has ended when it is left."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {"PATH": path, "HOME": str(folder), "COLUMNS": "120", "LANG": "C.UTF-8", "NO_COLOR": "1"}
        self._environment |= environment or {}
        self._serving = False

    def __enter__(self) -> Self:
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._shell.poll() is None:
                self.stop()
        finally:
            self._shell.communicate("exit\n", timeout=PATIENCE)

    def follow(self, page: Page) -> int:
        """Do everything that the page says. The number of commands and programs. Raises Differs at the first that does otherwise."""
        done, count = list(steps(page)), 0
        for place, (what, text) in enumerate(done):
            if what in ("file", "more"):
                name, _, source = text.partition("\n")
                with (self.folder / name).open("a" if what == "more" else "w", encoding="utf-8") as file:
                    file.write(source)
            elif what == "python":
                ready(self.execute(text))
                count += 1
            elif what in ("command", "succeeds"):
                expected = []
                for word, line in done[place + 1 :]:
                    if word != "prints":
                        break
                    expected.append(line)
                self.check(text, expected)
                count += 1
        return count

    def execute(self, source: str) -> dict[str, Any]:
        """What a program defines, after it ran here. Annotations are not looked at: a page may show a bare signature."""
        names: dict[str, Any] = {"__name__": __name__}  # pydantic asks the module by its name
        code = compile(self._ported(source), "<page>", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
        exec(code, names)  # noqa: S102 - our own page
        return names

    def check(self, command: str, expected: list[str]) -> None:
        """One command, and what it should print; nothing: it should succeed."""
        expected = [self._ported(line) for line in expected]
        if _SERVES.match(command):
            printed, code = self.serve(command), 0
            printed = printed[: len([line for line in expected if line.strip()])]
        else:
            code, printed = self.run(command)
        shown = "\n".join(printed)
        if expected and not matches(expected, printed):
            raise Differs(f"$ {command}\nprinted\n{shown}\nand the page says\n" + "\n".join(expected))
        if not expected and code != 0:
            raise Differs(f"$ {command}\nended with {code} and printed\n{shown}")

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit code, and the lines on stdout and stderr."""
        script = self.folder / ".command"
        script.write_text(self._ported(command) + "\n", "utf-8")
        self._write(f". ./.command < /dev/null; {_SAY_DONE}\n")
        lines: list[str] = []
        for line in self._shell.stdout or ():
            done = _DONE.match(line)
            if done is not None:
                return int(done[1]), lines
            lines.append(line.rstrip("\n"))
        raise Differs(f"$ {command}\nended the shell, after\n" + "\n".join(lines))

    def serve(self, command: str) -> list[str]:
        """Start it in the background and wait until it is ready. What it has printed until then."""
        self.stop()
        ported = self._ported(command)
        if "--port" not in ported:
            ported += f" --port {self.port}"
        self.run(f"{ported} > .served 2>&1 &")
        self._serving = True
        log = self.folder / ".served"
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return log.read_text("utf-8").splitlines()
            except (OSError, urllib.error.URLError):
                if self.run("kill -0 $!")[0]:
                    break  # it has ended
                time.sleep(0.05)
        raise Differs(f"$ {command}\nwas never ready:\n{log.read_text('utf-8')}")

    def stop(self) -> None:
        """TERM to what is served; it must exit with 0."""
        if self._serving:
            self._serving = False
            code, printed = self.run("kill -TERM $!; wait $!")
            if code != 0:
                raise Differs(f"what was served ended with {code}: {printed}")

    def _ported(self, text: str) -> str:
        return re.sub(r"\b8000\b", str(self.port), text)

    def _write(self, line: str) -> None:
        if self._shell.stdin is None:
            raise Differs("the shell has no stdin")
        self._shell.stdin.write(line)
        self._shell.stdin.flush()
