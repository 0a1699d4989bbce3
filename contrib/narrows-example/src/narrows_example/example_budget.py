"""`example_budget`: what each caller may spend, since the gateway started.

    [plugins.cap]
    kind = "example_budget"
    cap_micro_usd = 5_000_000          # 5 USD

Kept in memory, so it is an example: a restart or a reload forgets what was spent, and two processes count apart.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Annotated

from pydantic import Field, PrivateAttr

from narrows import Allowance, Block, Request, Usage, hookimpl


class Book:
    """What each caller has spent, and what its open requests hold. Who spent nothing takes no place."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        # Looking and taking must be one step, also where a host runs two event loops in two threads. Nothing waits in it.
        self.lock = Lock()


class ExampleBudget(Block):
    """A cap for each caller, in micro-USD (a millionth of a USD). Targets without a price are refused to everybody.

    Options: `cap_micro_usd`.
    """

    cap_micro_usd: Annotated[int, Field(ge=0)]

    _book: Book = PrivateAttr(default_factory=Book)

    @hookimpl
    def budget(self, request: Request) -> Allowance:
        """An allowance, also where nothing is left: a target that costs nothing may still be used."""
        return Share(self._book, request.principal.name, self.cap_micro_usd)


class Share:
    """The `Allowance` of one request."""

    def __init__(self, book: Book, caller: str, cap: int) -> None:
        self._book, self._caller, self._cap = book, caller, cap
        self._held = 0
        self._settled = self._released = False

    def room(self) -> int:
        """What `hold` would grant now."""
        with self._book.lock:
            return self._room()

    def hold(self, amount: int) -> int:
        """Set the hold to as much of the amount as there is room for; 0 where the cap is spent."""
        with self._book.lock:
            granted = max(min(amount, self._room()), 0)
            self._set(granted)
            return granted

    def settle(self, usage: Usage) -> None:
        """Charge what was used, once. It is held no longer then, else it would count twice until `release`."""
        with self._book.lock:
            if self._settled:
                return
            self._settled = True
            if usage.cost_micro_usd:
                self._book.spent[self._caller] += usage.cost_micro_usd
                self._set(max(self._held - usage.cost_micro_usd, 0))

    def release(self) -> None:
        """Give back what is still held; nothing is granted afterwards."""
        with self._book.lock:
            self._released = True
            self._set(0)

    def _room(self) -> int:
        if self._released:
            return 0
        others = self._book.held[self._caller] - self._held
        # Never less than what is held already: an attempt may cost more than its worst case, and a smaller hold always
        # succeeds.
        return max(self._cap - self._book.spent[self._caller] - others, self._held)

    def _set(self, amount: int) -> None:
        self._book.held[self._caller] += amount - self._held
        self._held = amount
        if not self._book.held[self._caller]:
            del self._book.held[self._caller]
