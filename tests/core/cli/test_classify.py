"""`narrows classify`: JSON lines in, JSON lines out, as they come."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from narrows.cli.classify import answered
from narrows.types import Classified, Failure, FailureClass
from tests.core.cli.commands import Ran, narrows


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def answers(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


QUOTA = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}


@pytest.mark.parametrize("option", [(), ("--json",)], ids=["text", "json"])
def test_each_line_is_answered_in_order(option: tuple[str, ...]) -> None:
    ran = narrows(
        "classify",
        *option,
        stdin=lines(
            {
                "id": "a",
                "kind": "openai_compatible",
                "phase": "response",
                "status": 429,
                "headers": {"Retry-After": "7"},
            },
            {"id": 2, "kind": "openai_compatible", "phase": "response", "status": 429, "body": QUOTA},
            {"kind": "openai_compatible", "phase": "response", "status": None, "transport": "read_timeout"},
        ),
    )
    assert (ran.code, ran.stderr) == (0, "")
    first, second, third = answers(ran)
    assert first == {
        "id": "a",
        "class": "rate_limited",
        "moves": True,
        "endpoint_dead": False,
        "retry_after": 7.0,
        "evidence": "status",
    }
    assert (second["id"], second["class"], second["moves"]) == (2, "authentication", False)
    assert second["endpoint_dead"] is True
    assert (third["id"], third["class"], third["moves"]) == (None, "timeout", True)


@pytest.mark.parametrize(
    ("body", "raw"),
    [
        (QUOTA, json.dumps(QUOTA).encode()),
        ([QUOTA], json.dumps([QUOTA]).encode()),
        (json.dumps(QUOTA), json.dumps(QUOTA).encode()),
        ("<html>Bad gateway €</html>", "<html>Bad gateway €</html>".encode()),
        (None, b""),
        ("null", b"null"),
        (7, b"7"),
        ({"message": "é"}, json.dumps({"message": "é"}).encode()),
    ],
    ids=["object", "list", "JSON as a string", "text", "null", "the text null", "number", "not ASCII"],
)
def test_the_body_reaches_the_classifier_as_bytes(body: object, raw: bytes) -> None:
    assert judged({"kind": "echo", "phase": "response", "status": 502, "body": body}).body == raw


def test_a_large_body_is_cut_as_the_gateway_cuts_it() -> None:
    assert len(judged({"status": 500, "body": "x" * 100_000}).body) == 65_536


def test_headers_are_lower_case_texts() -> None:
    assert judged({"status": 429, "headers": {"Retry-After": 7}}).headers == {"retry-after": "7"}


def judged(row: object) -> Failure:
    """What the classifier is given of a line."""
    seen = []

    def classifier(kind: str, failure: Failure) -> Classified:
        seen.append(failure)
        return Classified(FailureClass.SERVER_ERROR)

    assert answered(lines(row).encode(), classifier)["class"] == "server_error"
    return seen[0]


def test_an_unknown_kind_is_read_as_openai_compatible() -> None:
    ran = narrows(
        "classify", stdin=lines({"kind": "mars", "status": 429, "body": QUOTA}, {"status": 429, "body": QUOTA})
    )
    first, second = answers(ran)
    assert ran.code == 0
    assert first == second
    assert first["class"] == "authentication"


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1,',
        "[1]",
        '"text"',
        "nonsense",
        '{"id": 1, "status": "429"}',
        '{"id": 1, "status": 429.5}',
        '{"id": 1, "phase": "sometimes", "status": 429}',
        '{"id": 1, "headers": ["a"]}',
        '{"id": 1, "body": NaN}',
        '{"id": 1, "kind": null}',
        '{"id": 1, "body": ' + "[" * 50_000 + "]" * 50_000 + "}",
        b'{"id": 1, "kind": "\xff"}',
    ],
)
def test_a_line_that_cannot_be_read_is_answered_and_ends_with_1(line: str | bytes) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    ran = narrows("classify", stdin=raw + b'\n\n{"id": "after", "status": 503}')
    bad, after = answers(ran)
    assert ran.code == 1
    assert ran.stderr == ""
    assert set(bad) == {"id", "error"}
    assert bad["error"].startswith("this line cannot be read: ")
    assert (after["id"], after["class"]) == ("after", "server_error")


def test_a_bad_line_keeps_its_id_where_it_is_readable() -> None:
    assert answers(narrows("classify", stdin='{"id": "x9", "status": "429"}'))[0]["id"] == "x9"


def test_nothing_in_nothing_out() -> None:
    assert narrows("classify", stdin="") == (0, "", "")


def test_an_answer_comes_before_the_next_line_is_sent() -> None:
    command = [sys.executable, "-m", "narrows", "classify"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        if running.stdin is None or running.stdout is None:
            raise RuntimeError("no pipes")
        for status, wanted in ((429, "rate_limited"), (500, "server_error")):
            running.stdin.write(lines({"status": status}).encode())
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["class"] == wanted
        running.stdin.close()
        assert running.wait(10) == 0


def test_interrupted_while_it_waits_it_exits_130_without_a_word() -> None:
    command = [sys.executable, "-m", "narrows", "classify"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        if running.stdin is None or running.stdout is None or running.stderr is None:
            raise RuntimeError("no pipes")
        running.stdin.write(lines({"status": 500}).encode())
        running.stdin.flush()
        assert running.stdout.readline()  # it runs, and waits for the next line
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 130
        assert running.stderr.read() == b""
