"""`narrows init`: the file that it writes loads, whatever it found; no value of a variable leaves the environment."""

from __future__ import annotations

import http.server
import importlib
import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from narrows.cli import init_found
from narrows.cli.init_found import VENDORS, ollama, vendors
from tests.core.cli.commands import Ran, narrows
from tests.support.servers import free_port

init_command = importlib.import_module("narrows.cli.init")
KEY = "sk-canary-4pT9xZ2mQ8vL1nB7"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, no variable of a vendor, and nothing where an Ollama would listen."""
    monkeypatch.chdir(tmp_path)
    for vendor in VENDORS:
        monkeypatch.delenv(vendor.variable, raising=False)
    monkeypatch.setattr(init_found, "OLLAMA", ("127.0.0.1", free_port()))
    return tmp_path


def checked(file: str = "narrows.toml") -> Ran:
    """What `check` says of it, with every variable set that it names."""
    names = {vendor.variable: KEY for vendor in VENDORS}
    return narrows("check", file, "--json", env=names)


@contextmanager
def listening(
    answer: Callable[[http.server.BaseHTTPRequestHandler], None],
) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """A server on loopback: where, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            try:
                answer(self)
            except OSError:
                self.close_connection = True

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield ("127.0.0.1", server.server_port), asked
        finally:
            server.shutdown()
            thread.join()


def models(*names: Any) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """An Ollama that has these."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        body = json.dumps({"models": [{"name": name} for name in names]}).encode()
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_without_anything_it_begins_with_echo_and_runs() -> None:
    ran = narrows("init")
    assert (ran.code, ran.stdout) == (0, "narrows.toml\n")
    assert "found: no variable of a vendor and no Ollama" in ran.stderr
    for command in ("narrows check narrows.toml", "narrows serve narrows.toml", "curl http://127.0.0.1:8000/v1/chat"):
        assert f"\n  {command}" in ran.stderr
    assert checked().json()["problems"] == []
    moved = narrows("explain", "narrows.toml", "--route", "chat", "--header", "x-region=eu", "--json").json()
    assert moved["order"] == ["eu-echo"]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_each_vendor_by_the_name_of_its_variable(vendor: init_found.Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vendor.variable, KEY)
    ran = narrows("init")
    text = Path("narrows.toml").read_text("utf-8")
    assert ran.code == 0
    assert f"found: {vendor.variable} is set" in ran.stderr
    assert KEY not in text + ran.stdout + ran.stderr
    data = tomllib.loads(text)
    assert data["providers"] == {
        vendor.name: {"kind": "openai_compatible", "base_url": vendor.base_url, "api_key_env": vendor.variable}
    }
    assert data["routes"]["chat"]["targets"] == [vendor.name]
    assert checked().json()["problems"] == []


def test_all_of_them_and_an_ollama_and_no_region_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in VENDORS:
        monkeypatch.setenv(vendor.variable, KEY)
    with listening(models("llama3.2:3b", "qwen2.5:7b")) as (address, _):
        monkeypatch.setattr(init_found, "OLLAMA", address)
        assert narrows("init").code == 0
    data = tomllib.loads(Path("narrows.toml").read_text("utf-8"))
    assert data["routes"]["chat"]["targets"] == [*(vendor.name for vendor in VENDORS), "ollama", "ollama-2"]
    assert data["providers"]["ollama"]["base_url"] == f"http://127.0.0.1:{address[1]}/v1"
    assert {target["region"] for target in data["targets"].values()} == {"unknown"}
    assert not {"jurisdiction", "class", "zero_retention", "no_training"} & {
        key for target in data["targets"].values() for key in target
    }
    assert checked().json()["problems"] == []
    eu = narrows("explain", "narrows.toml", "--route", "chat", "--header", "x-region=eu", "--json",
                 env={vendor.variable: KEY for vendor in VENDORS}).json()  # fmt: skip
    assert (eu["outcome"], eu["status"]) == ("refused", 403), "until somebody says where they are"


@pytest.mark.parametrize("value", ["", "  ", "ключ", "a\nb"])
def test_a_variable_without_a_key_is_not_found(value: str) -> None:
    assert list(vendors({"OPENAI_API_KEY": value})) == []
    assert [one.name for one in vendors({"OPENAI_API_KEY": f" {KEY} "})] == ["openai"]


def test_offline_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(models("llama3.2:3b")) as (address, asked):
        monkeypatch.setattr(init_found, "OLLAMA", address)
        assert "Ollama answers" not in narrows("init", "a.toml", "--offline").stderr
        assert asked == []
        assert "found: Ollama answers" in narrows("init", "b.toml").stderr
        assert asked == ["/api/tags"]


def test_what_listens_there_cannot_write_the_file() -> None:
    with listening(models('x"\n[keys.evil]\n', "../../etc/passwd", 7, None, "ok:1")) as (address, _):
        found = ollama(address)
    assert found is not None
    assert found.models == ("ok:1",)


def raw(text: bytes) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(text)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        raw(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\n\r\n<html>"),
        raw(b'HTTP/1.1 200 OK\r\n\r\n{"models": 7}'),
        raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000),
        raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    ],
    ids=["404", "redirect", "html", "no list", "deep", "no http"],
)
def test_anything_else_that_listens_there_is_no_ollama(answer: Any) -> None:
    with listening(answer) as (address, asked):
        assert ollama(address) is None
        assert asked == ["/api/tags"]


def test_a_server_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_found, "ANSWER_SECS", 0.2)

    def drips(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            handler.wfile.write(b" ")
            time.sleep(0.02)

    with listening(drips) as (address, asked):
        began = time.monotonic()
        assert ollama(address) is None
        assert time.monotonic() - began < 10
        assert asked == ["/api/tags"]


def test_a_port_that_accepts_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_found, "CONNECT_SECS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert ollama(silent.getsockname()) is None


def test_what_is_there_is_not_overwritten_without_force() -> None:
    Path("narrows.toml").write_text("# mine\n")
    ran = narrows("init")
    assert (ran.code, ran.stdout) == (2, "")
    assert "narrows.toml exists, and is left as it is. Name another file, or overwrite it with --force." in ran.stderr
    assert Path("narrows.toml").read_text() == "# mine\n"
    assert narrows("init", "--force").code == 0
    assert checked().code == 0


def test_what_appears_meanwhile_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(**options: bool) -> list[init_found.Found]:
        Path("narrows.toml").write_text("# somebody was faster\n")
        return []

    monkeypatch.setattr(init_command, "_looked", looked)
    ran = narrows("init")
    assert (ran.code, ran.stdout) == (2, "")
    assert Path("narrows.toml").read_text() == "# somebody was faster\n"


def test_the_file_on_stdout() -> None:
    ran = narrows("init", "-")
    assert (ran.code, ran.stderr) == (0, "")
    assert not Path("narrows.toml").exists()
    assert "chat" in tomllib.loads(ran.stdout)["routes"]


def test_json_is_one_document() -> None:
    ran = narrows("init", "a b.toml", "--json")
    assert (ran.code, ran.stderr) == (0, "")
    document = ran.json()
    assert (document["file"], document["found"]) == ("a b.toml", [])
    assert document["next"][0] == "narrows check 'a b.toml'"
    assert "narrows check 'a b.toml'" in Path("a b.toml").read_text()


@pytest.mark.parametrize("name", ["bell\x07.toml", "line\n[keys.evil].toml", "quote'.toml", "ü.toml"])
def test_any_name_of_a_file(name: str) -> None:
    assert narrows("init", name).code == 0
    assert checked(name).json()["problems"] == []
    assert "keys" not in tomllib.loads(Path(name).read_text("utf-8"))


# ---- on a terminal -----------------------------------------------------------------------------------------------


def typed(answers: str, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run it on a terminal and type that: exit code, stdout (a pipe), what the terminal showed."""
    terminal, inside = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    process = subprocess.Popen(
        [sys.executable, "-m", "narrows", "init", "--offline", *arguments],
        stdin=inside, stderr=inside, stdout=subprocess.PIPE, env={**clean, "TERM": "dumb", **(env or {})},
    )  # fmt: skip
    os.close(inside)
    os.write(terminal, answers.encode())
    shown = b""
    with process:
        while select.select([terminal], [], [], 30)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # its other end is closed
                break
            shown += piece
            if not piece:
                break
        stdout = process.stdout.read() if process.stdout else b""
    os.close(terminal)
    return process.returncode, stdout.decode(), shown.decode()


def test_on_a_terminal_it_asks_and_takes_the_answers() -> None:
    env = {"OPENAI_API_KEY": KEY, "MISTRAL_API_KEY": KEY, "GROQ_API_KEY": KEY}
    code, stdout, shown = typed("mine.toml\nnone\nmistral, openai\n", env=env)
    assert (code, stdout) == (0, "mine.toml\n"), shown
    assert "File to write [narrows.toml]" in shown
    assert "Write some of: openai, mistral, groq; or all." in shown
    assert tomllib.loads(Path("mine.toml").read_text())["routes"]["chat"]["targets"] == ["mistral", "openai"]
    assert KEY not in shown


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_on_a_terminal_it_asks_before_it_overwrites(answer: str, code: int) -> None:
    Path("narrows.toml").write_text("# mine\n")
    ended, _, shown = typed(f"{answer}\n", "narrows.toml")
    assert ended == code, shown
    assert "Overwrite it?" in shown
    assert (Path("narrows.toml").read_text() == "# mine\n") is (answer == "n")
