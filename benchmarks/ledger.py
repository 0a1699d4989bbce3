"""What the ledger costs, and what it costs while its file is locked. Only the ratios travel.

    python -m benchmarks.ledger locked [--rounds 5] [--seconds 10] [--connections 16]
    python -m benchmarks.ledger overhead [--rounds 5] [--seconds 4] [--connections 64]

`locked`: p99 while another process holds `BEGIN EXCLUSIVE`, over p99 just before or after it, in turns; the median over
rounds is to stay at or below 1.1. `overhead`: requests/s with ledger and metrics over requests/s of the same gateway with
both made no-ops, in one run; to stay at or above 0.9. Needs what `benchmarks.throughput` needs.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.throughput import Server, bench, body, load

APP = "benchmarks.gateway_app:app"
PORT = 19930
MOST_LOCKED = 1.1
LEAST_OVERHEAD = 0.9
SETTLE_SECS = 1.5
"""After a lock the queue is written: that is not measured here, it is measured by `overhead`."""


def main() -> int:
    """Run it, print each round and the median; exit 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("locked", "overhead"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--connections", type=int)
    arguments = parser.parse_args()
    model, request = body("plain")
    with bench(request) as work:
        if arguments.what == "locked":
            seconds, connections = arguments.seconds or 10.0, arguments.connections or 16
            return locked(work, model, request, arguments.rounds, seconds, connections)
        seconds, connections = arguments.seconds or 4.0, arguments.connections or 64
        return overhead(work, model, request, arguments.rounds, seconds, connections)


# ---- locked ----------------------------------------------------------------------------------------------------------


def locked(work: Path, model: str, request: bytes, rounds: int, seconds: float, connections: int) -> int:
    """p99 under the lock over p99 without it, on one server."""
    file = work / "ledger.db"
    ratios = []
    with running({"NARROWS_LEDGER": str(file)}, PORT, model, request):
        load(work, PORT, connections, 2.0)
        for number in range(rounds):
            found: dict[bool, dict[str, Any]] = {}
            for held in (number % 2 == 0, number % 2 == 1):
                if held:
                    with lock(file):
                        found[held] = load(work, PORT, connections, seconds)
                    drained(file)
                else:
                    found[held] = load(work, PORT, connections, seconds)
            free, under = found[False], found[True]
            ratios.append(under["lat"]["p99"] / free["lat"]["p99"])
            print(
                f"round {number + 1}: p99 {free['lat']['p99'] / 1e3:.1f} ms, locked {under['lat']['p99'] / 1e3:.1f} ms, "
                f"{ratios[-1]:.2f} x; {free['rps']:.0f} and {under['rps']:.0f} requests/s; "
                f"{free['bad'] + under['bad']:.0f} bad"
            )
            if free["bad"] or under["bad"]:
                return 1
    with closing(sqlite3.connect(file)) as connection:
        kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
        missing = connection.execute("SELECT count(*), coalesce(sum(count), 0) FROM gaps").fetchone()
    print(f"{kept} decisions kept, {missing[1]} dropped, told of in {missing[0]} gaps")
    return verdict("p99 under the lock", statistics.median(ratios), at_most=MOST_LOCKED)


@contextmanager
def lock(file: Path) -> Iterator[None]:
    """Hold the file as another process would."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


def drained(file: Path) -> None:
    """Wait until nothing is written any more."""
    before = -1
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        while (now := connection.execute("SELECT count(*) FROM decisions").fetchone()[0]) != before:
            before = now
            time.sleep(SETTLE_SECS)


# ---- overhead --------------------------------------------------------------------------------------------------------


def overhead(work: Path, model: str, request: bytes, rounds: int, seconds: float, connections: int) -> int:
    """Requests per second with ledger and metrics, over the same without both."""
    contestants = {"bare": {"NARROWS_BARE": "1"}, "ledger": {"NARROWS_LEDGER": str(work / "ledger.db")}}
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants)
        random.Random(number).shuffle(order)
        for name in order:
            port = PORT + 1 + list(contestants).index(name)
            with running(contestants[name], port, model, request):
                load(work, port, connections, 1.0)
                found = load(work, port, connections, seconds)
            rates[name].append(found["rps"])
            print(f"round {number + 1}: {name:8} {found['rps']:7.0f} requests/s, {found['bad']} bad")
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(f"bare {medians['bare']:.0f} requests/s, with ledger and metrics {medians['ledger']:.0f} requests/s")
    return verdict("ledger and metrics", medians["ledger"] / medians["bare"], at_least=LEAST_OVERHEAD)


@contextmanager
def running(environment: Mapping[str, str], port: int, model: str, request: bytes) -> Iterator[None]:
    """The gateway with that environment."""
    server = Server(APP, port, dict(environment), model, request)
    try:
        yield
    finally:
        server.stop()


def verdict(what: str, ratio: float, *, at_least: float | None = None, at_most: float | None = None) -> int:
    """Say it; 0 where the target is met."""
    good = (at_least is None or ratio >= at_least) and (at_most is None or ratio <= at_most)
    target = f"at least {at_least}" if at_least is not None else f"at most {at_most}"
    print(f"{what}: {ratio:.3f} x, target {target}: {'met' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
