"""A budget plugin that grants everything and remembers what it was asked: what a test of money reads afterwards."""

from __future__ import annotations

import threading

from narrows import Allowance, Block, Request, Usage, hookimpl

PATIENCE = 5.0


class Purse:
    """Holds and settlements of all requests so far. May be asked from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.holds: list[int] = []
        self.settled: list[Usage] = []
        self.released = 0

    def clear(self) -> None:
        """As it was."""
        with self._changed:
            self.holds.clear()
            self.settled.clear()
            self.released = 0

    def wait(self, n: int = 1) -> Usage:
        """The n-th settlement, as soon as its request has given back what was left. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.released >= n, PATIENCE):
                raise TimeoutError(f"waited {PATIENCE:g} s for settlement {n}; there are {self.settled}")
            return self.settled[n - 1]

    def kind(self) -> type[Block]:
        """The plugin's class, for `kinds={"plugins.purse": …}`."""
        purse = self

        class PurseBlock(Block):
            """Grants what it is asked for."""

            @hookimpl
            def budget(self, request: Request) -> Allowance:
                return _Allowance(purse)

        return PurseBlock


class _Allowance:
    def __init__(self, purse: Purse) -> None:
        self._purse = purse

    def room(self) -> int:
        return 2**53

    def hold(self, amount: int) -> int:
        self._purse.holds.append(amount)
        return amount

    def settle(self, usage: Usage) -> None:
        self._purse.settled.append(usage)

    def release(self) -> None:
        with self._purse._changed:
            self._purse.released += 1
            self._purse._changed.notify_all()
