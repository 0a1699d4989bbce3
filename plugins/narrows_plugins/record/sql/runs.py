"""Who had the ledger open. A run that never said that it stopped, and whose process is gone, leaves a gap.

A process on another host cannot be seen: its open run is taken for dead, which may tell of one gap too many.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.engine import RowMapping

from narrows_plugins.record.sql.schema import gaps, runs

NOT_STOPPED: Final = "not_stopped"
_DEAD = ("Z", "X")
_STATE, _STARTED = 0, 19
"""Places in `_stat`."""


def begin(connection: Connection, earlier: str | None = None) -> str:
    """Write that a run begins, and a gap for each that was killed. `earlier`: a run of this very sink that did not
    manage to say that it stopped. Returns the run's id."""
    now = time.time()
    for run in connection.execute(select(runs).where(runs.c.stopped.is_(None))).mappings().all():
        if run["id"] == earlier or not is_alive(run):
            since = run["started"] if run["last_ts"] is None else run["last_ts"]
            gap = {"id": uuid4().hex, "since": since, "until": max(now, since), "count": None, "reason": NOT_STOPPED}
            connection.execute(insert(gaps).values(gap))
            end(connection, run["id"])
    ours = {
        "id": uuid4().hex,
        "host": platform.node(),
        "pid": os.getpid(),
        "process": token(os.getpid()),
        "started": now,
    }
    connection.execute(insert(runs).values(ours))
    return str(ours["id"])


def is_known(connection: Connection, run: str) -> bool:
    """Is that run in this file?"""
    return connection.execute(select(runs.c.id).where(runs.c.id == run)).first() is not None


def wrote(connection: Connection, run: str, ts: float) -> None:
    """Remember the newest decision that a run has written: if it is killed, its gap begins there."""
    connection.execute(update(runs).where(runs.c.id == run).values(last_ts=ts))


def end(connection: Connection, run: str) -> None:
    """Write that it stopped, with everything written."""
    connection.execute(update(runs).where(runs.c.id == run).values(stopped=time.time()))


def is_alive(run: RowMapping) -> bool:
    """Does its process still run on this host?"""
    if run["host"] != platform.node():
        return False
    pid = int(run["pid"])
    if pid != os.getpid() and not _exists(pid):
        return False
    now, then = token(pid), run["process"]
    return then is None or now is None or now == then


def token(pid: int) -> str | None:
    """What tells a process from a later one of the same number: the boot, and its start in ticks since then. None where
    there is no such process (any more), or no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot}/{_stat(pid)[_STARTED]}"
    except (OSError, IndexError):
        return None


def _exists(pid: int) -> bool:
    if os.name != "posix":  # there, asking with signal 0 ends the process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Killed, and its parent has not looked yet."""
    try:
        return _stat(pid)[_STATE] in _DEAD
    except (OSError, IndexError):
        return False


def _stat(pid: int) -> list[str]:
    """What Linux says of a process, from its state on: the name before it, in parentheses, may hold anything. Raises
    OSError and IndexError. Source: proc_pid_stat(5)."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
