"""Which kinds are found, and what refuses the start. Beside each "no" stands what is accepted.

Discovery is asked in a process of its own, over distributions that are folders on its path: as a stranger's package would
be found. What a block's methods do wrong is in test_registry_hooks.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from narrows import Block, ConfigError, Constraint, Denial, Exclusion, Request, Target, hookimpl
from narrows.config import loads
from narrows.registry import Kind, Registry

CONFIG = """
[providers.local]
kind = "echo"

[targets.one]
provider = "local"
model = "one-1"

[routes.chat]
targets = ["one"]
"""
NAMED = CONFIG + '\n[plugins.mine]\nkind = "mine"\n'

# ---- discovery: distributions on the path of a process --------------------------------------------------------------

LOAD = """
import dataclasses, json, os, sys
from narrows import ConfigError
from narrows.config import loads
from narrows.registry import Implementations, Registry
try:
    blocks = Implementations(loads(sys.argv[1], Registry(), os.environ).blocks).blocks
    found = {"problems": [], "blocks": [entry.path for entry in blocks], "modules": [*sys.modules]}
except ConfigError as error:
    found = {"problems": [dataclasses.asdict(problem) for problem in error.problems]}
print(json.dumps(found))
"""
GOOD = """
from narrows import Block, hookimpl

class Mine(Block):
    @hookimpl
    def authorize(self, request): return None
"""
Install = Callable[..., None]
Load = Callable[[str], dict[str, Any]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """`install("acme-rules", {"plugins.mine": "acme:Mine"}, acme=SOURCE)`: a distribution with its modules."""

    def make(distribution: str, points: Mapping[str, str], **modules: str) -> None:
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n", "utf-8")
        lines = "".join(f"{name} = {where}\n" for name, where in points.items())
        (info / "entry_points.txt").write_text(f"[narrows]\n{lines}", "utf-8")
        for module, source in modules.items():
            (tmp_path / f"{module}.py").write_text(source, "utf-8")

    return make


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load that configuration in a new process that sees the installed distributions."""

    def run(text: str) -> dict[str, Any]:
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-O", "-c", LOAD, text],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def refusal(found: dict[str, Any], code: str) -> str:
    """The message of the one problem there is."""
    (problem,) = found["problems"]
    assert problem["code"] == code
    assert problem["remedy"]
    message: str = problem["message"]
    return message


def test_two_distributions_that_claim_one_kind_refuse_the_start(install: Install, load: Load) -> None:
    install("acme-rules", {"plugins.mine": "acme:Mine"}, acme=GOOD)
    assert "plugins.mine" in load(NAMED)["blocks"]
    install("other-rules", {"plugins.mine": "other:Mine"}, other=GOOD)
    message = refusal(load(CONFIG), "duplicate_kind")  # whether or not a block names it
    assert all(word in message for word in ("'plugins.mine'", "'acme-rules'", "'other-rules'"))


def test_nobody_takes_the_place_of_a_built_in_kind(install: Install, load: Load) -> None:
    install("acme-rules", {"constraints.capability": "acme:Mine"}, acme=GOOD)
    message = refusal(load(CONFIG), "duplicate_kind")
    assert all(word in message for word in ("'constraints.capability'", "'acme-rules'", "'narrows'"))


def test_an_entry_point_that_names_no_kind_refuses_the_start(install: Install, load: Load) -> None:
    names = ["mine", "rules.mine", "constraint.mine", "plugins.", ".mine"]
    install("acme-rules", dict.fromkeys(names, "acme:Mine"), acme=GOOD)
    problems = load(CONFIG)["problems"]
    assert [problem["code"] for problem in problems] == ["bad_plugin"] * len(names)
    for name in names:
        (message,) = [problem["message"] for problem in problems if repr(name) in problem["message"]]
        assert "'acme-rules'" in message
    assert "constraints, providers" in problems[0]["remedy"]


BROKEN = {
    "raises": ("raise RuntimeError('no such thing')", "RuntimeError"),
    "lacks": ("", "AttributeError"),
    "unreadable": ("def", "SyntaxError"),
    "imports": ("import acme_never_installed", "ModuleNotFoundError"),
}
"""Modules that cannot be imported, and what comes of it."""


def test_a_kind_that_cannot_be_imported(install: Install, load: Load) -> None:
    points = {f"plugins.{name}": f"acme_{name}:Mine" for name in BROKEN}
    install("acme-rules", points, **{f"acme_{name}": source for name, (source, _) in BROKEN.items()})
    assert load(CONFIG)["problems"] == []
    named = "".join(f'\n[plugins.{name}]\nkind = "{name}"\n' for name in BROKEN)
    problems = {problem["path"]: problem for problem in load(CONFIG + named)["problems"]}
    assert {*problems} == {*points}
    for name, (_, error) in BROKEN.items():
        message = problems[f"plugins.{name}"]["message"]
        assert all(word in message for word in (f"'plugins.{name}'", "'acme-rules'", error))


def test_a_kind_that_nobody_names_is_never_imported(install: Install, load: Load) -> None:
    install("acme-rules", {"plugins.mine": "acme:Mine"}, acme="raise RuntimeError")
    install("good-rules", {"plugins.good": "good:Mine"}, good=GOOD)
    found = load(CONFIG + '\n[plugins.one]\nkind = "good"\n')
    assert found["problems"] == []
    assert "good" in found["modules"]
    assert "acme" not in found["modules"]


def test_a_kind_that_is_missing_is_never_skipped() -> None:
    with pytest.raises(ConfigError) as refused:
        loads(NAMED, Registry(), {})
    (problem,) = refused.value.problems
    assert (problem.code, problem.path, problem.line) == ("unknown_kind", "plugins.mine.kind", 13)
    loaded = loads(NAMED, Registry({"plugins.mine": Good}), {})
    assert "plugins.mine" in [entry.path for entry in loaded.blocks]


def test_a_kind_has_the_name_and_version_of_its_distribution(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-rules", {"constraints.mine": "acme:Mine"})
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = Registry().get("constraints", "mine")
    assert kind is not None
    assert (kind.distribution, kind.version, kind.group, kind.short) == ("acme-rules", "1.2.3", "constraints", "mine")
    own = Registry().get("constraints", "capability")
    assert own is not None
    assert (kind.prefix, own.prefix) == ("mine", "")  # our own codes stand alone


# ---- the class: of its group, and no newer than this version --------------------------------------------------------


class Good(Block):
    """A free plugin with a hook."""

    word: str = ""

    @hookimpl
    def authorize(self, request: Request) -> Denial | None:
        return Denial("forbidden", self.word)


class GoodRule(Constraint[str]):
    """A constraint."""

    def demands(self, request: Request) -> Iterable[str]:
        return ()

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        return None


class Newer(Good):
    api: ClassVar[int] = 2


class Same(Good):
    api: ClassVar[int] = 1


def kind_of(thing: Any, name: str = "plugins.mine") -> Kind:
    return Kind(name, "acme-rules", "1.2.3", thing)


def test_a_class_that_speaks_a_newer_interface() -> None:
    with pytest.raises(ConfigError) as refused:
        kind_of(Newer).load()
    (problem,) = refused.value.problems
    assert all(word in problem.message for word in ("'plugins.mine'", "'acme-rules'", "interface 2", "this is 1"))
    assert kind_of(Same).load() is Same


WRONG = {
    "a free plugin as a constraint": ("constraints.mine", Good, "Constraint"),
    "a constraint as a provider": ("providers.mine", GoodRule, "Provider"),
    "a constraint as a ranker": ("rankers.mine", GoodRule, "Ranker"),
    "a constraint as a sink": ("sinks.mine", GoodRule, "Sink"),
    "a constraint as an authenticator": ("authenticators.mine", GoodRule, "Authenticator"),
    "a constraint as a free plugin": ("plugins.mine", GoodRule, "Constraint"),
    "any class": ("plugins.mine", dict, "Block"),
    "a function": ("plugins.mine", lambda request: None, "Block"),
    "an instance": ("plugins.mine", Good(), "Block"),
}


@pytest.mark.parametrize(("name", "thing", "base"), WRONG.values(), ids=WRONG)
def test_what_is_no_block_of_its_group(name: str, thing: object, base: str) -> None:
    with pytest.raises(ConfigError) as refused:
        kind_of(thing, name).load()
    (problem,) = refused.value.problems
    assert all(word in problem.message for word in (repr(name), "'acme-rules'", base))


def test_what_is_a_block_of_its_group() -> None:
    assert kind_of(Good).load() is Good
    assert kind_of(GoodRule, "constraints.mine").load() is GoodRule


def test_a_constraint_that_lacks_half_of_itself_is_a_load_error() -> None:
    class Half(GoodRule):
        excludes = Constraint.excludes

    text = CONFIG + '\n[constraints.half]\nkind = "half"\n'
    with pytest.raises(ConfigError) as refused:
        loads(text, Registry({"constraints.half": Half}), {})
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("bad_plugin", "constraints.half")
    assert "excludes" in problem.message
    assert loads(text, Registry({"constraints.half": GoodRule}), {}).blocks


def test_a_host_cannot_replace_an_installed_kind() -> None:
    with pytest.raises(ConfigError) as refused:
        Registry({"plugins.error_classes": Good})
    (problem,) = refused.value.problems
    assert problem.code == "duplicate_kind"
    assert all(word in problem.message for word in ("'narrows'", "'(host)'"))
    assert Registry({"plugins.mine": Good}).get("plugins", "mine") is not None
