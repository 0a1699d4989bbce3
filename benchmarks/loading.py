"""How long a configuration of 1,000 targets takes to load and check, and how long `import narrows` takes.

    python -m benchmarks.loading

Seconds of one core, the median of five. Bounds: 2 s for the check, 0.5 s for the import.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.policy import configuration
from narrows import Gateway

TARGETS = 1_000
ROUNDS = 5


def loading() -> float:
    """Seconds of CPU to load and compile."""
    text = configuration(TARGETS)
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        Gateway.from_text(text)
        rounds.append(time.process_time() - started)
    return statistics.median(rounds)


def importing() -> float:
    """Seconds from the start of a fresh interpreter to the end of `import narrows`, less an empty one."""
    return statistics.median(_fresh("import narrows") - _fresh("pass") for _ in range(ROUNDS))


def _fresh(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> int:
    """Print both."""
    load, imported = loading(), importing()
    print(f"load and check of {TARGETS:,} targets: {load:.2f} s (bound 2)")
    print(f"import narrows: {imported:.2f} s (bound 0.5)")
    return int(load > 2 or imported > 0.5)


if __name__ == "__main__":
    sys.exit(main())
