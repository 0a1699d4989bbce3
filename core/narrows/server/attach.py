"""The gateway as a part of a Starlette or FastAPI application: one line in the host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from starlette.middleware import Middleware

from narrows.server.answers import Answers, running
from narrows.server.app import Application
from narrows.server.handle import HandleMiddleware
from narrows.server.middleware import checked_path

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import Lifespan


def attach(host: Starlette, path: str, gateway: Answers) -> None:
    """Mount the gateway at `path`, inside the host's middleware: its authentication and CORS apply.

    The host's lifespan is wrapped: the gateway starts before it and stops after it, and what it yields is yielded on.
    Every handler of the host finds `request.state.narrows`. Routes are tried in order, so a catch-all that stands
    earlier wins. Where the host is itself mounted somewhere, its parent must enter `host.router.lifespan_context(host)`:
    nobody runs the lifespan of a mounted application. Raises ValueError for a path without a leading slash, RuntimeError
    where the host has started already.
    """
    prefix = checked_path(path)
    if host.middleware_stack is not None:
        raise RuntimeError("the host has started already; call attach before its first request, where it is built")
    inner = host.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Mapping[str, Any] | None]:
        async with running(gateway), inner(app) as state:
            yield state

    host.router.lifespan_context = cast("Lifespan[Any]", lifespan)
    host.mount(prefix, Application(gateway))
    # innermost, so that it sees the scope as all of the host's own middleware has left it
    host.user_middleware.append(Middleware(HandleMiddleware, gateway=gateway))
