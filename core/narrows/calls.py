"""The hook loop: one implementation at a time, under a deadline, and every failure named after its plugin.

pluggy's own loop lets one exception abort the rest, does not name the plugin, never awaits, and lets a wrapper swallow a
refusal; so it registers and we call. Source: ADR 0002.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from pathlib import PurePath
from typing import Any, TypeAlias, cast

import anyio

from narrows.errors import ContractViolation, Passing, PluginError

log = logging.getLogger("narrows.plugins")
DEADLINE_SECS = 5.0
SLOW_SECS = 0.05

Watch: TypeAlias = Callable[[str, str, Callable[[], object]], object]
"""A plugin's name, a hook's, and the call -> what the call answers."""


@dataclass(frozen=True, slots=True)
class Impl:
    """One implementation of one hook. `plugin` is the name people see; `prefix` is what its exclusion codes begin
    with ("" for our own kinds); `arguments` are those of the specification that it takes, in order."""

    plugin: str
    path: str
    hook: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    distribution: str
    prefix: str = ""
    owner: object = None


class Calls:
    """Calls implementations and counts what went wrong with them. One per gateway: the counts survive a reload."""

    def __init__(
        self, deadline_secs: float = DEADLINE_SECS, slow_secs: float = SLOW_SECS, watch: Watch | None = None
    ) -> None:
        """`watch`: makes every call, for tracing."""
        self.deadline_secs, self.slow_secs, self._watch = deadline_secs, slow_secs, watch
        self.errors: Counter[tuple[str, str]] = Counter()
        self.violations: Counter[tuple[str, str]] = Counter()
        self.slow: Counter[tuple[str, str]] = Counter()

    async def __call__(self, impl: Impl, **arguments: object) -> object:
        """What the implementation answers, awaited where it must be.

        Raises PluginError when it raises, whatever it raises, or is late: a plugin that swallows its cancellation and
        answers anyway is late too. `Passing` is the core's own and goes through.
        """
        answer = self.begin(impl, **arguments)
        return await self.finish(impl, cast(Awaitable[object], answer)) if isawaitable(answer) else answer

    def begin(self, impl: Impl, **arguments: object) -> object:
        """Call it, without awaiting. A synchronous overrun cannot be interrupted; it is counted and named."""
        started = time.perf_counter()
        try:
            given = [arguments[name] for name in impl.arguments]
            answer: object
            if self._watch is None:
                answer = impl.function(*given)
            else:
                answer = self._watch(impl.plugin, impl.hook, partial(impl.function, *given))
        except Passing:
            raise
        except Exception as error:
            raise self.failed(impl, error) from error
        taken = time.perf_counter() - started
        if taken > self.slow_secs:
            self.slow[impl.plugin, impl.hook] += 1
            log.warning("plugin %s blocked in hook %s for %d ms; do slow work in an async hook or a thread",
                        impl.path, impl.hook, taken * 1000)  # fmt: skip
        return answer

    async def finish(self, impl: Impl, answer: Awaitable[object], *, bounded: bool = True) -> object:
        """Await an answer under the deadline. `cancel_called` tells a late answer from a timely one: a plugin may have
        swallowed its cancellation once and answered after it. Not `bounded`: dispatch has its provider's time-outs."""
        result: object = None
        with anyio.move_on_after(self.deadline_secs if bounded else None) as scope:
            try:
                result = await answer
            except Passing:
                raise
            except Exception as error:
                raise self.failed(impl, error) from error
        if scope.cancel_called:
            raise self.failed(impl, None)
        return result

    def failed(self, impl: Impl, error: Exception | None) -> PluginError:
        """Count and log a failure. Only the exception's type and place are kept: its text may hold a prompt or a key."""
        self.errors[impl.plugin, impl.hook] += 1
        reason = f"no answer within {self.deadline_secs:g} s" if error is None else type(error).__name__
        log.error("plugin %s (%s) failed in hook %s: %s%s", impl.path, impl.distribution, impl.hook, reason, at(error))
        return PluginError(impl.plugin, impl.hook, reason)

    def violated(self, violation: ContractViolation) -> ContractViolation:
        """Count and log a broken contract."""
        self.violations[violation.plugin, violation.hook] += 1
        log.error("%s", violation)
        return violation

    def overruled(self, plugin: str, said: str, stands: str) -> None:
        """A classifier let a stop move on: it does not, and the plugin is named."""
        self.violations[plugin, "classify_error"] += 1
        log.error("plugin %s called a failure %s that is %s (hook classify_error); a stop beats a move",
                  plugin, said, stands)  # fmt: skip


def at(error: Exception | None) -> str:
    """Where an exception was raised: " at file.py:12"."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
