"""The policy stage: what deciding costs, from the resolved body to the ranked order (steps 3 to 10).

    python -m benchmarks.policy [--json]

Five constraints and the two that are always on, over 10, 1,000 and 10,000 targets, with 1,000 distinct prompt sizes in
play. Also: what a demand costs that was never seen (cold), and that caches stay bounded over 100,000 distinct demands.
Microseconds of one core, the median of five rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator

import anyio
import msgspec

from narrows import Gateway, Inbound
from narrows.admission import authorize, budget, oblige, resolve
from narrows.candidates import Pool
from narrows.dialects import chat
from narrows.narrowing import hold, narrow, rank
from narrows.run import Run

SIZES = (10, 1_000, 10_000)
BOUND_US = {10: 60.0, 1_000: 100.0, 10_000: 300.0}
DISTINCT = 1_000
ROUNDS = 5
MANY_DEMANDS = 100_000


def configuration(targets: int) -> str:
    """A route over that many targets, with five constraints that each remove some."""
    lines = [
        '[attributes.data-region]\nvalues = ["eu", "us", "any"]',
        '[attributes.team]\nvalues = ["a", "b"]\nmissing = "unrestricted"',
        (
            '[constraints.residency]\nkind = "attribute_match"\nrequest_attribute = "data-region"\n'
            'target_attribute = "region"\naccept = { eu = ["eu-west", "eu-central"], us = ["us-east"], any = "*" }'
        ),
        (
            '[constraints.law]\nkind = "attribute_match"\nrequest_attribute = "data-region"\n'
            'target_attribute = "jurisdiction"\naccept = { eu = ["eu"], us = ["us", "eu"], any = "*" }'
        ),
        '[constraints.teams]\nkind = "attribute_match"\nrequest_attribute = "team"\ntarget_attribute = "team"',
        '[constraints.price]\nkind = "cost_ceiling"\nmax_cost_per_mtok_out = 50',
        '[constraints.classes]\nkind = "allowed_classes"\nclasses = ["private", "public"]',
        '[providers.p]\nkind = "echo"',
    ]
    for n in range(targets):
        eu = n % 2 == 0
        lines.append(
            f'[targets.t{n}]\nprovider = "p"\nmodel = "m{n}"\nregion = "{"eu-west" if eu else "us-east"}"\n'
            f'jurisdiction = "{"eu" if eu else "us"}"\nclass = "{"private" if n % 3 else "public"}"\n'
            f'labels = {{ team = "{"a" if n % 5 else "b"}" }}\ncapabilities = {{ tools = {"false" if n % 7 == 3 else "true"} }}\n'
            f"context_window = {8000 * (1 + n % 200)}\nprice = {{ input = 1.0, output = {1 + n % 60} }}"
        )
    names = ", ".join(f'"t{n}"' for n in range(targets))
    lines.append(f'[routes.chat]\ntargets = [{names}]\nconstraints = ["residency", "law", "teams", "price", "classes"]')
    return "\n".join(lines)


def bodies() -> Iterator[bytes]:
    """Bodies of distinct prompt sizes, up to about 40,000 tokens at least."""
    for n in range(DISTINCT):
        words = "word " * (10 + n * 64)
        body = {"model": "chat", "messages": [{"role": "user", "content": words}], "tools": [_TOOL]}
        yield msgspec.json.encode(body)


_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
_HEADERS = (("x-request-id", "bench"), ("data-region", "eu"), ("team", "a"), ("user-agent", "bench"))


async def nothing() -> AsyncIterator[bytes]:
    """No body: the benchmark decodes it beforehand."""
    empty: tuple[bytes, ...] = ()
    for part in empty:
        yield part


async def timed(run: Run) -> Run:
    """The timed part."""
    denial = (
        await resolve(run)
        or await oblige(run)
        or await authorize(run)
        or await budget(run)
        or await narrow(run)
        or await hold(run)
        or await rank(run)
    )
    if denial is not None:
        raise RuntimeError(f"the benchmark's request was refused: {denial}")
    return run


async def measure(targets: int) -> float:
    """Microseconds of one policy stage at that many targets."""
    gateway = Gateway.from_text(configuration(targets), open_access=True)
    snapshot = gateway.snapshot
    calls = (chat.decode(body, snapshot.smallest_window) for body in bodies())
    decoded = [call for call in calls if isinstance(call, chat.Call)]
    rounds = []
    for _ in range(ROUNDS + 1):
        spent = 0
        for call in decoded:
            run = Run(gateway.engine, Inbound("POST", "/v1/chat/completions", _HEADERS), nothing)
            run.caller, run.call = snapshot.stranger, call
            started = time.perf_counter_ns()
            await timed(run)
            spent += time.perf_counter_ns() - started
        rounds.append(spent / len(decoded) / 1e3)
    return statistics.median(rounds[1:])


def cold(targets: int) -> float:
    """Milliseconds to judge one demand that was never seen, over that many targets."""
    gateway = Gateway.from_text(configuration(targets), open_access=True)
    route = gateway.snapshot.routes["chat"]
    rule = route.rules[0]
    started = time.perf_counter()
    for n in range(ROUNDS):
        Pool(route.pool.targets).verdict(rule.name, rule.block, f"value-{n}")
    return (time.perf_counter() - started) / ROUNDS * 1e3


def bounded() -> tuple[int, int]:
    """Verdicts remembered after many distinct demands, and the size of the heap they hold in bytes (about)."""
    gateway = Gateway.from_text(configuration(10), open_access=True)
    route = gateway.snapshot.routes["chat"]
    rule = route.rules[0]
    for n in range(MANY_DEMANDS):
        route.pool.verdict(rule.name, rule.block, f"value-{n}")
    return route.pool.cached, MANY_DEMANDS


def main() -> int:
    """Print the figures; exit 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    stages = {targets: anyio.run(measure, targets) for targets in SIZES}
    document = {
        "policy_stage_us": {str(targets): round(us, 1) for targets, us in stages.items()},
        "bound_us": {str(targets): bound for targets, bound in BOUND_US.items()},
        "cold_ms_per_1000_targets": round(cold(1_000), 3),
        "cached_after_distinct_demands": bounded(),
    }
    if arguments.json:
        print(json.dumps(document))
    else:
        for targets, us in stages.items():
            print(f"policy stage, {targets:>6} targets, 5 constraints: {us:7.1f} us (bound {BOUND_US[targets]:.0f})")
        print(f"cold demand, 1,000 targets: {document['cold_ms_per_1000_targets']} ms")
        print(f"verdicts kept after {MANY_DEMANDS:,} distinct demands: {bounded()[0]:,}")
    return int(any(us > BOUND_US[targets] for targets, us in stages.items()))


if __name__ == "__main__":
    sys.exit(main())
