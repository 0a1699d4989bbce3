"""What can stand in `[sinks.NAME]` of kind sql, and how each mistake is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from narrows import ConfigError, Gateway
from tests.core.test_recorders import CONFIG

SECRET = "hunter2-correct-horse"


def problems(sink: str) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(CONFIG + "[sinks.ledger]\nkind = 'sql'\n" + sink)
    return [(one.code, one.path, f"{one.message} {one.remedy}") for one in refused.value.problems]


@pytest.mark.parametrize(
    "url", ["sqlite:///narrows.db", "sqlite:////var/lib/narrows/ledger.db", "sqlite:///über/a b@c.db"]
)
def test_a_file_is_accepted_and_nothing_is_opened(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Gateway.from_text(CONFIG + f"[sinks.ledger]\nkind = 'sql'\nurl = '{url}'\nqueue = 1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("narrows.db", "sqlite:///narrows.db"),
        ("sqlite://narrows.db", "sqlite:///narrows.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "leave the block out"),
        ("sqlite:///a.db?mode=ro", "options"),
        ("mysql://db/ledger", "sqlite:///narrows.db"),
    ],
)
def test_what_names_no_file_is_refused(url: str, says: str) -> None:
    ((code, path, text),) = problems(f"url = '{url}'")
    assert (code, path) == ("wrong_type", "sinks.ledger.url")
    assert says in text


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgres"])
def test_postgresql_is_not_built_yet(scheme: str) -> None:
    ((code, path, text),) = problems(f"url = '{scheme}://db/ledger'")
    assert (code, path) == ("not_built_yet", "sinks.ledger.url")
    assert "sqlite:///narrows.db" in text


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "sqlite"])
def test_a_password_is_not_repeated(scheme: str) -> None:
    found = problems(f"url = '{scheme}://narrows:{SECRET}@db/ledger'")
    assert {path for _, path, _ in found} == {"sinks.ledger.url"}
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("sink", "code", "path"),
    [
        ("", "missing_key", "sinks.ledger.url"),
        ("url = 'sqlite:///a.db'\nqueue = 0", "wrong_type", "sinks.ledger.queue"),
        ("url = 'sqlite:///a.db'\nqueue = '10'", "wrong_type", "sinks.ledger.queue"),
        ("url = 'sqlite:///a.db'\nqueu = 10", "unknown_key", "sinks.ledger.queu"),
    ],
)
def test_other_mistakes_are_told_as_everywhere(sink: str, code: str, path: str) -> None:
    assert [(found, at) for found, at, _ in problems(sink)] == [(code, path)]


def test_without_sqlalchemy_the_extra_is_named(tmp_path: Path) -> None:
    """In a process where it cannot be found, as where it is not installed."""
    file = tmp_path / "narrows.toml"
    file.write_text(CONFIG + "[sinks.ledger]\nkind = 'sql'\nurl = 'sqlite:///a.db'\n", "utf-8")
    hide = "import sys; sys.modules['sqlalchemy'] = None; from narrows.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide, "check", str(file)],
        capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "pip install 'narrows[ledger]'" in done.stdout + done.stderr
    assert "sinks.ledger" in done.stdout + done.stderr
