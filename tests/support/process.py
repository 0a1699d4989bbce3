"""`python -O -m narrows serve` as a process of its own: what users run, without the tests' asserts in it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import HOST, free_port

STARTUP = 20.0
SHUTDOWN = 10.0
POLL = 0.02


class NarrowsProcess:
    """A gateway that runs as a process. `stdout` and `stderr` can be read at any time, also after its end."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._folder = folder
        self._kept: dict[str, str] = {}

    @property
    def stdout(self) -> str:
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        return self._text("stderr")

    def terminate(self) -> int:
        """Send TERM, wait for the end, and return the exit code (also of a process that had ended). Raises TimeoutError."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SHUTDOWN)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no end within {SHUTDOWN:g} s after TERM; stderr:\n{self.stderr}") from None

    def wait_ready(self) -> None:
        """Wait until `GET /health/ready` says 200. Raises RuntimeError if the process ends first, TimeoutError."""
        deadline = time.monotonic() + STARTUP
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended with {self.process.returncode} before it was ready:\n{self.stderr}")
            if self._ready():
                return
            time.sleep(POLL)  # nothing can be awaited: readiness is another process's, told by HTTP alone
        raise TimeoutError(f"not ready within {STARTUP:g} s; stderr:\n{self.stderr}")

    def keep(self) -> None:
        """Take over the output before its files go."""
        self._kept = {"stdout": self.stdout, "stderr": self.stderr}

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2)
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _text(self, stream: str) -> str:
        if stream in self._kept:
            return self._kept[stream]
        return (self._folder / stream).read_text(encoding="utf-8", errors="replace")


@contextmanager
def narrows_process(
    *files: Path | str,
    env: Mapping[str, str] | None = None,
    python_flags: Sequence[str] = ("-O",),
    arguments: Sequence[str] = (),
    module: str = "narrows",
) -> Iterator[NarrowsProcess]:
    """Run `python FLAGS -m narrows serve FILES --port P ARGUMENTS` until the block ends; then TERM, and exit code 0.

    `env`: added to ours. `module`: another one than narrows, for the tests of this helper. Raises RuntimeError where
    it ends before it is ready or with another code than 0 (not over an exception of the block), TimeoutError where it
    hangs.
    """
    port = free_port()
    options = ["--host", HOST, "--port", str(port), *arguments]
    command = [sys.executable, *python_flags, "-m", module, "serve", *map(str, files), *options]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **(env or {})})
        running = NarrowsProcess(process, port, folder)
        try:
            running.wait_ready()
            yield running
            code = running.terminate()
            if code != 0:
                raise RuntimeError(f"it ended with {code} after TERM; stderr:\n{running.stderr}")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            running.keep()
