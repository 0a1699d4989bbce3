"""`narrows serve` as a process: ready, the log, signals, and everything that keeps it from starting."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from narrows.cli import listening, server
from narrows.config import loads
from narrows.constraints import Block, Services
from narrows.gateway import Gateway
from narrows.hookspecs import hookimpl
from narrows.registry import Registry
from tests.core.cli.commands import ECHO, KEY, KEYS, narrows, process
from tests.support.config import write_config
from tests.support.process import NarrowsProcess, narrows_process
from tests.support.servers import free_port

PROMPT = "a secret prompt"
PATIENCE = 10.0


def chat(running: NarrowsProcess, **headers: str) -> httpx.Response:
    body = {"model": "chat", "messages": [{"role": "user", "content": PROMPT}]}
    return httpx.post(
        f"{running.url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE, trust_env=False
    )


def eventually(true: Callable[[], bool], what: str) -> None:
    """Wait for what another process does, and tells by no event."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.02)


def refuses_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# ---- it serves -------------------------------------------------------------------------------------------------------


def test_it_is_ready_with_the_policy_that_check_prints_and_announces_itself(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO.replace("[constraints", "[constraints.tier]\nkind = \"attribute_match\"\n"
                        'request_attribute = "x-tier"\ntarget_attribute = "region"\n\n[constraints', 1))  # fmt: skip
    policy = narrows("check", file, "--json").json()["policy"]
    with narrows_process(file) as running:
        assert httpx.get(f"{running.url}/health/ready", trust_env=False).json() == {"status": "ready", "policy": policy}
        assert chat(running, **{"x-region": "eu"}).headers["x-narrows-target"] == "eu-main"
    assert running.stdout == ""
    lines = running.stderr.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert warnings
    assert all(line.startswith(f"warning: {file}:") for line in warnings)
    serves, digest, first, second, *rest = lines[len(warnings) :]
    assert f"serves {running.url}/v1 to everybody on this machine" in serves
    assert digest == f"policy {policy}"
    assert (first, second) == ("route chat: us-large, eu-main", "route us-only: us-large")
    assert len(rest) == 1


def test_one_line_for_each_request_without_key_or_content(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO + KEYS)) as running:
        assert chat(running, authorization=f"Bearer {KEY}").status_code == 200
        assert chat(running, **{"x-api-key": KEY[:-1]}).status_code == 401
        assert httpx.get(f"{running.url}/v1/models", headers={"x-api-key": KEY}, trust_env=False).status_code == 200
    lines = [line for line in running.stderr.splitlines() if "decision=" in line]
    assert len(lines) == 2
    assert re.search(
        r"Z INFO decision=\S+ request_id=- route=chat outcome=answered status=200 code=ok target=eu-main", lines[0]
    )
    assert "status=401 code=unauthenticated" in lines[1]
    assert "to callers with a key, 1 configured" in running.stderr
    for secret in (KEY, KEY[:-1], PROMPT):
        assert secret not in running.stderr + running.stdout


def test_answers_name_no_server(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO)) as running:
        assert "server" not in httpx.get(f"{running.url}/health/live", trust_env=False).headers


def test_with_keys_it_may_listen_everywhere(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO + KEYS), arguments=("--host", "0.0.0.0")) as running:
        assert chat(running, authorization=f"Bearer {KEY}").status_code == 200
    assert "serves http://0.0.0.0:" in running.stderr


def test_host_and_port_come_from_the_file_where_nobody_says_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as busy:
        port = busy.getsockname()[1]
        ran = narrows("serve", write_config(tmp_path, ECHO + f'[server]\nhost = "127.0.0.2"\nport = {port}\n'))
    assert ran.code == 1
    assert f"port {port} on 127.0.0.2 is in use" in ran.stderr


# ---- signals ---------------------------------------------------------------------------------------------------------


def test_int_drains_too_and_exits_130(tmp_path: Path) -> None:
    processes = []

    def interrupt() -> None:
        with narrows_process(write_config(tmp_path, ECHO)) as running:
            processes.append(running)
            running.process.send_signal(signal.SIGINT)
            running.process.wait(PATIENCE)

    with pytest.raises(RuntimeError, match="it ended with 130"):
        interrupt()
    assert "Traceback" not in processes[0].stderr


def test_hup_does_not_end_it(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO)) as running:
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: "reload is not built yet" in running.stderr, "it says that it got HUP")
        assert chat(running).status_code == 200


# ---- it does not start -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "host"),
    [("", "0.0.0.0"), ("", "::"), ("", "192.0.2.1"), ('[auth]\nmode = "open"\n', "0.0.0.0")],
    ids=["IPv4", "IPv6", "address", "mode open"],
)
def test_without_keys_only_loopback(tmp_path: Path, more: str, host: str) -> None:
    port = free_port()
    ran = narrows("serve", write_config(tmp_path, ECHO + more), "--host", host, "--port", port)
    assert (ran.code, ran.stdout) == (2, "")
    assert f"it would be an open relay on {host}" in ran.stderr
    assert "`narrows keygen`" in ran.stderr
    assert refuses_connections(port)


def test_a_host_in_the_file_is_no_way_around(tmp_path: Path) -> None:
    ran = narrows("serve", write_config(tmp_path, ECHO + '[server]\nhost = "0.0.0.0"\n'), "--port", free_port())
    assert ran.code == 2
    assert "open relay" in ran.stderr


def test_a_busy_port_exits_1_with_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        ran = process("serve", write_config(tmp_path, ECHO), "--port", port)
    assert (ran.code, ran.stdout) == (1, "")
    assert f"narrows: port {port} on 127.0.0.1 is in use." in ran.stderr
    assert f"`narrows serve FILE... --port {port + 1}`" in ran.stderr


def test_every_problem_is_told_and_nothing_is_started(tmp_path: Path) -> None:
    port = free_port()
    file = write_config(
        tmp_path, ECHO.replace('region = "eu"', 'regoin = "eu"').replace("algorithm", "algoritm") + "[routs]\n"
    )
    ran = process("serve", file, "--port", port)
    assert (ran.code, ran.stdout) == (2, "")
    assert f"{file}:24: targets.eu-main.regoin: 'regoin' is no key here. Did you mean 'region'?" in ran.stderr
    assert "Did you mean 'routes'?" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "2 problems"
    assert refuses_connections(port)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"[routes"], ids=["absent", "empty", "UTF-16", "syntax"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "narrows.toml"
    if content is not None:
        file.write_bytes(content)
    ran = narrows("serve", file)
    assert (ran.code, ran.stdout) == (2, "")
    assert str(file) in ran.stderr


class Unstartable(Block):
    """A plugin whose database is away."""

    @hookimpl
    def start(self, services: Services) -> None:
        """It cannot."""
        raise OSError("the database is away")


def test_a_plugin_that_cannot_start_ends_it_with_2(capfd: pytest.CaptureFixture[str]) -> None:
    registry = Registry({"plugins.unstartable": Unstartable})
    loaded = loads(ECHO + '[plugins.ledger]\nkind = "unstartable"\n', registry, {})
    sockets = listening.listen(listening.resolved("127.0.0.1"), 0, "serve")
    ready: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert server.run(Gateway(loaded, open_access=True), sockets, lambda: ready.append("ready")) == 2
    finally:
        for listener in sockets:
            listener.close()
    assert ready == []
    assert signal.getsignal(signal.SIGTERM) is before
    assert "Traceback" not in capfd.readouterr().err


def test_mode_host_alone_serves_nobody_and_says_so(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO + '[auth]\nmode = "host"\n')) as running:
        assert chat(running).status_code == 401
    assert 'to nobody: [auth] mode "host" takes callers from the application that mounts it' in running.stderr
