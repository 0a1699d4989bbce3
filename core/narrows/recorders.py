"""Where a decision goes when its request is left: into queues, never into a sink. Source: DESIGN section 10."""

from __future__ import annotations

from narrows.decision import Decision
from narrows.ledger import Memory, Reader


class Recorders:
    """Takes decisions without waiting, and says where they can be read. One per gateway; it survives a reload."""

    def __init__(self) -> None:
        self._memory = Memory()

    def offer(self, decision: Decision, policy: str) -> None:
        """Take it. Never waits, never raises. `policy`: the canonical text of the policy it was made under."""
        self._memory.add(decision, policy)

    @property
    def dropped(self) -> int:
        """How many decisions a sink did not get, since this gateway was made; a decision counts once for each sink."""
        return 0

    @property
    def queued(self) -> int:
        """How many decisions wait to be written, over all sinks."""
        return 0

    @property
    def reader(self) -> Reader:
        """Where decisions are read: a sink that can be, else the memory."""
        return self._memory
