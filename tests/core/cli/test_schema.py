"""`narrows schema`: one document on stdout, and what a user's editor makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from narrows import registry as registry_module
from narrows.registry import Kind, Registry
from tests.core.cli.commands import ECHO, narrows

TAPLO = shutil.which("taplo", path=str(Path(sys.executable).parent))


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["plain", "json"])
def test_it_prints_the_schema_with_every_installed_kind(options: list[str]) -> None:
    ran = narrows("schema", *options)
    assert (ran.code, ran.stderr) == (0, "")
    schema = ran.json()
    Draft202012Validator.check_schema(schema)
    named = {kind.name for kind in Registry().of("providers")} | {kind.name for kind in Registry().of("rankers")}
    assert named <= set(schema["$defs"])


def test_a_kind_that_cannot_be_imported_is_named_on_stderr_and_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib.metadata import EntryPoint

    before = tuple(registry_module._installed())
    broken = Kind("constraints.hours", "acme", "1", EntryPoint("constraints.hours", "no_such_module:Rule", "narrows"))
    monkeypatch.setattr(registry_module, "_installed", lambda: (*before, broken))
    ran = narrows("schema")
    assert ran.code == 0
    assert "kind 'constraints.hours' of distribution 'acme' cannot be imported" in ran.stderr
    assert ran.json()["$defs"]["constraints.hours"]["properties"]["kind"]["const"] == "hours"


@pytest.mark.skipif(TAPLO is None, reason="taplo is installed for tests on Linux only")
@pytest.mark.parametrize(
    ("change", "finds"),
    [
        ({}, None),
        ({"region = ": "regoin = "}, "'regoin' was unexpected"),
        ({'missing = "unrestricted"': 'missing = "unrestrictd"'}, '"unrestrictd" is not one of'),
        ({'kind = "echo"': 'kind = "ecko"'}, '"ecko"'),
    ],
    ids=["right", "a key", "a word", "a kind"],
)
def test_taplo_reads_the_line_and_finds_what_is_misspelt(
    tmp_path: Path, change: Mapping[str, str], finds: str | None
) -> None:
    (tmp_path / "narrows.schema.json").write_text(json.dumps(narrows("schema").json()))
    text = "#:schema ./narrows.schema.json\n" + ECHO
    for right, wrong in change.items():
        assert right in text
        text = text.replace(right, wrong, 1)
    (tmp_path / "narrows.toml").write_text(text)
    ran = subprocess.run(
        [str(TAPLO), "--colors", "never", "check", "narrows.toml"],
        cwd=tmp_path, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert ran.returncode == (0 if finds is None else 1), ran.stderr
    assert finds is None or finds in ran.stderr
