"""A run that was killed leaves a gap at the next start, one that still runs leaves none."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from narrows_plugins.record.sql import runs
from tests.core.ledger.support import decision
from tests.plugins.record.sql.support import opened, rows, sink

KILLED = """
import os, signal, sys, time
from pathlib import Path
from tests.core.ledger.support import decision
from tests.plugins.record.sql.support import sink
ledger = sink(Path(sys.argv[1]))
ledger.open()
for n in map(int, sys.argv[2:]):
    ledger.record(decision(n))
ledger.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, *numbers: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), *map(str, numbers)], check=False)
    assert done.returncode == -9


def gaps(path: Path) -> list[tuple[float, float, int | None, str]]:
    return rows(path, "SELECT since, until, count, reason FROM gaps ORDER BY since")


def test_a_killed_run_leaves_one_gap_from_its_last_row_to_the_next_start(tmp_path: Path) -> None:
    path, started = tmp_path / "ledger.db", time.time()
    killed(path, 5, 9, 7)
    for _ in range(2):
        with opened(path):
            pass
    ((since, until, count, reason),) = gaps(path)
    assert (since, count, reason) == (9.0, None, "not_stopped")
    assert started <= until <= time.time()


def test_a_run_without_a_row_leaves_a_gap_from_its_start(tmp_path: Path) -> None:
    path, started = tmp_path / "ledger.db", time.time()
    killed(path)
    with opened(path):
        pass
    ((since, _, _, _),) = gaps(path)
    assert started <= since <= time.time()


def test_several_may_share_a_file_and_a_clean_stop_leaves_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with opened(path) as one, opened(path) as two:
        one.record(decision(1))
        one.flush()
        two.record(decision(2))
        two.flush()
    with opened(path):
        pass
    assert gaps(path) == []
    assert rows(path, "SELECT count(*), count(stopped) FROM runs") == [(3, 3)]


def test_what_could_not_be_written_at_the_stop_leaves_a_gap_also_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = sink(path)
    ledger.open()
    ledger.record(decision(3))
    ledger.flush()
    ledger.record(decision(4))
    ledger.close()  # not flushed: it was locked until the bound
    ledger.open()
    ledger.close()
    ((since, _, _, reason),) = gaps(path)
    assert (since, reason) == (3.0, "not_stopped")


@pytest.mark.parametrize(
    ("host", "pid", "process", "alive"),
    [
        (platform.node(), os.getpid(), runs.token(os.getpid()), True),
        (platform.node(), os.getppid(), None, True),
        (platform.node(), os.getpid(), "an earlier boot/123", False),  # the number was given again
        (platform.node(), 2**22 + 1, None, False),
        ("another host", os.getpid(), runs.token(os.getpid()), False),
    ],
)
def test_who_is_alive(host: str, pid: int, process: str | None, alive: bool) -> None:
    assert runs.is_alive({"host": host, "pid": pid, "process": process}) is alive  # type: ignore[arg-type]


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        run = {"host": platform.node(), "pid": process.pid, "process": runs.token(process.pid)}
        assert runs.is_alive(run)  # type: ignore[arg-type]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken it away
        assert not runs.is_alive(run)  # type: ignore[arg-type]
