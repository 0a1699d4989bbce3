"""`narrows serve`: the gateway as a process of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from narrows.cli.check import FILES
from narrows.cli.output import fail, problems_of, refuse, tell, told
from narrows.errors import ConfigError

if TYPE_CHECKING:
    from narrows.gateway import Gateway

_MOST_SHOWN: Final = 20
Run: TypeAlias = Callable[["Gateway", Sequence[socket.socket], Callable[[], None]], int]
"""A gateway, where it listens, what to call when it is ready -> the exit code."""


def serve(
    files: Annotated[list[Path], FILES],
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Address or name to listen on  [default: server.host, else 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="0 for a free one  [default: server.port, else 8000]"),
    ] = None,
    log_format: Annotated[
        Literal["human", "json"],
        typer.Option(metavar="human|json", help="Lines on stderr: for people, or one JSON object each."),
    ] = "human",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(metavar="debug|info|warning|error", help="From which level on lines are written."),
    ] = "info",
) -> None:
    """Serve a configuration over HTTP.

    Without keys it listens on loopback only. TERM takes nothing new, finishes what is in flight within
    server.shutdown_grace_secs, and exits 0.
    """
    run = runner("serve")
    from narrows.cli import listening, logs
    from narrows.cli.collecting import collector
    from narrows.config import load
    from narrows.gateway import Gateway
    from narrows.registry import Registry

    try:
        loaded = load(files, Registry(), os.environ)
        server = loaded.settings.server
        host = server.host if host is None else host
        addresses = listening.resolved(host)
        spans = collector(loaded.settings.telemetry.exporter)
        gateway = Gateway(
            loaded,
            open_access=listening.only_loopback(addresses),
            standalone=True,
            tracer_provider=None if spans is None else spans.provider,
        )
    except ConfigError as error:
        refuse(problems_of(error))
    listening.refuse_open_relay(host, addresses, gateway.snapshot.auth_mode)
    sockets = listening.listen(addresses, server.port if port is None else port, "serve FILE...")
    logs.to_stderr(log_format, log_level)
    for warning in gateway.warnings:
        if log_format == "human":
            tell(told(warning))
        else:
            logs.log.warning("%s", warning)
    urls = listening.urls(sockets)
    say = tell if log_format == "human" else logs.say
    try:
        code = run(gateway, sockets, lambda: announce(gateway, urls, say))
    finally:
        if spans is not None:
            spans.stop()
    raise typer.Exit(code)


def runner(command: str) -> Run:
    """What runs a gateway. Ends the command where uvicorn is not installed, naming the extra that brings it."""
    try:
        from narrows.cli.server import run
    except ModuleNotFoundError as error:
        if error.name != "uvicorn":
            raise
        fail(f"`narrows {command}` needs an extra:", "pip install 'narrows[server]'")
    return run


def announce(gateway: Gateway, urls: Sequence[str], say: Callable[[str], None] = tell) -> None:
    """Say what is served now, where, and to whom."""
    from importlib.metadata import version

    routes = gateway.snapshot.routes
    say(f"narrows {version('narrows')} serves {' and '.join(f'{url}/v1' for url in urls)} to {_whom(gateway)}")
    say(f"policy {gateway.policy}")
    for name, route in list(routes.items())[:_MOST_SHOWN]:
        more = "" if len(route.pool.targets) <= _MOST_SHOWN else ", …"
        say(f"route {name}: {', '.join(target.name for target in route.pool.targets[:_MOST_SHOWN])}{more}")
    if len(routes) > _MOST_SHOWN:
        say(f"and {len(routes) - _MOST_SHOWN} more routes")


def _whom(gateway: Gateway) -> str:
    match gateway.snapshot.auth_mode:
        case None:
            return "everybody on this machine: no [keys.NAME] is configured"
        case "open":
            return 'everybody on this machine: [auth] mode is "open"'
        case "host":
            return 'nobody: [auth] mode "host" takes callers from the application that mounts it, and here is none'
    count = sum(key.sha256 is not None for key in gateway.loaded.settings.keys.values())
    return f"callers with a key, {count} configured"
