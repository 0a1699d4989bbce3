"""`tox -e mutants`: every invariant's one-line patch must make its test fail.

docs/invariants.md lists what must never stop being true, the test that guards it, and one line whose change breaks it.
Here each patch is applied to a copy of the repository and only that invariant's tests run, against the copy's sources.
A test that still passes guards nothing. Two patches run at a time, each in a copy of its own.

A patch must give a *wrong* program, not a broken one: the file has to compile and import, and the test has to fail in
its own body. A fixture that errors, a module that cannot be collected or a hang proves nothing, and fails the run.

Run: `python -m tools.mutants [ID…]`, with the project's test dependencies installed. Exit 0 when every patch was
noticed, 1 when one was not or cannot be judged, 2 when docs/invariants.md cannot be read.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tools.invariants import DOCUMENT, Invariant, Unreadable, apply, parse

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
TIMEOUT = 180.0  # seconds for the tests of one patch; pytest's own timeout is shorter and names the test

BROKEN = re.compile(r" - (SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError)\b")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`noticed`: the tests failed, as they must. `why`: what happened instead."""

    invariant: Invariant
    noticed: bool
    why: str
    seconds: float = 0.0


# ---- the copies --------------------------------------------------------------------------------------------------


def copy(target: Path, root: Path = ROOT) -> Path:
    """A copy of the repository without environments, caches and history, its sources compiled against their hashes.

    Hash-checked, because a patch may keep a file's size and land in the same second: the usual check would miss it.
    """

    def left_out(folder: str, names: list[str]) -> set[str]:
        top = {"build", "dist", "venv"} if Path(folder) == root else set()
        return {n for n in names if n in top or n == "__pycache__" or n.endswith(".egg-info") or _hidden(n)}

    shutil.copytree(root, target, ignore=left_out, symlinks=True)
    compiling = [sys.executable, "-m", "compileall", "-q", "-o0", "-o1", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compiling, "core", "plugins"], cwd=target, check=False)  # a syntax error is the tests' to report
    return target


def _hidden(name: str) -> bool:
    return name.startswith(".") and name not in {".ci", ".gitignore"}


def environment(folder: Path) -> dict[str, str]:
    """The copy's sources come before an installed narrows, also for the servers that tests start."""
    paths = os.pathsep.join([str(folder / "core"), str(folder / "plugins")])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def run(command: Sequence[str], folder: Path) -> tuple[int | None, str]:
    """Exit code and output; None when it took too long (it is ended then, with all that it started)."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def pytest(folder: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """Only these tests, one summary line for each outcome."""
    options = ["-q", "-p", "no:cacheprovider", "--color=no", "--tb=short", "-rfEp", "--show-capture=no"]
    first = ["-x"] if len(tests) == 1 else []
    return run([sys.executable, "-m", "pytest", *options, *first, *tests], folder)


def outcomes(output: str, word: str, test: str) -> list[str]:
    """The summary lines of `test` (its parameters, or the tests of its class) that begin with `word`."""
    start = f"{word} {test}"
    found = (line for line in output.splitlines() if line.startswith(start))
    return [line for line in found if line[len(start) : len(start) + 1] in {"", " ", "[", ":"}]


# ---- the verdicts ------------------------------------------------------------------------------------------------


def unpatched(invariants: Sequence[Invariant], folder: Path) -> list[str]:
    """What is wrong before anything is patched: a named test that fails, is skipped or does not exist."""
    tests = tuple(dict.fromkeys(test for invariant in invariants for test in invariant.tests))
    code, output = pytest(folder, tests)
    missing = [test for test in tests if not outcomes(output, "PASSED", test)]
    if code == 0 and not missing:
        return []
    return [*(f"{test} did not pass without any patch" for test in missing), output.strip()]


def judge(invariant: Invariant, folder: Path) -> Verdict:
    """Patch the copy, run the invariant's tests, put the copy back."""
    begun = time.monotonic()
    file = folder / invariant.patch.file
    if not file.is_file():
        return Verdict(invariant, False, f"there is no file {invariant.patch.file}")
    source = file.read_text("utf-8")
    try:
        file.write_text(apply(invariant.patch, source), "utf-8")
        why = _compiles(file, folder) or _fails(invariant, folder)
    except ValueError as error:
        why = str(error)
    finally:
        file.write_text(source, "utf-8")
    return Verdict(invariant, not why, why, time.monotonic() - begun)


def _compiles(file: Path, folder: Path) -> str:
    """A patched module must still import, or its tests would fail for any patch at all."""
    if file.suffix != ".py":
        return ""
    try:
        compile(file.read_text("utf-8"), str(file), "exec")
    except SyntaxError as error:
        return f"the patched file does not compile: {error.msg}, line {error.lineno}"
    inner = file.relative_to(folder)
    if inner.parts[0] not in {"core", "plugins"}:
        return ""
    module = ".".join(inner.with_suffix("").parts[1:]).removesuffix(".__init__")
    code, output = run([sys.executable, "-c", f"import {module}"], folder)
    return "" if code == 0 else f"the patched module cannot be imported: {_last(output)}"


def _fails(invariant: Invariant, folder: Path) -> str:
    code, output = pytest(folder, invariant.tests)
    if code is None:
        return f"no verdict after {TIMEOUT:.0f} s; a hang is not a failing test"
    if code == 0:
        return "its test still passes: nothing guards this line"
    if code != 1:
        return f"pytest could not run the test (exit {code}): {_last(output)}"
    for test in invariant.tests:
        failed = outcomes(output, "FAILED", test)
        if not failed:
            errors = outcomes(output, "ERROR", test)
            return f"{test} {'broke before its body: ' + errors[0] if errors else 'still passes'}"
        if all(BROKEN.search(line) for line in failed):
            return f"the patch breaks the program instead of the rule: {failed[0]}"
    return ""


def _last(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")


def judge_all(invariants: Sequence[Invariant], folders: Sequence[Path], report: Callable[[Verdict], None]) -> int:
    """Judge them, one at a time in each folder. Returns how many were not noticed."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def one(invariant: Invariant) -> Verdict:
        folder = free.get()
        try:
            return judge(invariant, folder)
        finally:
            free.put(folder)

    failed = 0
    with ThreadPoolExecutor(len(folders)) as pool:
        for done in as_completed([pool.submit(one, invariant) for invariant in invariants]):
            verdict = done.result()
            report(verdict)
            failed += not verdict.noticed
    return failed


def main(arguments: Sequence[str]) -> int:
    """Judge every entry, or only those whose ids are given."""
    try:
        invariants = parse((ROOT / DOCUMENT).read_text("utf-8"))
    except (OSError, Unreadable) as error:
        print(error, file=sys.stderr)
        return 2
    unknown = [ident for ident in arguments if ident not in {invariant.id for invariant in invariants}]
    chosen = [invariant for invariant in invariants if not arguments or invariant.id in arguments]
    if unknown or not chosen:
        print(f"{DOCUMENT} has no entry {', '.join(unknown) or 'at all'}", file=sys.stderr)
        return 2

    with tempfile.TemporaryDirectory(prefix="narrows-mutants-") as place:
        folders = [copy(Path(place) / str(number)) for number in range(min(WORKERS, len(chosen)))]
        print(f"{len(chosen)} invariants; their tests first, unpatched", flush=True)
        wrong = unpatched(chosen, folders[0])
        if wrong:
            print("\n".join(wrong))
            print(f"0 passed, {len(chosen)} failed")
            return 1

        def report(verdict: Verdict) -> None:
            word = "noticed" if verdict.noticed else "FAILED "
            print(f"{word} {verdict.seconds:5.1f} s  {verdict.invariant.id}  {verdict.invariant.title}", flush=True)
            if not verdict.noticed:
                print(f"  {verdict.invariant.patch.file}: {verdict.why}", flush=True)

        failed = judge_all(chosen, folders, report)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
