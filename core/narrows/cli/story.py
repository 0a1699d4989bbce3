"""Decisions for people: a table of several, and the whole story of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from narrows import money
from narrows.cli.matrix import ranked
from narrows.cli.output import console, say
from narrows.ledger import Gap

if TYPE_CHECKING:
    from rich.table import Table

NOTHING: Final = "-"
UNPRICED: Final = "unpriced"
COLUMNS: Final = ("time (UTC)", "id", "route", "outcome", "code", "target", "attempts", "cost USD", "excluded")
_STYLES: Final[Mapping[str, str]] = {"answered": "", "refused": "red"}
_REASONS: Final[Mapping[str, str]] = {
    "queue_full": "the queue was full",
    "not_stopped": "the gateway was not stopped in order",
    "write_failed": "they could not be written",
    "unauthenticated": "requests of nobody, more than are kept",
}


def show_several(found: Sequence[Mapping[str, Any]], gaps: Sequence[Gap]) -> None:
    """One line a decision, newest first, with what is missing in its place. A line is never folded: ids are copied, and
    lines are searched."""
    from rich.text import Text

    found = [_shown(row) for row in found]
    rows = {id(row): cells(row) for row in found}
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows.values(), strict=True)]
    say(Text(_line(COLUMNS, widths), "bold"))
    shown: list[Mapping[str, Any] | Gap] = [*found, *gaps]
    for row in sorted(shown, key=_time, reverse=True):
        if isinstance(row, Gap):
            say(Text(f"{_when(row.until)[:19]}  {_missing(row)}", "yellow"))
        else:
            say(Text(_line(rows[id(row)], widths), _STYLES.get(row["outcome"], "magenta")))


def _shown(value: Any) -> Any:
    """The record with what a terminal would obey escaped: hosts, callers and plugins choose texts in it."""
    if isinstance(value, str):
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in value)
    if isinstance(value, Mapping):
        return {_shown(key): _shown(inner) for key, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list | tuple) else value


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def cells(d: Mapping[str, Any]) -> tuple[str, ...]:
    """One decision, one row."""
    target = d["attempts"][-1]["target"] if d["attempts"] else NOTHING
    removed = Counter(row["constraint"] for row in d["excluded"])
    return (
        _when(d["ts"])[:19],
        d["id"],
        d["route"] or NOTHING,
        d["outcome"],
        d["code"],
        target,
        str(len(d["attempts"])),
        _paid(d["attempts"], d["cost_micro_usd"]),
        ", ".join(f"{rule}:{count}" for rule, count in removed.items()) or NOTHING,
    )


def show_one(d: Mapping[str, Any]) -> None:
    """Who, under which policy, what was demanded, why each target went, the order, the attempts, the money."""
    d = _shown(d)
    for line in _beginning(d):
        say(line)
    if d["labels"]:
        console().print(_targets(d))
    if d["attempts"]:
        console().print(_attempts(d["attempts"]))
    for line in _end(d):
        say(line)


def _beginning(d: Mapping[str, Any]) -> Iterable[str]:
    yield f"decision: {d['id']}"
    yield f"time:     {_when(d['ts'])} UTC"
    tenant = f", tenant {d['tenant']}" if d["tenant"] else ""
    session = f", session {d['session']}" if d["session"] else ""
    asked = f", request id {d['request_id']}" if d.get("request_id") else ""
    yield f"caller:   {d['principal'] or 'nobody'}{tenant}{session}{asked}"
    yield f"route:    {d['route'] or 'none, it was refused before'}"
    yield f"outcome:  {d['outcome']}, {d['status'] or 'no status'}, {d['code']}"
    for name, said in d["attributes"].items():
        how = "assumed, nobody said" if said["assumed"] else f"said by {' and '.join(said['sources'])}"
        yield f"says:     {name} = {', '.join(said['values'])} ({how})"
    for row in d["demands"]:
        yield f"demands:  {row['constraint']}: {_plain(row['demand'])} ({row['source']})"
    yield f"policy:   {d['policy']}"


def _targets(d: Mapping[str, Any]) -> Table:
    from rich.text import Text

    table = _table("target", "order", "labels", "why not")
    places = {name: str(place) for place, name in enumerate(d["order"], 1)}
    for name, labels in d["labels"].items():
        whys = [f"{row['why']} [{row['constraint']}, {row['code']}]" for row in d["excluded"] if row["target"] == name]
        shown = ", ".join(f"{label} {_plain(value)}" for label, value in labels.items()) or NOTHING
        left = Text("\n".join(whys), "red") if whys else Text(NOTHING)
        table.add_row(Text(name, "bold"), Text(places.get(name, NOTHING)), Text(shown), left)
    return table


def _attempts(rows: Sequence[Mapping[str, Any]]) -> Table:
    from rich.text import Text

    table = _table("attempt", "target", "class", "status", "began", "took", "tokens in, cached, out", "cost USD")
    for row in rows:
        used = row["tokens"]
        amounts = f"{used['input']}, {used['cached']}, {used['output']} ({row['usage']})"
        row_cells = (
            str(row["n"]) if row["purpose"] == "answer" else f"{row['n']} ({row['purpose']})",
            row["target"],
            row["class"] + (", endpoint dead" if row["endpoint_dead"] else ""),
            str(row["status"] or NOTHING),
            f"{row['started_ms']} ms",
            f"{row['duration_ms']} ms",
            amounts,
            _paid([row], row["cost_micro_usd"] or 0),
        )
        table.add_row(*map(Text, row_cells))
    return table


def _end(d: Mapping[str, Any]) -> Iterable[str]:
    rank = d["rank"]
    if d["order"]:
        yield f"order:    {', '.join(d['order'])}, by {rank['algorithm']}{ranked(rank)}"
    if d["attempts"]:
        paid = _paid(d["attempts"], d["cost_micro_usd"])
        yield f"cost:     {'unknown, no target that was called has a price' if paid == UNPRICED else f'{paid} USD'}"
    elif d["outcome"] == "refused":
        yield "cost:     nothing, no upstream was called"
    if d["blocked_fallback"]:
        yield "fallback: blocked. It ended in a failure that moves on, and a rule had removed a target of this route."


def _missing(gap: Gap) -> str:
    count = "an unknown number" if gap.count is None else str(gap.count)
    return f"gap: {count} missing since {_when(gap.since)[:19]}, {_REASONS.get(gap.reason, gap.reason)}"


def _time(row: Mapping[str, Any] | Gap) -> float:
    if isinstance(row, Gap):
        return row.until
    ts: float = row["ts"]
    return ts


def _when(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _paid(attempts: Sequence[Mapping[str, Any]], micro_usd: int) -> str:
    """In USD. Where a target has no price, what it cost is not known."""
    if not attempts:
        return NOTHING
    unpriced = sum(row["cost_micro_usd"] is None for row in attempts)
    if unpriced == len(attempts):
        return UNPRICED
    return money.usd(micro_usd) + (f" and {UNPRICED}" if unpriced else "")


def _plain(value: object) -> str:
    return " ".join(map(_plain, value)) if isinstance(value, list) else str(value)


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
