"""The tables, as the newest version has them. `migrations` says how older files get there.

One row a decision with the columns that people ask by, and the whole record as JSON; one row an upstream attempt, so that
what was called and paid can be summed. Times are seconds since 1970, UTC; money is micro-USD.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, Table, Text

SCHEMA: Final = MetaData()

schema_version: Final = Table("schema_version", SCHEMA, Column("version", Integer, primary_key=True))

decisions: Final = Table(
    "decisions",
    SCHEMA,
    Column("id", Text, primary_key=True),
    Column("ts", Double, nullable=False),
    Column("principal", Text),
    Column("tenant", Text),
    Column("route", Text),
    Column("session", Text),
    Column("policy", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("code", Text, nullable=False),
    Column("cost_micro_usd", BigInteger, nullable=False),
    Column("blocked_fallback", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Index("decisions_by_time", "ts", "id"),
    Index("decisions_by_principal", "principal", "ts", "id"),
    Index("decisions_by_session", "session", "ts", "id"),
)

attempts: Final = Table(
    "attempts",
    SCHEMA,
    Column("id", Text, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("n", Integer, nullable=False),
    Column("ts", Double, nullable=False),
    Column("target", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("class", Text, nullable=False),
    Column("status", Integer),
    Column("started_ms", BigInteger, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("usage", Text, nullable=False),
    Column("cost_micro_usd", BigInteger),
    Index("attempts_by_decision", "decision"),
    Index("attempts_by_time", "ts"),
)

policies: Final = Table(
    "policies",
    SCHEMA,
    Column("digest", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("first_seen", Double, nullable=False),
)

gaps: Final = Table(
    "gaps",
    SCHEMA,
    Column("id", Text, primary_key=True),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),
    Column("count", BigInteger),
    Column("reason", Text, nullable=False),
    Index("gaps_by_time", "until"),
)

runs: Final = Table(
    "runs",
    SCHEMA,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process", Text),
    Column("started", Double, nullable=False),
    Column("last_ts", Double),
    Column("stopped", Double),
)
"""One row for each time that a gateway opened the ledger. `process` tells two processes of one number apart; `last_ts`:
of the newest decision that it wrote; `stopped` None: it runs, or it was killed."""
