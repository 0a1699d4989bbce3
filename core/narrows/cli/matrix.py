"""The document of explain for people: a table target × constraint with every reason, then what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from narrows import money
from narrows.cli.output import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from narrows.snapshot import Snapshot

_TICK: Final = "✓"


def show(found: Mapping[str, Any], snapshot: Snapshot) -> None:
    """Print it."""
    if found["targets"]:
        terminal = console()
        tick = _TICK if terminal.encoding.startswith("utf") else "ok"
        terminal.print(table(found, columns(found, snapshot), tick))
    for line in (*outcome(found), *details(found, snapshot)):
        say(line)


def columns(found: Mapping[str, Any], snapshot: Snapshot) -> tuple[str, ...]:
    """The rules of the route in their order, then whatever else removed a target (a budget, say)."""
    route = snapshot.routes.get(found["route"] or "")
    rules = [impl.plugin for impl in route.narrowers] if route is not None else []
    others = [reason["constraint"] for row in found["targets"] for reason in row["exclusions"]]
    return tuple(dict.fromkeys((*rules, *others)))


def table(found: Mapping[str, Any], rules: Sequence[str], tick: str) -> Table:
    """One row a target, one column a rule: a tick, or every reason."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    built = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("target", *rules, "eligible"):
        built.add_column(name, overflow="fold")  # a narrow terminal breaks words, and hides none
    for row in found["targets"]:
        cells = []
        for rule in rules:
            whys = [reason["why"] for reason in row["exclusions"] if reason["constraint"] == rule]
            cells.append(Text("\n".join(whys), "red") if whys else Text(tick, "green"))
        eligible = Text("yes", "green") if row["eligible"] else Text("no", "red")
        built.add_row(Text(row["target"], "bold"), *cells, eligible)
    return built


def outcome(found: Mapping[str, Any]) -> Iterable[str]:
    """Eligible or refused, and the nearest way out."""
    left = sum(row["eligible"] for row in found["targets"])
    if found["outcome"] == "eligible":
        yield f"eligible: {left} of {len(found['targets'])} targets of {found['route']!r}, for {found['principal']}"
        if found["order"] is not None:
            yield f"order:    {', '.join(found['order'])}{ranked(found['rank'])}"
    else:
        yield f"refused:  {found['status']} {found['code']}: {found['message']}"
    closest = found["closest"]
    if closest is not None and "Closest:" not in found["message"]:  # a refusal by exhaustion has said it
        yield f"closest:  {closest['target']}, blocked only by {', '.join(closest['blocked_by'])}"


def details(found: Mapping[str, Any], snapshot: Snapshot) -> Iterable[str]:
    """What the request said, what that obliges, and the bounds of size and cost."""
    for name, said in found["attributes"].items():
        how = "assumed, nobody said" if said["assumed"] else f"said by {' and '.join(said['sources'])}"
        yield f"says:     {name} = {', '.join(said['values'])} ({how})"
    for row in found["demands"]:
        yield f"demands:  {row['constraint']}: {_plain(row['demand'])} ({row['source']})"
    if found["targets"]:
        yield f"tokens:   {found['tokens']['at_least']} to {found['tokens']['at_most']} in the prompt"
        yield f"cost:     {_cost(found)}"
    yield f"policy:   {found['policy']}"


def ranked(rank: Mapping[str, Any] | None) -> str:
    """Why this order, behind it; nothing where its ranker says nothing."""
    if rank is None:
        return ""
    signals = (
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in rank["signals"].items()
    )
    said = ", ".join(filter(None, (rank["reason"], *signals)))
    return f" ({said})" if said else ""


def _cost(found: Mapping[str, Any]) -> str:
    eligible = [row["target"] for row in found["targets"] if row["eligible"]]
    cost, unpriced = found["cost_micro_usd"], found["unpriced"]
    if len(unpriced) == len(eligible):
        return "unknown, no eligible target has a price" if eligible else "nothing, no upstream would be called"
    bounds = f"{money.usd(cost['at_least'])} to {money.usd(cost['at_most'])} USD an attempt"
    return f"{bounds}; without a price: {', '.join(unpriced)}" if unpriced else bounds


def _plain(demand: object) -> str:
    if isinstance(demand, list):
        return " ".join(_plain(part) for part in demand)
    return str(demand)
