"""`narrows explain`: what would happen to a request, and why. The same code as `POST /v1/explain` of a running gateway.

Without `--key` the caller is anonymous, with every grant and no tenant, tag or `may_say` (but what `[auth]` gives
everybody). With `--key` it is that configured caller: its name, never the key itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from narrows.cli import completion
from narrows.cli.check import FILES
from narrows.cli.output import FINDING, document, fail, not_built, problems_of, refuse, tell, working
from narrows.errors import ConfigError, NarrowsError
from narrows.types import ANONYMOUS, Inbound, Principal

if TYPE_CHECKING:
    from narrows.gateway import Gateway

CREDENTIALS: Final = frozenset({"authorization", "x-api-key", "proxy-authorization", "cookie"})
_CONTENT_TYPE: Final = ("content-type", "application/json")
_HELLO: Final = b'{"messages":[{"role":"user","content":"Hello"}]}'


def explain(
    files: Annotated[list[Path], FILES],
    route: Annotated[
        str, typer.Option(metavar="ROUTE", help="What a caller writes as `model`.", autocompletion=completion.routes)
    ],
    key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who is calling: the NAME of [keys.NAME], never the key.",
            autocompletion=completion.keys,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A header of the caller; may be repeated.", autocompletion=completion.headers
        ),
    ] = None,
    body: Annotated[
        str | None, typer.Option(metavar="FILE", help="A chat body as JSON, - for stdin [default: one short message].")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="The conversation it belongs to (not built yet).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document of POST /v1/explain.")] = False,
) -> None:
    """Show what a request would meet, and why.

    Every target with every reason, the order, the cost, and the nearest way out. No upstream is called.
    """
    if session is not None:
        not_built("`narrows explain --session`", as_json=as_json)
    headers = parsed(header or ())
    try:
        with working("Reading", quiet=as_json):
            gateway = _gateway(files)
    except ConfigError as error:
        refuse(problems_of(error), as_json=as_json)
    _known("route", route, gateway.snapshot.routes)
    _advise(gateway, headers)
    principal = _caller(gateway, key)
    try:
        found = _asked(gateway, headers, with_route(_body(body), route), principal)
    except ConfigError as error:  # a plugin that cannot start
        refuse(problems_of(error), as_json=as_json)
    if as_json:
        document(found)
    else:
        from narrows.cli.matrix import show

        show(found, gateway.snapshot)
    if found["code"] == "unknown_model":
        tell(
            f"note: [keys.{principal}] grants nothing on {route!r} (routes, targets, providers): for it there is no such route."
        )
    if found["outcome"] != "eligible":
        raise typer.Exit(FINDING)


def parsed(pairs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`NAME=VALUE` as headers. Ends the command for anything else, and for a credential."""
    headers = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().lower()
        if name.partition(":")[0] in CREDENTIALS:
            fail(
                f"--header cannot be {name.partition(':')[0]}.", "Say who is calling with --key NAME, never with a key."
            )
        if not equals or not name:
            fail("--header is no NAME=VALUE.", "Write --header x-region=eu.")
        headers.append((name, value.strip()))
    return tuple(headers)


def with_route(body: bytes, route: str) -> bytes:
    """The body, asking for that route. One that is no JSON object is judged as it stands."""
    from narrows.dialects.body import BadBody, encode, members

    try:
        found = members(body)
    except BadBody:
        return body
    model = msgspec.json.encode(route)
    if bytes(found.get("model", model)) != model:
        tell(f"note: the body's own `model` is read as {route!r}, the --route.")
    return encode(found, {"model": model})


def _gateway(files: Sequence[Path]) -> Gateway:
    from narrows.config import load
    from narrows.gateway import Gateway
    from narrows.registry import Registry

    return Gateway(load(files, Registry(), os.environ), open_access=True)


def _caller(gateway: Gateway, key: str | None) -> str:
    """The name of the caller. Makes `anonymous` a caller that may be named, which no configuration can do."""
    from narrows.snapshot import Caller

    snapshot = gateway.snapshot
    if key is not None:
        if snapshot.caller(key) is None:
            _known("key", key, snapshot.callers)
        return key
    if snapshot.auth_mode in (None, "open"):
        stranger = snapshot.stranger
    else:
        stranger = Caller(Principal(ANONYMOUS))
        names = f" (here: {', '.join(list(snapshot.callers)[:8])})" if snapshot.callers else ""
        tell(
            f"note: no --key: explained for a caller with every grant, no tenant and no tag. --key NAME says who{names}."
        )
    gateway.snapshot = replace(snapshot, callers={**snapshot.callers, ANONYMOUS: stranger})
    return ANONYMOUS


def _known(what: str, name: str, names: Mapping[str, object]) -> None:
    """End the command for a name that the configuration does not have. Nothing that looks like a key is repeated."""
    if name in names:
        return
    from narrows.config.secrecy import shown
    from narrows.config.words import listed, nearest

    suggestion = nearest(name, names)
    hint = f"Did you mean {suggestion!r}?" if suggestion else f"There is: {listed(names) or 'none'}."
    if what == "key" and shown(name) is None:
        hint = f"--key takes the NAME of a [keys.NAME] block, never the key itself. {hint}"
    fail(f"no {what} is named {shown(name) or 'that'}.", hint)


def _advise(gateway: Gateway, headers: Sequence[tuple[str, str]]) -> None:
    """A misspelt header says nothing, and silence is what this command is asked about."""
    from narrows.config.words import nearest

    known = [one.header for one in gateway.snapshot.reader.attributes.values() if "header" in one.sources]
    for name, _ in headers:
        suggestion = None if name in known else nearest(name, known)
        if suggestion is not None:
            tell(f"note: the header {name!r} says no attribute. Did you mean {suggestion!r}?")


def _body(given: str | None) -> bytes:
    if given is None:
        return _HELLO
    if given == "-":
        return sys.stdin.buffer.read()
    from narrows.config.secrecy import shown

    try:
        return Path(given).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid name"
        fail(
            f"--body {shown(given) or 'FILE'} cannot be read: {reason}.",
            "Name a file with a chat body, or - for stdin.",
        )


def _asked(gateway: Gateway, headers: Sequence[tuple[str, str]], body: bytes, principal: str) -> dict[str, Any]:
    """Ask the gateway as a caller would, without a socket."""
    import anyio

    try:
        return anyio.run(_explained, gateway, headers, body, principal)
    except ConfigError:
        raise
    except NarrowsError as error:
        fail(f"it cannot be explained: {error}.")


async def _explained(
    gateway: Gateway, headers: Sequence[tuple[str, str]], body: bytes, principal: str
) -> dict[str, Any]:
    async def read() -> AsyncIterator[bytes]:
        yield body

    typed = headers if any(name == "content-type" for name, _ in headers) else (_CONTENT_TYPE, *headers)
    inbound = Inbound("POST", "/v1/explain", tuple(typed))
    async with gateway, gateway.answer(inbound, read, principal=principal) as reply:
        answer = b"".join([chunk async for chunk in reply.chunks])
    if reply.status != 200:
        raise NarrowsError(f"the gateway answered {reply.status}")
    found: dict[str, Any] = msgspec.json.decode(answer)
    return found
