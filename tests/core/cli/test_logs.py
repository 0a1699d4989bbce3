"""The log: one line an event, and never what an exception says."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from narrows.cli import logs

SECRET = "sk-secret-prompt"


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


def test_a_line_has_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr()
    logging.getLogger("narrows.requests").info("decision=%s status=%d", "dec_1", 200)
    (line,) = lines(capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO decision=dec_1 status=200", line)


def test_of_an_exception_only_its_type_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr()
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task exception=ValueError('%s')>", SECRET,
                                       stack_info=True)  # fmt: skip
    first, second = lines(capsys)
    assert re.search(r"ERROR Exception in ASGI application: ValueError at test_logs\.py:\d+$", first)
    assert second.endswith("ERROR Task exception was never retrieved")
    assert SECRET not in first + second


def test_libraries_are_heard_from_warnings_on_and_requests_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr(requests=logging.WARNING)
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("httpx").info("GET")
    logging.getLogger("narrows.requests").info("one request")
    logging.getLogger("narrows.server").info("ours")
    assert [line.rpartition(" ")[2] for line in lines(capsys)] == ["ours"]


def test_a_second_call_does_not_double_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.to_stderr()
    logs.to_stderr()
    logging.getLogger("narrows").warning("once")
    assert len(lines(capsys)) == 1
