"""`narrows check`: all problems at once, warnings, the document, and what it must never start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from narrows.gateway import Gateway
from tests.core.cli.commands import ECHO, narrows
from tests.support.config import toml, write_config

PROBLEM = {"code", "severity", "path", "file", "line", "message", "suggestion", "remedy"}
MISSPELT = ECHO.replace('region = "eu"\n', 'regoin = "eu"\n').replace('kind = "echo"', 'kind = "ecko"')


def test_a_good_file_is_ok(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO)
    policy = Gateway.from_file(file).policy
    ran = narrows("check", file)
    assert ran == (0, f"ok: 2 routes, 2 targets\npolicy {policy}\n", "")
    document = narrows("check", file, "--json").json()
    assert document == {"ok": True, "policy": policy, "problems": [], "guarantees": [], "examples": []}


def test_all_problems_at_once_with_place_words_and_remedy(tmp_path: Path) -> None:
    file = write_config(tmp_path, MISSPELT)
    ran = narrows("check", file)
    assert (ran.code, ran.stderr) == (2, "")
    first, second, last = ran.stdout.splitlines()
    assert first.startswith(f"{file}:13: providers.echo.kind: ")
    assert "Did you mean 'echo'?" in first
    assert first.endswith("[unknown_kind]")
    assert second.startswith(f"{file}:24: targets.eu-main.regoin: ")
    assert "Did you mean 'region'?" in second
    assert last == "2 problems"


def test_the_document_has_every_problem(tmp_path: Path) -> None:
    file = write_config(tmp_path, MISSPELT)
    ran = narrows("check", file, "--json")
    document = ran.json()
    assert (ran.code, ran.stderr) == (2, "")
    assert (document["ok"], document["policy"]) == (False, None)
    kind, key = document["problems"]
    assert set(kind) == set(key) == PROBLEM
    assert (kind["path"], kind["line"], kind["suggestion"]) == ("providers.echo.kind", 13, "echo")
    assert (key["path"], key["line"], key["suggestion"]) == ("targets.eu-main.regoin", 24, "region")
    assert (key["file"], key["severity"], key["code"]) == (str(file), "problem", "unknown_key")
    assert key["remedy"]


def test_warnings_are_told_and_exit_0(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO.partition("[constraints")[2].join(("[constraints", "")))
    ran = narrows("check", file)
    warning, count, ok, _ = ran.stdout.splitlines()
    assert (ran.code, ran.stderr) == (0, "")
    assert warning.startswith(f"warning: {file}:")
    assert warning.endswith("[binds_only_who_says]")
    assert count == "1 warning"
    assert ok.startswith("ok: ")
    document = narrows("check", file, "--json").json()
    assert document["ok"] is True
    assert [problem["severity"] for problem in document["problems"]] == ["warning"]


def test_what_only_the_compiled_whole_shows_is_checked_too(tmp_path: Path) -> None:
    unlabelled = write_config(tmp_path, ECHO.replace('region = "us"\n', ""))
    ran = narrows("check", unlabelled)
    assert ran.code == 2
    assert "[unmet_constraint]" in ran.stdout


def test_several_files_are_one_configuration(tmp_path: Path) -> None:
    policy, routes = ECHO.split("[providers", 1)
    first = write_config(tmp_path, policy, "policy.toml")
    second = write_config(tmp_path, f"[providers{routes}", "routes.toml")
    assert narrows("check", first, second).code == 0
    assert narrows("check", second).code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        (b"", "the file says nothing"),
        (b"\xff\xfe", "byte order mark"),
        (b'name = "\xe4"', "the file is not UTF-8"),
        (b"[routes", "this is not TOML"),
    ],
    ids=["absent", "empty", "UTF-16", "Latin-1", "syntax"],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "narrows.toml"
    if content is not None:
        file.write_bytes(content)
    for command in (["check"], ["plugins"], ["explain", "--route", "chat"]):
        ran = narrows(*command, file)
        assert ran.code == 2
        assert says in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stdout + ran.stderr


def test_a_directory(tmp_path: Path) -> None:
    ran = narrows("check", tmp_path)
    assert ran.code == 2
    assert "this is a directory" in ran.stdout


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    text = (
        ECHO
        + '[providers.acme]\nkind = "openai_compatible"\nbase_url = "https://acme.test/v1"\napi_key_env = "ACME_KEY_X"\n'
    )
    file = write_config(tmp_path, text)
    ran = narrows("check", file)
    assert ran.code == 2
    assert "ACME_KEY_X" in ran.stdout
    assert narrows("check", file, env={"ACME_KEY_X": "set"}).code == 0


def test_what_is_not_built_yet_says_so(tmp_path: Path) -> None:
    ran = narrows("check", write_config(tmp_path, ECHO + '[state]\nurl = "memory:"\n'))
    assert ran.code == 2
    assert "[not_built_yet]" in ran.stdout


def test_diff_is_not_built_yet(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO)
    text = narrows("check", "--diff", file, file)
    assert (text.code, text.stdout) == (2, "")
    assert "`narrows check --diff` is not built yet" in text.stderr
    document = narrows("check", "--diff", file, file, "--json")
    assert document.code == 2
    assert [problem["code"] for problem in document.json()["problems"]] == ["not_built_yet"]


def test_no_color_and_pipes_get_no_escape_codes(tmp_path: Path) -> None:
    file = write_config(tmp_path, MISSPELT)
    assert "\x1b" not in narrows("check", file).stdout
    assert "\x1b" in narrows("check", file, env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout
    assert "\x1b" not in narrows("check", file, env={"FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1"}).stdout


def test_a_thousand_targets_take_less_than_two_seconds(tmp_path: Path) -> None:
    targets = {f"t{n}": {"provider": "echo", "model": f"m{n}", "region": "eu" if n % 2 else "us"} for n in range(1000)}
    text = ECHO + toml(
        {"targets": targets, "routes": {"many": {"targets": list(targets), "constraints": ["residency"]}}}
    )
    file = write_config(tmp_path, text)
    started = time.process_time()
    assert narrows("check", file).code == 0
    assert time.process_time() - started < 2
