"""`tox -e dist`: what a stranger gets from our wheels, in environments that have never seen this repository.

1. Build: sdist, wheel from the sdist, wheel from the tree (the two wheels must hold the same files), and a wheel of each
   distribution in contrib/* and tests/dist/*.
2. Plain: the wheel alone, without extras, imports; its command says which extra it needs. Then an editable install of
   the tree: both packages come from the two source roots.
3. Full: the wheel with every extra plus all other wheels; then tests/dist and each contrib/*/tests run there, copied to
   a folder where no source can be imported by accident.

Everything happens in a temporary folder; the tree is only read. Run: `python -m tools.dist_check [pytest arguments]`
with `build` installed. Exit 0 when all of it holds; otherwise 1 and one line that says what does not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.typecheck import ROOT, distributions

NEEDED = ("narrows/__init__.py", "narrows/py.typed", "narrows_plugins/__init__.py", "narrows_plugins/py.typed")
"""Files that every wheel of ours must hold."""

WHERE = """
import narrows, narrows_plugins, sys
from pathlib import Path
print(Path(narrows.__file__).parent, Path(narrows_plugins.__file__).parent, sep="\\n")
"""


class Broken(Exception):
    """A promise about the distributions does not hold. The message says which."""


def main(arguments: Sequence[str]) -> int:
    """Build, install, test, in that order; stop at the first broken promise."""
    try:
        with tempfile.TemporaryDirectory(prefix="narrows-dist-") as place:
            return check(Path(place).resolve(), arguments)
    except Broken as broken:
        print(f"dist: {broken}", flush=True)
        return 1


def check(place: Path, arguments: Sequence[str]) -> int:
    """The three steps above, inside `place`. Raises `Broken`; returns 0."""
    say("building narrows")
    wheel, sdist = build(place / "narrows")
    check_contents(wheel, sdist)
    others = [build_wheel(folder, place / "others") for folder in distributions()]

    say("installing the wheel alone")
    check_plain(environment(place / "plain"), wheel, place)

    say(f"installing narrows[all] and {len(others)} more: {', '.join(other.name for other in others) or 'none'}")
    full = environment(place / "full")
    install(full, f"narrows[all] @ {wheel.as_uri()}", *map(str, others), "--group", f"{ROOT / 'pyproject.toml'}:test")
    run_suites(full, place / "suites", arguments)
    return 0


# ---- build -------------------------------------------------------------------------------------------------------


def build(out: Path) -> tuple[Path, Path]:
    """The sdist and the wheel made from it; the wheel made from the tree must hold the same files."""
    run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)])
    wheel, sdist = only(out, "*.whl"), only(out, "*.tar.gz")
    direct = build_wheel(ROOT, out / "direct")
    lost = {*names(wheel)} ^ {*names(direct)}
    if lost:
        raise Broken(f"the wheel from the sdist and the wheel from the tree differ in {sorted(lost)}")
    return wheel, sdist


def build_wheel(folder: Path, out: Path) -> Path:
    """A wheel of that distribution, in a folder of its own."""
    own = out / folder.name
    run([sys.executable, "-m", "build", "--wheel", "--outdir", str(own), str(folder)])
    return only(own, "*.whl")


def check_contents(wheel: Path, sdist: Path) -> None:
    """Both packages, both type markers, the licence; and nothing else at the top level of site-packages."""
    held = names(wheel)
    missing = [name for name in NEEDED if name not in held]
    if missing:
        raise Broken(f"{wheel.name} lacks {missing}")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in held):
        raise Broken(f"{wheel.name} has no LICENSE")
    strangers = {name.split("/")[0] for name in held if ".dist-info/" not in name} - {"narrows", "narrows_plugins"}
    if strangers:
        raise Broken(f"{wheel.name} puts {sorted(strangers)} into site-packages")
    with tarfile.open(sdist) as archive:
        inner = {name.partition("/")[2] for name in archive.getnames()}
    absent = {"LICENSE", "README.md", "pyproject.toml", "tox.ini", "core/narrows/py.typed"} - inner
    if absent:
        raise Broken(f"{sdist.name} lacks {sorted(absent)}")


def names(wheel: Path) -> list[str]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


# ---- install -----------------------------------------------------------------------------------------------------


def check_plain(python: Path, wheel: Path, place: Path) -> None:
    """Without extras: imports, and the command names the extra it lacks. Then the editable install."""
    install(python, str(wheel))
    found = output([str(python), "-c", WHERE], place).stdout.split("\n")
    if not all("site-packages" in line for line in found if line):
        raise Broken(f"the wheel was installed, but these were imported: {found}")
    command = output([str(python.with_name("narrows")), "--help"], place)
    helpful = "narrows[cli]" in command.stderr and "Traceback" not in command.stderr
    if command.returncode == 0 or command.stdout or not helpful:
        raise Broken(
            f"`narrows` without the extra must fail on stderr with 'narrows[cli]'; it exited {command.returncode} with"
            f" {command.stdout!r} and {command.stderr!r}"
        )
    install(python, "--no-deps", "--editable", str(ROOT))
    found = output([str(python), "-c", WHERE], place).stdout.split("\n")
    if found[:2] != [str(ROOT / "core/narrows"), str(ROOT / "plugins/narrows_plugins")]:
        raise Broken(f"after an editable install these were imported: {found}")


def environment(folder: Path) -> Path:
    """A new, empty virtual environment; its python."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, *what: str) -> None:
    """Install with this environment's pip, which is newer than the one that comes with Python."""
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *what])


# ---- test --------------------------------------------------------------------------------------------------------


def run_suites(python: Path, place: Path, arguments: Sequence[str]) -> None:
    """tests/dist and every contrib/*/tests, each in a pytest run of its own, as their authors run them."""
    suites = [folder for folder in (ROOT / "tests/dist", *sorted(ROOT.glob("contrib/*/tests"))) if folder.is_dir()]
    if not suites:
        raise Broken("neither tests/dist nor contrib/*/tests exists: nothing was asked of the installed wheels")
    failed = []
    for suite in suites:
        name = suite.relative_to(ROOT).as_posix()
        say(f"pytest {name}, against what is installed")
        home = place / name.replace("/", "-")
        shutil.copytree(suite, home / "tests", ignore=shutil.ignore_patterns("__pycache__", "src", "pyproject.toml"))
        shutil.copy(ROOT / "pyproject.toml", home)  # the same strict settings: warnings are errors there too
        command = [str(python), "-m", "pytest", *arguments, "tests"]
        if subprocess.run(command, cwd=home, check=False).returncode != 0:
            failed.append(name)
    if failed:
        raise Broken(f"failed against the installed wheels: {', '.join(failed)}")


# ---- running -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """One line of progress."""
    print(f"dist: {text}", flush=True)


def only(folder: Path, pattern: str) -> Path:
    """The one file of that pattern."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Broken(f"expected one {pattern} in {folder.name}, found {[file.name for file in found]}")
    return found[0]


def output(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run outside the repository and keep what it printed."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(command: Sequence[str]) -> None:
    """Run quietly; show everything when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", flush=True)
        raise Broken(f"exit {done.returncode} from: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
