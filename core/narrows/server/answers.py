"""What this package needs of a gateway: something that answers, and that has to be started first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Protocol

from narrows.types import Inbound, Reply


class Answers(Protocol):
    """A gateway, as its servers see it. `narrows.gateway.Gateway` is one; so is a test's fake."""

    @property
    def started(self) -> bool:
        """Is it between start and stop?"""

    def answer(
        self,
        inbound: Inbound,
        read: Callable[[], AsyncIterator[bytes]],
        *,
        outer: Inbound | None = None,
        principal: str | None = None,
    ) -> AbstractAsyncContextManager[Reply]:
        """Answer one request, whatever its path. `inbound.path` is relative to the mount.

        Entering does everything up to the first byte; then the chunks are iterated; leaving settles and records. It is
        left in one of four ways: normally (the caller has the last byte), by `ClientGone` (it left, and nobody was
        cancelled), by cancellation, by the exception that the chunks raised. A body may be closed in another task than
        the one that opened it, so no cancel scope and no context variable may be held between entering and leaving.
        What it does while it leaves, it shields itself.

        `read` is called at most once. Its iterator raises `ClientGone` where the caller left while it was sending.
        `outer`: the host's request around this one. `principal`: a key's name, for use outside any request.
        """

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...


@asynccontextmanager
async def running(gateway: Answers) -> AsyncIterator[None]:
    """Start it and stop it, unless somebody around us does: a host may attach one gateway twice."""
    if gateway.started:
        yield
        return
    async with gateway:
        yield
