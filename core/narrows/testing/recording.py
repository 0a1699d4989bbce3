"""A fake OpenAI-compatible provider on a real socket that writes down every call and answers by script.

"Blocked" is a claim about a wire, so it is asserted at a wire: `provider.count("frontier_us") == 0`, or for a provider
that nobody may even connect to, `provider.connections == 0`. Standard library only; one background thread with a loop
of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from narrows.testing._connection import Connection
from narrows.testing._journal import Journal
from narrows.testing.answers import Script
from narrows.testing.call import Call, Sent

HOST = "127.0.0.1"
BACKLOG = 1024
PATIENCE = 5.0
"""Seconds that a wait helper waits by default, and that starting and stopping may take."""


class RecordingProvider:
    """Answers on `base_url` between entering and leaving it.

    ```python
    with RecordingProvider() as provider:
        provider.script("small-1", failure_answer(FailureClass.SERVER_ERROR), Answer())
        ...                                     # point a gateway at provider.base_url
        assert [call.model for call in provider.calls] == ["small-1", "small-1"]
    ```

    A script is used call by call and its last answer repeats. `script(model, …)` is for calls whose body names that
    model, the answers given here (default: a valid completion) are for all others. A step may be a function from the
    `Call` to an answer; if one raises, the connection is reset, and leaving the provider raises RuntimeError from it.

    All methods may be called from any thread. The wait helpers block the calling thread: from a coroutine use
    `await anyio.to_thread.run_sync(provider.wait_calls, 2)`.
    """

    def __init__(self, *default: Script) -> None:
        self._journal = Journal(default)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()
        self._port = 0

    # ---- life ----

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("a RecordingProvider can be entered once; make a new one")
        listener = socket.create_server((HOST, 0), backlog=BACKLOG)
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(listener,), name="recording-provider", daemon=True)
        self._thread.start()
        self._journal.wait(lambda: self._loop is not None, PATIENCE, "the provider's thread to start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_loop(self._stop.set)
        if self._thread is not None:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                raise RuntimeError(f"the recording provider did not stop within {PATIENCE:g} s")
        if error is None and self._journal.failure is not None:
            raise RuntimeError("a script of the recording provider failed") from self._journal.failure

    @property
    def base_url(self) -> str:
        """What a provider block of kind `openai_compatible` takes. Raises RuntimeError before entering."""
        return f"http://{HOST}:{self.port}/v1"

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1. Raises RuntimeError before entering."""
        if self._port == 0:
            raise RuntimeError("the provider is not running: use it as `with RecordingProvider() as provider:`")
        return self._port

    # ---- scripting ----

    def script(self, model: str, *answers: Script) -> None:
        """Answer calls for this model so, from now on, beginning with the first. Raises ValueError without answers."""
        self._journal.set_script(model, answers)

    def default(self, *answers: Script) -> None:
        """Answer all calls whose model has no script so. Raises ValueError without answers."""
        self._journal.set_script(None, answers)

    def release(self, name: str = "hold", times: int = 1) -> None:
        """Let `times` answers pass the `Hold` of that name: those that wait, else the next that come."""
        self._in_loop(lambda: self._journal.gates.release(name, times))

    def open(self, name: str = "hold") -> None:
        """Let every answer pass that `Hold` from now on."""
        self._in_loop(lambda: self._journal.gates.open(name))

    # ---- what was seen ----

    @property
    def calls(self) -> list[Call]:
        """Every call so far, in order of arrival; also those that broke off half-way (`complete` False)."""
        return self._journal.calls_for(None)

    def calls_for(self, model: str) -> list[Call]:
        """The calls whose body names this model."""
        return self._journal.calls_for(model)

    def count(self, model: str | None = None) -> int:
        """How many calls there were, of all models or of one."""
        return len(self._journal.calls_for(model))

    def sent(self, number: int) -> tuple[Sent, ...]:
        """The body writes of the answer to call `number`, each with its time."""
        with self._journal.changed:
            return tuple(self._journal.sent.get(number, ()))

    @property
    def closed(self) -> int:
        """How many connections the peer closed, or half-closed, while its answer was not sent completely."""
        with self._journal.changed:
            return self._journal.closed

    @property
    def connections(self) -> int:
        """How many connections were ever accepted, also those on which nothing was asked."""
        with self._journal.changed:
            return self._journal.accepted

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        with self._journal.changed:
            return len(self._journal.connections)

    def clear(self) -> None:
        """Forget calls and counts. Scripts go on where they are, call numbers too."""
        self._journal.clear()

    # ---- waiting; each raises TimeoutError, which says what was seen instead ----

    def wait_calls(self, n: int, timeout: float = PATIENCE, model: str | None = None) -> list[Call]:
        """Wait until there were at least `n` calls (of that model), and return them. `timeout`: seconds."""
        what = f"{n} calls" + (f" for {model}" if model else "")
        self._journal.wait(lambda: self.count(model) >= n, timeout, what)
        return self._journal.calls_for(model)

    def wait_closed(self, n: int, timeout: float = PATIENCE) -> None:
        """Wait until `closed` is at least `n`."""
        self._journal.wait(lambda: self.closed >= n, timeout, f"{n} connections closed by their peer")

    def wait_open(self, n: int, timeout: float = PATIENCE) -> None:
        """Wait until exactly `n` connections are open."""
        self._journal.wait(lambda: self.open_connections == n, timeout, f"{n} open connections")

    def wait_held(self, n: int, timeout: float = PATIENCE, name: str = "hold") -> None:
        """Wait until at least `n` answers wait at the `Hold` of that name."""
        gates = self._journal.gates
        self._journal.wait(lambda: gates.waiting[name] >= n, timeout, f"{n} answers waiting at {name!r}")

    # ---- inside ----

    def _in_loop(self, act: Callable[[], None]) -> None:
        if self._loop is None:
            raise RuntimeError("the provider is not running: use it as `with RecordingProvider() as provider:`")
        self._loop.call_soon_threadsafe(act)

    def _run(self, listener: socket.socket) -> None:
        # a selector loop, so that the host's own choice (uvloop) does not change what a test sees on the wire
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self._journal), sock=listener, backlog=BACKLOG)
        with self._journal.changed:
            self._loop = loop
            self._journal.changed.notify_all()
        await self._stop.wait()
        server.close()
        while self._journal.connections:  # aborting takes a turn of the loop; a last one may be on its way in
            for connection in tuple(self._journal.connections):
                connection.abort()
            await asyncio.sleep(0)
        await server.wait_closed()
