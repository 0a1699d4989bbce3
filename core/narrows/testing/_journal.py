"""What the recording provider knows: calls, counts, scripts. Written in its loop's thread, read from any."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from narrows.testing._connection import Connection
from narrows.testing._gates import Gates
from narrows.testing._requests import Received
from narrows.testing.answers import Answer, Script, Scripted
from narrows.testing.call import Call, Sent, json_object


class Journal:
    """The connections' `Host`. `changed` guards every field and is notified whenever one changes."""

    def __init__(self, default: tuple[Script, ...]) -> None:
        self.changed = threading.Condition()  # its lock may be taken again by its owner
        self.calls: list[Call] = []
        self.sent: dict[int, list[Sent]] = {}
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.closed = 0
        self.failure: BaseException | None = None
        self.gates = Gates(self._notify)
        self._number = 0
        self._scripts: dict[str | None, tuple[Script, ...]] = {None: default or (Answer(),)}
        self._steps: dict[str | None, int] = {}

    def set_script(self, model: str | None, answers: tuple[Script, ...]) -> None:
        if not answers:
            raise ValueError("a script needs at least one answer; the last one repeats")
        with self.changed:
            self._scripts[model] = answers
            self._steps[model] = 0

    def clear(self) -> None:
        with self.changed:
            self.calls.clear()
            self.sent.clear()
            self.accepted = self.closed = 0

    def calls_for(self, model: str | None) -> list[Call]:
        """The calls for that model; of all models for None."""
        with self.changed:
            return [call for call in self.calls if model is None or call.model == model]

    def wait(self, reached: Callable[[], bool], timeout: float, what: str) -> None:
        """Block until `reached()`. Raises TimeoutError, and RuntimeError as soon as a script failed."""
        with self.changed:
            if not self.changed.wait_for(lambda: reached() or self.failure is not None, timeout):
                raise TimeoutError(f"waited {timeout:g} s for {what}; saw {self._seen()}")
            if not reached():
                raise RuntimeError("a script of the recording provider failed") from self.failure

    # ---- what connections tell and ask (`Host`) ----

    def opened(self, connection: Connection) -> None:
        with self.changed:
            self.connections.add(connection)
            self.accepted += 1
            self.changed.notify_all()

    def gone(self, connection: Connection) -> None:
        with self.changed:
            self.connections.discard(connection)
            self.changed.notify_all()

    def received(self, request: Received) -> Call:
        named = json_object(request.body).get("model")
        model = named if isinstance(named, str) else None
        now = time.monotonic()
        with self.changed:
            self._number += 1
            head = (self._number, request.method, request.path, request.headers)
            call = Call(*head, request.body, now, request.complete, model)
            self.calls.append(call)
            self.changed.notify_all()
        return call

    def answer_to(self, call: Call) -> Scripted:
        with self.changed:
            key = call.model if call.model in self._scripts else None
            script = self._scripts[key]
            step = self._steps.get(key, 0)
            self._steps[key] = step + 1
        chosen = script[min(step, len(script) - 1)]
        return chosen(call) if callable(chosen) else chosen

    def sending(self, call: Call, size: int, at: float) -> None:
        with self.changed:
            self.sent.setdefault(call.number, []).append(Sent(size, at))

    def peer_left(self) -> None:
        with self.changed:
            self.closed += 1
            self.changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    async def pass_gate(self, name: str) -> None:
        await self.gates.wait(name)

    # ---- inside ----

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _seen(self) -> str:
        calls = ", ".join(f"{call.method} {call.path} {call.model or '-'}" for call in self.calls[-10:])
        counts = f"{len(self.calls)} calls, {self.closed} closed by their peer, {len(self.connections)} open"
        return f"{counts}{': ' if calls else ''}{calls}"
