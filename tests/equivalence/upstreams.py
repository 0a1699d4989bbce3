"""The upstreams behind a gateway, one class for each provider kind: how to make one, make it fail, and see its calls.

The blocks are ordinary configuration and the providers come out of the real registry: a kind that a gateway could not
build would fail here. What is asserted is what an upstream was handed, never what the caller was told of it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio.to_thread
import pytest

from narrows import FailureClass, Gateway, Reply
from narrows.testing import Answer, Call, Hold, RecordingProvider, Stream, failure_answer, stream_events
from narrows_plugins.dispatch.echo import Echo

MODEL = "vendor-"
"""What a target's upstream model begins with: no name of a route or a target, so that one cannot pass for another."""

UPSTREAM_KEY = "sk-upstream-canary-31c9"
FOREVER = 3600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One target of a gateway under test. `keys`: what stands in its block, beside provider and model. `fails`: how its
    upstream answers; `times`: only its first calls, None all. `holds`: it begins a stream and never goes on."""

    keys: Mapping[str, object] = field(default_factory=dict)
    fails: FailureClass | None = None
    times: int | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Handed:
    """One call as its upstream got it. `headers`: lower-case names."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The decoded body."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class Upstreams(ABC):
    """All upstreams of one kind in one gateway. Enter it first; then `block` for each target; then `bind`."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.open(self._stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @abstractmethod
    def open(self, stack: ExitStack) -> None:
        """Start what listens, until the stack is closed."""

    @abstractmethod
    def block(self, name: str, plan: Plan) -> dict[str, object]:
        """The provider block of that target. Its upstream behaves as planned from now on."""

    @abstractmethod
    def bind(self, gateway: Gateway) -> None:
        """The gateway that was made of these blocks."""

    @abstractmethod
    def tally(self) -> Counter[str]:
        """How often each model was called at all, also one that nobody planned."""

    @abstractmethod
    def handed(self, name: str) -> list[Handed]:
        """The calls for that target's model, in order."""

    @abstractmethod
    async def wait_left(self, name: str) -> None:
        """Wait until the last call of that target was closed by us before its answer was complete."""


class OpenAICompatibleUpstreams(Upstreams):
    """A recording provider on a real socket. Each target has a provider block of its own, all at one address."""

    def open(self, stack: ExitStack) -> None:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("EQUIVALENCE_KEY", UPSTREAM_KEY)
        self._recorder = stack.enter_context(RecordingProvider())

    def block(self, name: str, plan: Plan) -> dict[str, object]:
        model = MODEL + name
        if plan.holds:
            first, *others = stream_events(model)
            self._recorder.script(model, Stream((first, Hold("never"), *others)))
        elif plan.fails is not None and plan.times is not None:
            self._recorder.script(model, *[failure_answer(plan.fails)] * plan.times, Answer())
        elif plan.fails is not None:
            self._recorder.script(model, failure_answer(plan.fails))
        return {
            "kind": "openai_compatible",
            "base_url": self._recorder.base_url,
            "api_key_env": "EQUIVALENCE_KEY",
        }

    def bind(self, gateway: Gateway) -> None:
        """Nothing to know of it: the socket sees everything."""

    def tally(self) -> Counter[str]:
        return Counter(str(call.model) for call in self._recorder.calls)

    def handed(self, name: str) -> list[Handed]:
        return [self._handed(call) for call in self._recorder.calls_for(MODEL + name)]

    async def wait_left(self, name: str) -> None:
        await anyio.to_thread.run_sync(partial(self._recorder.wait_closed, 1))

    def _handed(self, call: Call) -> Handed:
        return Handed({key: call.header(key) or "" for key, _ in call.headers}, call.body)


class EchoUpstreams(Upstreams):
    """Echo answers in this process. Its own counter counts; what it is handed is seen where it takes it."""

    def open(self, stack: ExitStack) -> None:
        self._blocks: list[Echo] = []
        self._models: set[str] = set()
        self._calls: list[tuple[Handed, Reply]] = []
        calls, answer = self._calls, Echo.answer

        async def seen(echo: Echo, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
            reply = await answer(echo, path, headers, body)
            calls.append((Handed(headers, body), reply))
            return reply

        stack.enter_context(pytest.MonkeyPatch.context()).setattr(Echo, "answer", seen)

    def block(self, name: str, plan: Plan) -> dict[str, object]:
        block: dict[str, object] = {"kind": "echo"}
        if plan.holds:
            block["chunk_delay_secs"] = FOREVER
        if plan.fails is not None:
            block["fail"] = plan.fails.value
        if plan.times is not None:
            block["fail_times"] = plan.times
        return block

    def bind(self, gateway: Gateway) -> None:
        self._models = {target.model for target in gateway.snapshot.targets.values()}
        blocks = [vendor.block for vendor in gateway.snapshot.vendors.values()]
        self._blocks = [block for block in blocks if isinstance(block, Echo)]

    def tally(self) -> Counter[str]:
        counted = Counter({model: sum(block.count(model) for block in self._blocks) for model in self._models})
        counted["?"] = sum(block.count() for block in self._blocks) - counted.total()
        return +counted

    def handed(self, name: str) -> list[Handed]:
        return [handed for handed, _ in self._calls if handed.fields["model"] == MODEL + name]

    async def wait_left(self, name: str) -> None:
        handed, reply = self._calls[-1]
        assert handed.fields["model"] == MODEL + name
        with pytest.raises(StopAsyncIteration):  # where nobody had closed it, it would wait for its next chunk
            with anyio.fail_after(5):
                await anext(aiter(reply.chunks))
