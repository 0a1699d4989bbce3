"""What was decided, kept and read again: the read protocol, and the memory that stands where no sink can be read."""

from __future__ import annotations

from narrows.ledger.memory import Memory
from narrows.ledger.reading import Gap, LedgerUnavailable, Page, Query, Reader
from narrows.ledger.reads import Reads

__all__ = ["Gap", "LedgerUnavailable", "Memory", "Page", "Query", "Reader", "Reads"]
