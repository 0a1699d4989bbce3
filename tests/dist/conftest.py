"""Runs what was installed from wheels as its users do: `python -m narrows` in a process of its own.

`tools/dist_check.py` copies this folder to a place without any source and runs it with the fresh environment's Python.
The process is isolated (`-I`: no PYTHONPATH, no working directory on the path) and without asserts (`-O`).
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from narrows.testing import RecordingProvider

HOST = "127.0.0.1"
NARROWS = (sys.executable, "-I", "-O", "-m", "narrows")
STARTUP = 30.0
POLL = 0.02

CONFIG = """
[keys.ci]
[keys.spender]
[keys.banned]

[authenticators.header]
kind = "probe_header"

[attributes.shift]
values = ["early", "late"]
missing = "unrestricted"

[constraints.duty]
kind = "business_hours"
request_attribute = "shift"
on_duty = { early = "emea", late = "apac" }

[plugins.objector]
kind = "probe_objector"
to = "banned"

[plugins.cap]
kind = "example_budget"
cap_micro_usd = 10_000_000

[plugins.verdicts]
kind = "probe_verdicts"
classes = { probe-refusal = "content_policy", probe-busy = "rate_limited" }

[sinks.file]
kind = "probe_file"
path = "decisions.jsonl"

[providers.plain]
kind = "openai_compatible"
base_url = "UPSTREAM"
max_retries = 0

[providers.marked]
kind = "probe_marked"
base_url = "UPSTREAM"
mark = "seven"

[providers.inside]
kind = "probe_local"

[targets.hamburg]
provider = "plain"
model = "hamburg"
labels = { team = "emea" }
price = { input = 0, output = 0 }

[targets.osaka]
provider = "marked"
model = "osaka"
labels = { team = "apac" }
price = { input = 0, output = 0 }

[targets.here]
provider = "inside"
model = "here"
price = { input = 0, output = 0 }

[targets.dear]
provider = "plain"
model = "dear"
price = { input = 0, output = 1_000_000 }

[routes.chat]
targets = ["hamburg", "osaka"]

[routes.backwards]
targets = ["hamburg", "osaka"]
algorithm = "probe_reversed"

[routes.emea]
targets = ["hamburg"]
constraints = ["duty"]

[routes.inside]
targets = ["here"]

[routes.dear]
targets = ["dear"]
"""

Serve = Callable[[Path], AbstractContextManager[httpx.Client]]
"""Starts the gateway in that working directory; leaving stops it."""


@pytest.fixture(scope="session")
def provider() -> Iterator[RecordingProvider]:
    """The upstream of all."""
    with RecordingProvider() as running:
        yield running


@pytest.fixture
def upstream(provider: RecordingProvider) -> RecordingProvider:
    """The same, with nothing written down yet."""
    provider.clear()
    return provider


@pytest.fixture(scope="session")
def config(provider: RecordingProvider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that names a kind of the other wheels for each of the eight hooks."""
    path = tmp_path_factory.mktemp("config") / "narrows.toml"
    path.write_text(CONFIG.replace("UPSTREAM", provider.base_url), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def serve(config: Path) -> Serve:
    """`with serve(folder) as client`: `narrows serve` until the block ends, then TERM and exit code 0."""
    return lambda folder: _serving(config, folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of `gateway`. What it prints is in `output.txt`."""
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def gateway(serve: Serve, home: Path) -> Iterator[httpx.Client]:
    """A client of a gateway that runs during the module."""
    with serve(home) as client:
        yield client


@pytest.fixture(scope="session")
def narrows() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`narrows("check", file)`: run the command to its end."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*NARROWS, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=STARTUP)

    return run


@contextmanager
def _serving(config: Path, folder: Path) -> Iterator[httpx.Client]:
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
    output = folder / "output.txt"
    command = [*NARROWS, "serve", str(config), "--host", HOST, "--port", str(port)]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=folder)
    try:
        # without certificates and proxies: loading them takes longer than a test
        no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with httpx.Client(base_url=f"http://{HOST}:{port}", verify=no_certificates, trust_env=False) as client:
            _wait_ready(process, client, output)
            yield client
        process.terminate()
        code = process.wait(STARTUP)
        if code != 0:
            raise RuntimeError(f"it ended with {code} after TERM:\n{output.read_text('utf-8')}")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _wait_ready(process: subprocess.Popen[bytes], client: httpx.Client, output: Path) -> None:
    deadline = time.monotonic() + STARTUP
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if client.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(POLL)  # nothing can be awaited: readiness is another process's, told by HTTP alone
    raise RuntimeError(f"it was not ready, exit code {process.poll()}:\n{output.read_text('utf-8')}")
