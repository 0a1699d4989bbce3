"""Where a server listens, and who could reach it there. Without authentication it is loopback or nothing.

A name is judged by what it resolves to, and exactly those addresses are bound: what was judged is what is opened.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NoReturn

from narrows.cli.output import FINDING, fail

BACKLOG: Final = 2048
AUTHENTICATED: Final = ("keys", "host")
"""The modes of `[auth]` in which nobody is served without being known."""

_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_REMEDY: Final = "Listen on --host 127.0.0.1."


@dataclass(frozen=True, slots=True)
class Address:
    """One address to bind: the family of sockets, and the literal IP address."""

    family: socket.AddressFamily
    ip: str

    @property
    def is_loopback(self) -> bool:
        """Can only this machine reach it?"""
        return ip_address(self.ip).is_loopback


def resolved(host: str) -> tuple[Address, ...]:
    """Every address of a host: an IP address or a name. Ends the command where there is none."""
    try:
        if not host.strip():
            raise OSError("it is empty")
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        fail(f"there is no host {host!r} to listen on.", "Write an address of this machine, such as 127.0.0.1.")
    usable = (socket.AF_INET, socket.AF_INET6)
    return tuple(dict.fromkeys(Address(row[0], str(row[4][0])) for row in found if row[0] in usable))


def only_loopback(addresses: Sequence[Address]) -> bool:
    """Can only this machine reach all of them?"""
    return bool(addresses) and all(address.is_loopback for address in addresses)


def refuse_open_relay(host: str, addresses: Sequence[Address], auth_mode: str | None) -> None:
    """End the command where everybody on a network could use the providers' accounts."""
    if auth_mode in AUTHENTICATED or only_loopback(addresses):
        return
    if auth_mode == "open":
        why, remedy = '[auth] mode is "open"', "Take the mode out and give each caller a key (`narrows keygen`)"
    else:
        why, remedy = "no [keys.NAME] is configured", "Give each caller a key (`narrows keygen` prints one)"
    fail(
        f"it would be an open relay on {host}: {why}, and others than this machine can reach that address.",
        f"{remedy}, or listen on loopback: --host 127.0.0.1.",
    )


def listen(addresses: Sequence[Address], port: int, command: str) -> list[socket.socket]:
    """A listening socket for each address. Port 0 takes a free one. Ends the command, with 1, where that fails.

    `command`: how it was called, for the remedy.
    """
    sockets: list[socket.socket] = []
    for address in addresses:
        try:
            sockets.append(_opened(address, port))
        except OSError as error:
            if len(addresses) > 1 and error.errno in _NOT_HERE:
                continue  # `localhost` is ::1 too, also where IPv6 is switched off
            for opened in sockets:
                opened.close()
            _fail_to_listen(address, port, command, error)
        port = sockets[-1].getsockname()[1]
    if not sockets:
        fail("none of the host's addresses is one of this machine.", _REMEDY, code=FINDING)
    return sockets


def urls(sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """The base URL of each listening socket, without a slash at the end."""
    names = [(listener.family, *listener.getsockname()[:2]) for listener in sockets]
    return tuple(f"http://[{ip}]:{port}" if family == socket.AF_INET6 else f"http://{ip}:{port}"
                 for family, ip, port in names)  # fmt: skip


def _opened(address: Address, port: int) -> socket.socket:
    listener = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address.ip, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _fail_to_listen(address: Address, port: int, command: str, error: OSError) -> NoReturn:
    where = f"port {port} on {address.ip}"
    if error.errno in _NOT_HERE:
        fail(f"{address.ip} is no address of this machine.", _REMEDY, code=FINDING)
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65_535 else 8000
        remedy = f"Stop what listens there, or choose another: `narrows {command} --port {other}`."
        fail(f"{where} is in use.", remedy, code=FINDING)
    if error.errno in (errno.EACCES, errno.EPERM):
        fail(f"{where} may not be opened.", "Choose a port above 1023 with --port.", code=FINDING)
    fail(f"{where} cannot be opened: {error.strerror}.", "Choose another with --host and --port.", code=FINDING)
