"""docs/invariants.md: its entries apply to today's source, and `tools/mutants.py` judges them fairly."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import mutants
from tools.invariants import DOCUMENT, Invariant, Patch, Unreadable, apply, parse

ROOT = Path(__file__).resolve().parents[2]
INVARIANTS = parse((ROOT / DOCUMENT).read_text("utf-8"))

ENTRY = """\
### INV-ONE A title

What must hold,
in one sentence.

Test: `tests/test_it.py::test_one`,
`tests/test_it.py::test_two[trio]`

```patch
file: core/narrows/it.py
- if bad:
+ if False:
```
"""


# ---- today's document --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda invariant: str(invariant.id))
def test_the_patch_applies(invariant: Invariant) -> None:
    source = (ROOT / invariant.patch.file).read_text("utf-8")
    patched = apply(invariant.patch, source)
    assert patched != source
    if invariant.patch.file.endswith(".py"):
        compile(patched, invariant.patch.file, "exec")


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda invariant: str(invariant.id))
def test_its_tests_exist(invariant: Invariant) -> None:
    for test in invariant.tests:
        file, *inside = test.partition("[")[0].split("::")
        scope: list[ast.stmt] = ast.parse((ROOT / file).read_text("utf-8")).body
        for name in inside:
            named = [s for s in scope if isinstance(s, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
            found = [s for s in named if s.name == name]
            assert len(found) == 1, f"{invariant.id}: {test} does not exist"
            scope = found[0].body


# ---- reading -----------------------------------------------------------------------------------------------------


def test_an_entry_is_read() -> None:
    (invariant,) = parse(f"# Title\n\nProse.\n\n## Section\n\n{ENTRY}\n## Next\n\nTest: `not::this`\n")
    assert invariant == Invariant(
        id="INV-ONE",
        title="A title",
        sentence="What must hold, in one sentence.",
        tests=("tests/test_it.py::test_one", "tests/test_it.py::test_two[trio]"),
        patch=Patch("core/narrows/it.py", "if bad:", "if False:"),
        line=7,
    )


def test_an_example_in_a_longer_fence_is_not_an_entry() -> None:
    assert parse(f"````markdown\n{ENTRY}````\n") == ()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Test: ", "Guard: ", "has no `Test:` line"),
        ("`tests/test_it.py::test_one`,\n`tests/test_it.py::test_two[trio]`", "by hand", "needs pytest node ids"),
        ("What must hold,\nin one sentence.\n", "", "does not say what must hold"),
        ("```patch", "```diff", "needs one fenced `patch` block"),
        ("- if bad:\n", "- if bad:\n- else:\n", "needs one fenced `patch` block"),
        ("- if bad:\n", "- if bad:\nelse:\n", "needs one fenced `patch` block"),
        ("+ if False:", "+ if bad:", "changes nothing"),
        ("### INV-ONE", "## INV-ONE", "write the heading as"),
        ("### INV-ONE", "### INV ONE", "write the heading as"),
    ],
)
def test_an_entry_that_lacks_something_is_refused_with_its_line(old: str, new: str, why: str) -> None:
    assert old in ENTRY
    with pytest.raises(Unreadable, match=r"^docs/invariants\.md:1: .*" + why):
        parse(ENTRY.replace(old, new))


def test_an_id_is_used_once() -> None:
    with pytest.raises(Unreadable, match="INV-ONE is used twice"):
        parse(ENTRY + ENTRY)


# ---- patching ----------------------------------------------------------------------------------------------------


def test_a_patch_keeps_the_indentation_and_every_other_line() -> None:
    source = "def f(bad):\n    if bad:\n        raise ValueError\n"
    assert apply(Patch("f.py", "if bad:", "if False:"), source) == source.replace("if bad:", "if False:")


@pytest.mark.parametrize(("source", "why"), [("if good:\n", "no line"), ("if bad:\n  if bad:\n", "2 lines")])
def test_a_patch_that_does_not_apply_exactly_once_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        apply(Patch("f.py", "if bad:", "if False:"), source)


# ---- judging, in a small repository of its own -------------------------------------------------------------------

GUARD = """\
from __future__ import annotations


def guard(mask: int, offered: int) -> int:
    if mask & ~offered:
        raise ValueError("wider")
    unused = 1
    return mask
"""
TESTS = """\
from __future__ import annotations

import pytest

from narrows.guard import guard


@pytest.fixture
def narrow():
    return guard(1, 3)


@pytest.mark.parametrize("mask", [1, 4])
def test_wider_is_refused(mask):
    if mask == 1:
        assert guard(mask, 3) == 1
        return
    with pytest.raises(ValueError):
        guard(mask, 3)


def test_fixture(narrow):
    assert narrow == 1


def test_red():
    assert guard(4, 3) == 4
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy as `mutants.copy` makes it, of a project with one guard."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts in a third of the time
    root = tmp_path / "root"
    (root / "core/narrows").mkdir(parents=True)
    (root / "plugins").mkdir()
    (root / "tests").mkdir()
    (root / ".venv/lib").mkdir(parents=True)
    (root / "core/narrows/__init__.py").write_text("", "utf-8")
    (root / "core/narrows/guard.py").write_text(GUARD, "utf-8")
    (root / "tests/test_guard.py").write_text(TESTS, "utf-8")
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n", "utf-8")
    return mutants.copy(tmp_path / "copy", root)


def entry(old: str, new: str, test: str = "test_wider_is_refused", file: str = "core/narrows/guard.py") -> Invariant:
    return Invariant("INV-X", "", "It holds.", (f"tests/test_guard.py::{test}",), Patch(file, old, new), 1)


def test_a_copy_leaves_environments_behind(repository: Path) -> None:
    assert not (repository / ".venv").exists()
    assert (repository / "core/narrows/guard.py").is_file()


def test_a_patch_that_its_test_notices_passes_and_is_taken_back(repository: Path) -> None:
    invariant = entry("if mask & ~offered:", "if False:")
    verdict = mutants.judge(invariant, repository)
    assert (verdict.noticed, verdict.why) == (True, "")
    assert (repository / "core/narrows/guard.py").read_text("utf-8") == GUARD
    assert mutants.unpatched([invariant], repository) == []


@pytest.mark.parametrize(
    ("invariant", "why"),
    [
        (entry("unused = 1", "unused = 2"), "its test still passes"),
        (entry("if masked:", "if False:"), "no line of core/narrows/guard.py"),
        (entry("if mask & ~offered:", "if False:", file="core/narrows/gone.py"), "there is no file"),
        (entry("return mask", "return mask)"), "does not compile"),
        (entry("from __future__ import annotations", "import nowhere"), "cannot be imported"),
        (entry("if mask & ~offered:", "if masque:"), "breaks the program instead of the rule"),
        (entry("unused = 1", "raise KeyError", test="test_fixture"), "broke before its body"),
        (entry("if mask & ~offered:", "if False:", test="test_gone"), "could not run the test"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_patch_that_proves_nothing_fails(repository: Path, invariant: Invariant, why: str) -> None:
    verdict = mutants.judge(invariant, repository)
    assert not verdict.noticed
    assert why in verdict.why
    assert (repository / "core/narrows/guard.py").read_text("utf-8") == GUARD


@pytest.mark.parametrize("test", ["test_red", "test_gone"])
def test_a_test_that_fails_without_a_patch_stops_the_run(repository: Path, test: str) -> None:
    wrong = mutants.unpatched([entry("unused = 1", "unused = 2", test=test)], repository)
    assert wrong[0] == f"tests/test_guard.py::{test} did not pass without any patch"


def test_each_verdict_is_reported_and_the_failed_are_counted(repository: Path) -> None:
    said: list[mutants.Verdict] = []
    both = [entry("if mask & ~offered:", "if False:"), entry("unused = 1", "unused = 2")]
    assert mutants.judge_all(both, [repository], said.append) == 1
    assert sorted(verdict.noticed for verdict in said) == [False, True]
