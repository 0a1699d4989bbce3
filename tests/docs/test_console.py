"""What the pages tell a reader to do is done, page by page, and does what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from starlette.testclient import TestClient

from tests.docs.pages import CONSTRAINT, DOCS, PAGES, QUESTIONS, ROOT, Block, page
from tests.docs.session import Differs, Session, commands, matches
from tests.docs.test_blocks import is_complete

TUTORIAL = DOCS / "tutorial.md"
FASTAPI = DOCS / "how-to" / "mount-in-fastapi.md"
ELSEWHERE = {CONSTRAINT: "tests/docs/test_write_a_constraint.py"}
"""Pages that have a test of their own, which does more."""
FOLLOWED = tuple(
    path for path in PAGES if path not in ELSEWHERE and (page(path).of("console") or page(path).of("python"))
)
LANGUAGES = {"toml", "json", "yaml", "python", "console", "text", "markdown", "patch"}
"""`text` is what cannot be run here: installing, units of systemd, drawings. The others are checked, each in its way."""


def complete(path: Path) -> str:
    """The file that a page speaks of: its own, or that of the three questions."""
    blocks = [*page(path).of("toml"), *page(QUESTIONS).of("toml")]
    return next(block.source for block in blocks if is_complete(block))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ACME_API_KEY", "a-key")
    before = set(sys.modules)
    with Session(tmp_path, {"ACME_API_KEY": "a-key"}) as opened:
        yield opened
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(str(sys.modules[name].__file__)).parent == tmp_path:
            del sys.modules[name]


@pytest.mark.parametrize("path", FOLLOWED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_says(path: Path, session: Session) -> None:
    (session.folder / "narrows.toml").write_text(complete(path), "utf-8")
    assert session.follow(page(path)) > 0


def test_every_block_says_what_it_is() -> None:
    assert not [str(block) for path in PAGES for block in page(path).blocks if block.language not in LANGUAGES]


def test_the_tutorial_and_each_way_in_are_among_them() -> None:
    names = {path.name for path in FOLLOWED}
    assert {"README.md", "tutorial.md", "serve.md", "mount-in-starlette.md", "in-process-client.md"} <= names
    assert len(page(TUTORIAL).of("console")) > 8
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())


def test_the_programs_of_the_fastapi_page_do_their_work(session: Session) -> None:
    """Not only do they start: a handler asks a model, a stream is passed on, and a job runs without a request."""
    text = complete(FASTAPI).replace("openai_compatible", "echo").replace("base_url", "# base_url")
    (session.folder / "narrows.toml").write_text(text.replace("api_key_env", "# api_key_env"), "utf-8")
    _, _, summary, passed_on, nightly = page(FASTAPI).of("python")
    headers = {"authorization": "Bearer nrw_example_batch", "x-region": "eu"}
    with TestClient(session.execute(summary.source)["app"], headers=headers) as client:
        assert client.post("/summary", content="Words").json()["summary"].endswith("Summarise:\nWords")
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    with TestClient(session.execute(passed_on.source)["app"], headers=headers) as client:
        answer = client.post("/ask", json=body)
        assert answer.headers["x-narrows-target"] == "eu-large"
        assert answer.text.endswith("data: [DONE]\n\n")
    anyio.run(session.execute(nightly.source)["nightly"])


# ---- the session itself notices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [("echo one", ["two"]), ("echo one; echo two", ["one"]), ("echo one", ["one", "…", "two"]), ("false", [])],
)
def test_a_command_that_does_otherwise_is_noticed(command: str, expected: list[str], session: Session) -> None:
    session.check("echo one; echo; echo two", ["one", "two"])
    with pytest.raises(Differs, match="printed"):
        session.check(command, expected)


def test_a_shell_that_ends_and_a_server_that_does_not_start_are_noticed(session: Session) -> None:
    (session.folder / "narrows.toml").write_text("nonsense = 1\n", "utf-8")
    with pytest.raises(Differs, match="never ready"):
        session.serve("narrows serve narrows.toml")
    with pytest.raises(Differs, match="ended the shell"):
        session.run("exit 3")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["a…d"], ["abcd"], True),
        (["a…c"], ["abcd"], False),
        (["abc  "], ["", "abc"], True),
        (["…", "end"], ["one", "two", "end"], True),
        (["one", "…"], ["one"], True),
        (["…", "end"], ["end", "more"], False),
        (["one"], ["one", "two"], False),
    ],
)
def test_an_ellipsis_stands_for_what_differs(expected: list[str], printed: list[str], same: bool) -> None:
    assert matches(expected, printed) == same


def test_a_command_goes_on_behind_a_backslash() -> None:
    block = Block(TUTORIAL, 1, "console", "$ one \\\n  two\nprinted\n$ three\n", "", "")
    assert list(commands(block)) == [("command", "one \\\n  two"), ("prints", "printed"), ("command", "three")]
