"""Where a server may listen, and what it says where it may not."""

from __future__ import annotations

import errno
import socket
from contextlib import closing

import pytest
import typer

from narrows.cli import listening
from narrows.cli.listening import Address

V4, V6 = socket.AF_INET, socket.AF_INET6
NOWHERE = ["240.0.0.1", "240.0.0.2"]
"""Reserved: no machine has them."""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    assert listening.only_loopback(listening.resolved(host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "10.0.0.1", "2001:db8::1", "169.254.1.1"])
def test_not_loopback(host: str) -> None:
    assert not listening.only_loopback(listening.resolved(host))


def test_a_name_is_judged_by_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*ips: str) -> None:
        rows = [(V4, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ips]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)

    found("127.0.0.1")
    assert listening.resolved("gateway.test") == (Address(V4, "127.0.0.1"),)
    assert listening.only_loopback(listening.resolved("gateway.test"))
    found("127.0.0.1", "192.0.2.7")
    assert not listening.only_loopback(listening.resolved("gateway.test"))
    found()
    assert not listening.only_loopback(listening.resolved("gateway.test"))


@pytest.mark.parametrize("host", ["", " ", "nobody.invalid", "\udc80"])
def test_a_host_that_is_none(host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(typer.Exit) as ended:
        listening.resolved(host)
    assert ended.value.exit_code == 2
    assert "127.0.0.1" in capsys.readouterr().err


def test_a_family_that_the_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = listening._opened

    def without_ipv6(address: Address, port: int) -> socket.socket:
        if address.family == V6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return opened(address, port)

    monkeypatch.setattr(listening, "_opened", without_ipv6)
    (listener,) = listening.listen([Address(V6, "::1"), Address(V4, "127.0.0.1")], 0, "serve")
    with closing(listener):
        assert listener.family == V4


@pytest.mark.parametrize("mode", [None, "open"])
def test_whoever_lets_everybody_in_must_stay_on_loopback(mode: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    listening.refuse_open_relay("localhost", [Address(V4, "127.0.0.1"), Address(V6, "::1")], mode)
    with pytest.raises(typer.Exit) as ended:
        listening.refuse_open_relay("0.0.0.0", [Address(V4, "0.0.0.0")], mode)
    said = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert "open relay" in said
    assert "narrows keygen" in said
    assert "--host 127.0.0.1" in said


@pytest.mark.parametrize("mode", ["keys", "host"])
def test_whoever_asks_for_a_credential_may_listen_anywhere(mode: str) -> None:
    listening.refuse_open_relay("0.0.0.0", [Address(V4, "0.0.0.0")], mode)


def test_a_free_port_and_its_url() -> None:
    (listener,) = listening.listen([Address(V4, "127.0.0.1")], 0, "serve")
    with closing(listener):
        port = listener.getsockname()[1]
        assert listening.urls([listener]) == (f"http://127.0.0.1:{port}",)
        socket.create_connection(("127.0.0.1", port), timeout=2).close()


def test_all_addresses_of_a_host_share_one_port() -> None:
    sockets = listening.listen([Address(V4, "127.0.0.1"), Address(V4, "127.0.0.2")], 0, "serve")
    try:
        assert len({listener.getsockname()[1] for listener in sockets}) == 1
    finally:
        for listener in sockets:
            listener.close()


def test_an_address_that_the_machine_lacks_is_left_out_where_another_is_there() -> None:
    sockets = listening.listen([Address(V4, NOWHERE[0]), Address(V4, "127.0.0.1")], 0, "serve")
    with closing(sockets[0]):
        assert [listener.getsockname()[0] for listener in sockets] == ["127.0.0.1"]


@pytest.mark.parametrize("ips", [NOWHERE[:1], NOWHERE])
def test_no_address_of_this_machine(ips: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        listening.listen([Address(V4, ip) for ip in ips], 0, "serve")
    assert ended.value.exit_code == 1
    assert "Listen on --host 127.0.0.1." in capsys.readouterr().err


def test_a_busy_port_exits_1_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(typer.Exit) as ended:
            listening.listen([Address(V4, "127.0.0.1")], port, "demo")
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err
    assert f"port {port} on 127.0.0.1 is in use" in said
    assert f"narrows demo --port {port + 1}" in said
