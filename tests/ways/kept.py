"""What a gateway decided, kept by a plugin of the tests'. Decisions come from the server's thread, behind the last byte."""

from __future__ import annotations

import threading

from narrows import Block, Decision, Services, hookimpl

PATIENCE = 5.0


class Kept:
    """May be asked from any thread. `starts`, `stops`: how often the gateway's life began and ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._decisions: list[Decision] = []
        self.starts = self.stops = 0

    def kind(self) -> type[Block]:
        """The plugin's class, for `kinds={"plugins.kept": …}`."""
        kept = self

        class KeptBlock(Block):
            """Hands everything to the test."""

            @hookimpl
            def start(self, services: Services) -> None:
                kept.starts += 1

            @hookimpl
            def stop(self) -> None:
                kept.stops += 1

            @hookimpl
            def record(self, decision: Decision) -> None:
                with kept._changed:
                    kept._decisions.append(decision)
                    kept._changed.notify_all()

        return KeptBlock

    def clear(self) -> None:
        """Forget the decisions."""
        with self._changed:
            self._decisions.clear()

    def all(self, n: int) -> list[Decision]:
        """The decisions so far, as soon as there are `n`. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._decisions) >= n, PATIENCE):
                raise TimeoutError(f"waited {PATIENCE:g} s for {n} decisions; there are {len(self._decisions)}")
            return list(self._decisions)

    def only(self) -> Decision:
        """The decision of the one request that there was. Raises TimeoutError, ValueError where there were more."""
        (decision,) = self.all(1)
        return decision

    def of(self, ident: str) -> Decision:
        """The decision with that id. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._find(ident) is not None, PATIENCE):
                raise TimeoutError(f"{ident} was not recorded within {PATIENCE:g} s")
            found = self._find(ident)
        assert found is not None
        return found

    def _find(self, ident: str) -> Decision | None:
        return next((decision for decision in self._decisions if decision.id == ident), None)
