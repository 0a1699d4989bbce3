"""`narrows decisions`: what a ledger holds, as a table, as a story and as JSON, while nothing runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from narrows import Gap, Gateway, Inbound
from narrows.cli.story import show_one
from narrows_plugins.record.sql import Sql
from tests.core.cli.commands import ECHO, narrows, process

KEYED = """
[providers.vendor]
kind = "openai_compatible"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "NOBODY_SETS_THIS"

[sinks.ledger]
kind = "sql"
url = "sqlite:///{url}"
"""
UNKNOWN = f"dec_{27 * '0'}"


@dataclass(frozen=True)
class Kept:
    """A configuration, its ledger, and the ids in it: answered, refused, of a route that is not there."""

    config: Path
    ledger: Path
    answered: str
    refused: str
    unrouted: str


async def asked(gateway: Gateway, model: str, *headers: tuple[str, str]) -> str:
    """The decision of one request."""

    async def read() -> AsyncIterator[bytes]:
        yield f'{{"model": "{model}", "messages": [{{"role": "user", "content": "hello"}}]}}'.encode()

    inbound = Inbound("POST", "/v1/chat/completions", (("content-type", "application/json"), *headers))
    async with gateway.answer(inbound, read) as reply:
        _ = [chunk async for chunk in reply.chunks]
    return reply.header("x-narrows-decision") or ""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("decisions")
    config, ledger = folder / "narrows.toml", folder / "kept.db"
    config.write_text(ECHO + KEYED.format(url=ledger), "utf-8")

    async def made() -> list[str]:
        async with Gateway.from_file(config, open_access=True) as gateway:
            answered = await asked(gateway, "chat", ("x-narrows-session", "SESSION-canary"), ("x-request-id", "req-7"))
            refused = await asked(gateway, "us-only", ("x-region", "eu"))
            return [answered, refused, await asked(gateway, "MODEL-canary")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOBODY_SETS_THIS", "sk-canary-7d2e")
        return Kept(config, ledger, *anyio.run(made))


@pytest.fixture
def here(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """In the folder of the configuration, where the provider's key is not set."""
    monkeypatch.chdir(kept.config.parent)
    monkeypatch.delenv("NOBODY_SETS_THIS", raising=False)
    return kept


def test_a_table_newest_first(here: Kept) -> None:
    ran = narrows("decisions")
    assert (ran.code, ran.stderr) == (0, "")
    head, *rows = ran.stdout.splitlines()
    assert head.split("  ")[0] == "time (UTC)"
    assert [row.split()[2] for row in rows] == [here.unrouted, here.refused, here.answered]
    assert [row.split()[3:5] for row in rows] == [["-", "refused"], ["us-only", "refused"], ["chat", "answered"]]
    assert "no_eligible_target" in rows[1]
    assert rows[1].split()[-1] == "residency:1"
    assert rows[2].split()[5:8] == ["ok", "us-large", "1"]


@pytest.mark.parametrize(
    "words",
    [[], ["narrows.toml"], ["--config", "narrows.toml"], ["--ledger", "kept.db"]],
    ids="-".join,
)
def test_one_document(here: Kept, words: list[str]) -> None:
    ran = narrows("decisions", *words, "--json")
    found = ran.json()
    assert (ran.code, ran.stderr, found.keys()) == (0, "", {"data", "gaps", "next"})
    assert [row["id"] for row in found["data"]] == [here.unrouted, here.refused, here.answered]
    assert found["next"] is None
    one = narrows("decisions", *words, here.refused, "--json").json()
    assert one == found["data"][1]
    assert "canary" not in ran.stdout


def test_no_more_than_asked_for(here: Kept) -> None:
    ran = narrows("decisions", "--limit", 2, "--json")
    assert [row["id"] for row in ran.json()["data"]] == [here.unrouted, here.refused]
    assert ran.json()["next"] == here.refused
    assert "--limit shows more" in narrows("decisions", "--limit", 2).stderr


SECONDS = {"1s": 1, "5m": 300, "1h": 3600, "2d": 172_800, "1w": 604_800}


@pytest.mark.parametrize("since", SECONDS)
def test_only_later_ones(here: Kept, since: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = max(row["ts"] for row in narrows("decisions", "--json").json()["data"])
    for late, count in ((-0.5, 1), (0.5, 0)):
        monkeypatch.setattr(time, "time", lambda late=late: last + SECONDS[since] + late)
        found = narrows("decisions", "--since", since, "--json").json()["data"]
        assert (len(found) >= 1) == bool(count)


def test_a_time_is_utc_unless_it_says_so(here: Kept) -> None:
    now = time.time()
    for since, count in ((now - 3600, 3), (now + 3600, 0)):
        when = datetime.fromtimestamp(since, UTC)
        for text in (
            when.isoformat()[:19],
            when.isoformat(),
            when.strftime("%Y-%m-%dT%H:%M"),
            when.isoformat(" ")[:19],
        ):
            assert len(narrows("decisions", "--since", text, "--json").json()["data"]) == count
    ran = narrows("decisions", "--since", "2099-01-01")
    assert (ran.code, ran.stdout) == (0, "no decisions since then\n")
    ran = narrows("decisions", "--since", "yesterday")
    assert ran.code == 2
    assert "Write 30m, 1h, 2d" in ran.stderr


def test_the_whole_story(here: Kept) -> None:
    told = narrows("decisions", here.refused).stdout
    for words in (
        here.refused, "caller:   anonymous", "route:    us-only", "outcome:  refused, 403, no_eligible_target",
        "says:     data-region = eu (said by header)", "demands:  residency: eu (said)", "policy:   ",
        "region is not eu [residency, attribute_mismatch]", "cost:     nothing, no upstream was called",
    ):  # fmt: skip
        assert words in told
    told = narrows("decisions", "narrows.toml", here.answered).stdout
    for words in (
        "request id req-7",
        "order:    us-large, eu-main, by ordered",
        "cost:     0.0",
        "reported",
        "session ",
    ):
        assert words in told
    assert "canary" not in told


def test_an_unknown_id_is_a_finding(here: Kept) -> None:
    ran = narrows("decisions", UNKNOWN)
    assert (ran.code, ran.stdout) == (1, "")
    assert f"no decision {UNKNOWN}" in ran.stderr
    assert narrows("decisions", here.answered, here.refused).code == 2


def test_what_is_missing_stands_in_its_place(here: Kept, tmp_path: Path) -> None:
    ledger = tmp_path / "gaps.db"
    with sqlite3.connect(here.ledger) as source, sqlite3.connect(ledger) as copy:
        source.backup(copy)
    source.close()
    copy.close()
    data = narrows("decisions", "--json").json()["data"]
    block = Sql(url=f"sqlite:///{ledger}")
    block.open()
    block.gap(Gap(data[2]["ts"], (data[2]["ts"] + data[1]["ts"]) / 2, 7, "queue_full"))
    block.gap(Gap(1.0, 2.0, None, "not_stopped"))
    block.flush()
    block.close()
    ran = narrows("decisions", "--ledger", ledger)
    rows = ran.stdout.splitlines()[1:]
    assert [("gap" in row, "7 missing" in row) for row in rows] == [(False, False)] * 2 + [
        (True, True),
        (False, False),
        (True, False),
    ]
    assert "1970-01-01 00:00:02" in rows[-1]
    gaps = narrows("decisions", "--ledger", ledger, "--limit", 2, "--json").json()["gaps"]
    assert gaps == []  # both ended before what is shown began
    assert [gap["count"] for gap in narrows("decisions", "--ledger", ledger, "--json").json()["gaps"]] == [None, 7]


def test_an_empty_ledger_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = narrows("decisions")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--ledger FILE" in ran.stderr
    assert narrows("decisions", "--ledger", "none.db").code == 2
    (tmp_path / "narrows.toml").write_text(ECHO, "utf-8")
    ran = narrows("decisions")
    assert ran.code == 2
    assert "[sinks.ledger]" in ran.stderr
    (tmp_path / "narrows.toml").write_text(ECHO + '[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///a.db"\n', "utf-8")
    ran = narrows("decisions")
    assert ran.code == 2
    assert "a gateway makes it when it starts" in ran.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["narrows.toml"]  # reading makes nothing
    block = Sql(url="sqlite:///a.db")
    block.open()
    block.close()
    ran = narrows("decisions")
    assert (ran.code, ran.stdout) == (0, "no decisions are recorded yet\n")
    (tmp_path / "text.db").write_text("no ledger", "utf-8")
    ran = narrows("decisions", "--ledger", "text.db")
    assert ran.code == 2
    assert "cannot be read: The file is no ledger, or is damaged (SQLITE_NOTADB). Name the SQLite file" in ran.stderr


@pytest.mark.parametrize("name", ["a?b.db", "a#b.db"])
def test_a_file_whose_name_no_url_can_hold(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    ran = narrows("decisions", "--ledger", tmp_path / name)
    assert (ran.code, ran.stdout) == (2, "")
    assert "has a name that no ledger can have. Name it without ? and #" in ran.stderr


def test_it_writes_nothing(here: Kept) -> None:
    """As a process, as users run it."""
    folder = here.ledger.parent
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    ran = process("decisions", "--ledger", here.ledger, "--json")
    assert (ran.code, len(ran.json()["data"])) == (0, 3), ran.stderr
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_what_a_host_calls_its_user_moves_no_terminal(here: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    found = narrows("decisions", "--json").json()["data"][0]
    show_one({**found, "principal": "\x1b[31mred\nroute: eu"})
    printed = capsys.readouterr().out
    assert "\\x1b[31mred\\nroute: eu" in printed
    assert "\x1b" not in printed
