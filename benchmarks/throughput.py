"""Requests per second beside the floors, in one run on one machine: only the ratios travel.

    python -m benchmarks.throughput [--rounds 3] [--seconds 3] [--connections 64] [--body plain|large|stream]

Needs `cc` and two cores: the server runs on core 0, the load and the fake upstream on core 1. Contestants are shuffled in
each round; every figure is the median over rounds. `narrows` uses the HTTP client of the floor it stands beside.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
UPSTREAM_PORT = 19900
FIRST_PORT = 19910
CONTESTANTS = {
    "direct": ("", {}),
    "starlette+httpx": ("benchmarks.floors:starlette_httpx", {}),
    "narrows (httpx)": ("benchmarks.gateway_app:app", {"NARROWS_FAST": "0"}),
    "starlette+httpx-aiohttp": ("benchmarks.floors:starlette_httpx_aiohttp", {}),
    "narrows (fast)": ("benchmarks.gateway_app:app", {}),
}
FLOOR = {"narrows (httpx)": "starlette+httpx", "narrows (fast)": "starlette+httpx-aiohttp"}
TICKS = os.sysconf("SC_CLK_TCK")


def body(kind: str) -> tuple[str, bytes]:
    """The upstream's model name, and a body for it."""
    model = "bench-i1" if kind == "stream" else "bench"
    text = "Summarise the eligibility rules for EU-resident customer data. " * (512 if kind == "large" else 3)
    document: dict[str, object] = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 256}
    if kind == "stream":
        document["stream"] = True
    return model, json.dumps(document).encode()


def pinned(core: str, *command: str) -> list[str]:
    """The command on that core, where `taskset` exists."""
    return ["taskset", "-c", core, *command] if shutil.which("taskset") else list(command)


class Server:
    """One contestant under uvicorn on core 0."""

    def __init__(self, app: str, port: int, environment: dict[str, str], model: str, request: bytes) -> None:
        self.port = port
        command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--no-access-log", "--log-level", "error"]
        self.process = subprocess.Popen(
            pinned("0", *command),
            cwd=ROOT,
            env={**os.environ, "UPSTREAM": f"http://127.0.0.1:{UPSTREAM_PORT}", "BENCH_MODEL": model, **environment},
        )
        self._wait(request)

    def _wait(self, request: bytes) -> None:
        headers = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
        for _ in range(600):
            try:
                sent = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", request, headers)
                with urllib.request.urlopen(sent, timeout=5) as reply:
                    if reply.status == 200:
                        return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("a contestant did not come up")

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def measure(
    work: Path, name: str, port: int, arguments: argparse.Namespace, model: str, request: bytes
) -> dict[str, float]:
    """Requests per second, p50 and p99 in microseconds, and CPU per request of one contestant."""
    app, environment = CONTESTANTS[name]
    server = Server(app, port, environment, model, request) if app else None
    try:
        at = port if server else UPSTREAM_PORT
        load(work, at, arguments.connections, 1.0)
        before = server.cpu() if server else 0.0
        result = load(work, at, arguments.connections, arguments.seconds)
        spent = (server.cpu() - before) if server else 0.0
    finally:
        if server:
            server.stop()
    return {
        "rps": result["rps"],
        "p50_us": result["lat"]["p50"],
        "p99_us": result["lat"]["p99"],
        "bad": result["bad"],
        "cpu_us": spent / max(result["rps"] * arguments.seconds, 1) * 1e6,
    }


def load(work: Path, port: int, connections: int, seconds: float) -> dict[str, Any]:
    """One run of the load generator."""
    command = [
        str(work / "load"),
        str(port),
        "/v1/chat/completions",
        str(connections),
        str(seconds),
        str(work / "body"),
    ]
    printed = subprocess.run(pinned("1", *command), capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(printed)
    return found


@contextmanager
def bench(request: bytes) -> Iterator[Path]:
    """A folder with the load generator and this request in it, and the fake upstream running meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "body").write_bytes(request)
        for tool in ("upstream", "load"):
            subprocess.run(["cc", "-O2", "-w", "-o", str(work / tool), str(HERE / "load" / f"{tool}.c")], check=True)
        upstream = subprocess.Popen(pinned("1", str(work / "upstream"), str(UPSTREAM_PORT)))
        try:
            time.sleep(0.3)
            yield work
        finally:
            upstream.terminate()
            upstream.wait()


def main() -> int:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--body", choices=("plain", "large", "stream"), default="plain")
    arguments = parser.parse_args()
    model, request = body(arguments.body)
    rows: dict[str, list[dict[str, float]]] = {}
    with bench(request) as work:
        for number in range(arguments.rounds):
            order = list(CONTESTANTS)
            random.Random(number).shuffle(order)
            for name in order:
                port = FIRST_PORT + list(CONTESTANTS).index(name)
                rows.setdefault(name, []).append(measure(work, name, port, arguments, model, request))
                print(f"round {number + 1}: {name:26} {rows[name][-1]['rps']:9.0f} requests/s", file=sys.stderr)
    table(rows)
    return 0


def table(rows: dict[str, list[dict[str, float]]]) -> None:
    """Medians, and each ratio to its floor."""
    print(f"{'contestant':26} {'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'CPU us':>8} {'bad':>5}  ratio")
    for name in CONTESTANTS:
        middle = {key: statistics.median(row[key] for row in rows[name]) for key in rows[name][0]}
        floor = FLOOR.get(name)
        ratio = ""
        if floor is not None:
            base = statistics.median(row["rps"] for row in rows[floor])
            ratio = f"{middle['rps'] / base:.2f} x {floor}"
        print(
            f"{name:26} {middle['rps']:11.0f} {middle['p50_us'] / 1e3:8.2f} {middle['p99_us'] / 1e3:8.2f} "
            f"{middle['cpu_us']:8.0f} {middle['bad']:5.0f}  {ratio}"
        )


if __name__ == "__main__":
    sys.exit(main())
