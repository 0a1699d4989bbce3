"""The helper that runs a gateway as a process, tried with a small stand-in for `python -m narrows`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.process import narrows_process

STAND_IN = """
import json, os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        said = {"argv": sys.argv[1:], "debug": __debug__, "mode": os.environ.get("STAND_IN", "")}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

mode = os.environ.get("STAND_IN", "")
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
if mode == "broken":
    sys.exit("no such file")
code = 3 if mode == "bad end" else 0
signal.signal(signal.SIGTERM, lambda *args: os._exit(code))
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "stand_in"


def test_it_runs_until_the_block_ends_and_keeps_what_was_said(module: str, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    with narrows_process(file, "b.toml", module=module, arguments=("--more",)) as running:
        said = httpx.get(f"{running.url}/anything").json()
        assert running.process.poll() is None
    assert said["argv"] == ["serve", str(file), "b.toml", "--host", "127.0.0.1", "--port", str(running.port), "--more"]
    assert said["debug"] is False  # -O
    assert running.process.returncode == 0
    assert (running.stdout, running.stderr) == ("to stdout\n", "to stderr\n")


def test_flags_and_environment_reach_the_process(module: str) -> None:
    with narrows_process(module=module, python_flags=(), env={"STAND_IN": "here"}) as running:
        said = httpx.get(running.url).json()
    assert (said["debug"], said["mode"]) == (True, "here")


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("broken", r"ended with 1 before it was ready:\nto stderr\nno such file"),
        ("bad end", r"ended with 3 after TERM; stderr:\nto stderr"),
    ],
)
def test_what_went_wrong_is_raised(module: str, mode: str, says: str) -> None:
    with pytest.raises(RuntimeError, match=says), narrows_process(module=module, env={"STAND_IN": mode}):
        pass


def test_an_exception_of_the_block_passes_and_ends_the_process(module: str) -> None:
    processes = []

    def use() -> None:
        with narrows_process(module=module) as running:
            processes.append(running.process)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        use()
    assert processes[0].poll() is not None


def test_the_block_may_end_the_process_itself(module: str) -> None:
    with narrows_process(module=module) as running:
        assert running.terminate() == 0
    assert running.stderr == "to stderr\n"
