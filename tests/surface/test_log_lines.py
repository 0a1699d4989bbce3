"""The line of a request, as whoever operates the gateway or its host gets it: its fields, and nothing that a caller
could put among them."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from narrows.cli.logs import Human, Structured
from narrows.request_log import quoted
from tests.support.config import basic_config
from tests.surface.support import PATIENCE, SOCKETS, Site, Way, opened

ORDER = ["decision", "request_id", "route", "outcome", "status", "code", "target", "attempts", "ms", "key", "provider",
         "class", "upstream", "excluded"]  # fmt: skip
RULE = """
[attributes.data-region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
"""
TEXT = basic_config(
    {"us one": "{url}", "eu": "{url}"}, labels={"us one": {"region": "us"}, "eu": {"region": "eu"}}, more=RULE
).replace("[routes.chat]\n", '[routes.chat]\nconstraints = ["residency"]\n')


class Records(logging.Handler):
    """What a host's own handler gets."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)


@pytest.fixture(scope="module", params=SOCKETS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    way: Way = request.param
    with opened(way, TEXT) as running:
        yield running


@pytest.fixture
def records(site: Site) -> Iterator[Records]:
    site.clear()
    handler, logger = Records(), logging.getLogger("narrows.requests")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def record_of(site: Site, records: Records, decision: str) -> Any:
    site.log.wait(decision)
    (found,) = [record for record in records.kept if decision in record.getMessage()]
    return found


def test_a_host_finds_the_fields_in_the_record(site: Site, records: Records) -> None:
    answer = site.ask(saying=(("x-region", "eu"), ("x-request-id", "job-7")))
    record = record_of(site, records, answer.headers["x-narrows-decision"])
    fields = record.narrows
    assert list(fields) == ORDER
    assert isinstance(fields.pop("ms"), int)
    assert fields == {
        "decision": answer.headers["x-narrows-decision"], "request_id": "job-7", "route": "chat", "outcome": "answered",
        "status": 200, "code": "ok", "target": "eu", "attempts": 1, "key": "anonymous", "provider": "eu", "class": "ok",
        "upstream": 200, "excluded": {"residency": 1},
    }  # fmt: skip
    assert answer.headers["x-request-id"] == "job-7"
    assert record.levelname == "INFO"


def test_both_forms_say_the_same(site: Site, records: Records) -> None:
    answer = site.ask("nobody")
    record = record_of(site, records, answer.headers["x-narrows-decision"])
    said = json.loads(Structured().format(record))
    _, level, *words = Human().format(record).split(" ")
    assert [said.pop(name) for name in ("level", "logger", "message")] == [level.lower(), "narrows.requests", "request"]
    said.pop("ts")
    assert list(said) == [word.partition("=")[0] for word in words] == ORDER
    assert (said["status"], said["key"], said["target"], said["excluded"]) == (404, "anonymous", None, {})
    assert "status=404" in words
    assert "target=-" in words


@pytest.mark.parametrize(
    "sent",
    [
        'x" status=200 outcome=answered key="admin',
        "a status=200",
        "a=b",
        "back\\slash",
        '{"status": 200}',
        "x" * 1000 + " outcome=answered",
        "tab\there",
        "d\xe9j\xe0 vu",
    ],
)
def test_what_a_caller_sends_is_one_field_whatever_it_holds(site: Site, records: Records, sent: str) -> None:
    answer = site.send(b"{}", (("content-type", "application/json"), ("x-request-id", sent)))
    record = record_of(site, records, answer.headers["x-narrows-decision"])
    kept = "".join(char for char in sent if " " <= char <= "~")[:128]
    assert record.narrows["request_id"] == kept
    assert answer.headers["x-request-id"] == kept.strip()
    line = Human().format(record)
    fields = [word.partition("=") for word in line.split(" ")[2:]]
    assert [name for name, _, _ in fields] == ORDER  # for a reader that knows of no quotes
    assert [word.partition("=")[0] for word in shlex.split(line)[2:]] == ORDER  # and for one that does
    assert "status=400" in line
    assert json.loads(Structured().format(record))["request_id"] == kept


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("eu-large", "eu-large"), ("", "-"), ("us one", r'"us\x20one"'), ('a"b', r'"a\x22b"'), ("a\\b", r'"a\x5cb"'),
        ("a\nb", r'"a\x0ab"'), ("é", "é"), ("a\u2028b", r'"a\u2028b"'), ("residency:2,cap:1", "residency:2,cap:1"),
    ],
)  # fmt: skip
def test_a_name_is_one_word(value: str, written: str) -> None:
    assert quoted(value) == written


LIBRARY = """
import logging, narrows
logging.getLogger("narrows.engine").error("nobody asked for this")
assert logging.getLogger("narrows").level == logging.NOTSET
assert not logging.getLogger().handlers
"""


def test_the_library_configures_nothing_and_says_nothing_by_itself() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=False, timeout=PATIENCE * 6
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
