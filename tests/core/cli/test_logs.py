"""The log: one line an event, for people or as JSON, and never what an exception says."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from narrows.cli import logs
from narrows.request_log import FIELDS, text
from narrows.types import Json

SECRET = "sk-secret-prompt"
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
REQUEST: dict[str, Json] = {"decision": "dec_1", "request_id": None, "status": 200, "excluded": {"residency": 2}}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The loggers as pytest had them."""
    loggers = [logging.getLogger(name) for name in (None, "narrows", "narrows.requests")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(capsys)]


def request(fields: dict[str, Json]) -> None:
    logging.getLogger("narrows.requests").info("%s", text(fields), extra={FIELDS: fields})


def test_a_line_has_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr()
    request(REQUEST)
    (line,) = lines(capsys)
    assert re.fullmatch(AT + " INFO decision=dec_1 request_id=- status=200 excluded=residency:2", line)


def test_a_json_line_has_typed_fields_and_any_other_line_is_one_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr("json")
    request(REQUEST)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logs.say("narrows serves")
    first, *others = objects(capsys)
    assert re.fullmatch(AT, first["ts"])
    assert {**first, "ts": ""} == {
        "ts": "",
        "level": "info",
        "logger": "narrows.requests",
        "message": "request",
        **REQUEST,
    }
    assert [(line["level"], line["logger"], line["message"]) for line in others] == [
        ("warning", "uvicorn.error", "Invalid HTTP request received."),
        ("info", "narrows.serve", "narrows serves"),
    ]


@pytest.mark.parametrize("form", ["human", "json"])
def test_of_an_exception_only_its_type_and_place(form: logs.Form, capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr(form)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task exception=ValueError('%s')>", SECRET,
                                       stack_info=True)  # fmt: skip
    first, second = lines(capsys)
    if form == "human":
        assert re.search(r"ERROR Exception in ASGI application: ValueError at test_logs\.py:\d+$", first)
        assert second.endswith("ERROR Task exception was never retrieved")
    else:
        assert re.fullmatch(r"ValueError at test_logs\.py:\d+", json.loads(first)["error"])
        assert json.loads(first)["message"] == "Exception in ASGI application"
        assert json.loads(second)["message"] == "Task exception was never retrieved"
    assert SECRET not in first + second


@pytest.mark.parametrize("form", ["human", "json"])
@pytest.mark.parametrize("said", ["a\rb", "a\x1b[2Jb", "a\x85b", "a\u2028b", "a\x00b"])
def test_a_line_is_one_line_and_nothing_that_a_terminal_obeys(
    said: str, form: logs.Form, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.to_stderr(form)
    logging.getLogger("narrows.plugins").warning("%s", said)
    (line,) = capsys.readouterr().err.removesuffix("\n").splitlines()
    assert line.isprintable()


def test_libraries_are_heard_from_warnings_on_and_requests_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr(requests=logging.WARNING)
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("httpx").info("GET")
    logging.getLogger("narrows.requests").info("one request")
    logging.getLogger("narrows.server").info("ours")
    assert [line.rpartition(" ")[2] for line in lines(capsys)] == ["ours"]


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error", "warning", "error"]),
        ("info", ["info", "warning", "error", "warning", "error"]),
        ("warning", ["warning", "error", "warning", "error"]),
        ("error", ["error", "error"]),
    ],
)
def test_the_level_is_ours_and_no_library_says_more_for_it(
    level: logs.Level, heard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Below WARNING an HTTP library tells headers: keys."""
    logs.to_stderr(level=level)
    for name in ("narrows.requests", "httpcore.http11"):
        for said in ("debug", "info", "warning", "error"):
            logging.getLogger(name).log(logging.getLevelNamesMapping()[said.upper()], "%s", said)
    assert [line.rpartition(" ")[2] for line in lines(capsys)] == heard


def test_a_second_call_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr()
    logs.to_stderr()
    logging.getLogger("narrows").warning("once")
    assert len(lines(capsys)) == 1
