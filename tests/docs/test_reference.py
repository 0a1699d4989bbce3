"""docs/reference names everything that callers, operators and plugin authors may meet, and nothing that is not there.

What there is comes from the software itself, so that a new code or key fails here until it is written down.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import anyio
import httpx
import pytest

import narrows
import narrows_plugins
from narrows import Gateway, transport
from narrows.config.fields import known_keys
from narrows.config.tables import Document
from narrows.config.unbuilt import TABLE
from narrows.config.values import CAPABILITIES
from narrows.constraints import Block
from narrows.errors import STATUS, TEMPORARY
from narrows.exchange import CALLER_HEADERS
from narrows.failover import WORDS
from narrows.registry import OWN_DISTRIBUTION, Registry
from narrows.types import FailureClass
from tests.docs.pages import CODES, CONFIGURATION, FAILOVER, HTTP, OPERATE, QUESTIONS, page

WITHOUT_A_BLOCK = {"constraints.capability", "constraints.context_window", "authenticators.keys", "authenticators.host"}
"""Kinds that the core configures itself."""


def sources() -> Iterator[tuple[ModuleType, ast.Module]]:
    """Every module of ours that may remove a target or warn, with its syntax tree."""
    for package in (narrows, narrows_plugins):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(("narrows.cli", "narrows.testing", "narrows.__main__")):
                module = importlib.import_module(found.name)
                yield module, ast.parse(Path(str(module.__file__)).read_text("utf-8"))


SOURCES = tuple(sources())


def calls() -> Iterator[tuple[ModuleType, str, ast.Call]]:
    """Every call, with the name of what is called."""
    for module, tree in SOURCES:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                yield module, node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node


def word(module: ModuleType, node: ast.expr) -> str | None:
    """A code as the source gives it: a text, a constant of the module, or a prefix before a name."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            found = getattr(module, name, None)
            return found if isinstance(found, str) else None
        case ast.BinOp(left=left, op=ast.Add()):
            prefix = word(module, left)
            return None if prefix is None else f"{prefix}<name>"
    return None


def exclusion_codes() -> frozenset[str]:
    """What built-in kinds and the core give as the code of an exclusion."""
    found = set()
    for module, name, call in calls():
        if name == "Exclusion" and call.args:
            found.add(word(module, call.args[0]))
        elif name in ("only", "without") and isinstance(call.func, ast.Attribute) and len(call.args) == 3:
            found.add(word(module, call.args[1]))
    return frozenset(code for code in found if code is not None)


def warnings() -> frozenset[str]:
    """The codes of the core's own warnings."""
    found = set()
    for module, name, call in calls():
        severity = [key.value for key in call.keywords if key.arg == "severity"]
        if call.args and (name == "_warning" or any(word(module, value) == "warning" for value in severity)):
            found.add(word(module, call.args[0]))
    return frozenset(code for code in found if code is not None)


def names(text: str) -> frozenset[str]:
    """Every word in backticks that stands alone there."""
    return frozenset(re.findall(r"`([^`\n]+)`", text))


# ---- codes -------------------------------------------------------------------------------------------------------


def statuses(text: str) -> Mapping[str, int]:
    """Each code with its status, in tables ("| 400 | `x` |") and in sentences ("400 `x`")."""
    return {code: int(status) for status, code in re.findall(r"\b(\d{3})(?: \||\s)+`(\w+)`", text)}


def test_every_stable_code_stands_in_the_reference_with_its_status() -> None:
    assert statuses(page(HTTP).section("Codes")) == dict(STATUS)


def test_every_temporary_code_is_called_so() -> None:
    (sentence,) = re.findall(r"Temporary codes are ([^.]+)\.", page(HTTP).prose)
    assert names(sentence) == TEMPORARY


def test_operators_are_told_what_to_do_about_every_code_that_is_answered() -> None:
    (reserved,) = re.findall(r"Reserved for parts that come later(.+)", page(HTTP).section("Codes"), re.DOTALL)
    told = names(page(OPERATE).section("What to do, by code"))
    assert set(STATUS) - set(statuses(reserved)) <= told
    assert set(FailureClass) <= told


def test_every_exclusion_code_stands_in_the_reference() -> None:
    codes = exclusion_codes()
    assert {"attribute_mismatch", "unlabelled", "class", "price", "unaffordable", "capability.<name>"} <= codes
    assert codes == names(
        "\n".join(
            line.split("|")[1] for line in page(CODES).section("In this release").splitlines() if line[:3] == "| `"
        )
    )


def test_every_warning_stands_in_the_reference() -> None:
    codes = warnings()
    assert {"unused_constraint", "unread_attribute", "nobody_may_call"} <= codes
    assert codes == set(re.findall(r"^\| `(\w+)` \|", page(CONFIGURATION).section("Warnings"), re.MULTILINE))


def test_every_failure_class_and_every_word_of_failover_is_explained() -> None:
    assert {*FailureClass, *WORDS} <= names(page(FAILOVER).prose.replace('"', ""))


# ---- configuration -----------------------------------------------------------------------------------------------


def keys() -> Iterator[tuple[str, str]]:
    """Every key of the tables, with its group."""
    for group in known_keys(Document, ()):
        for key in known_keys(Document, (group, "x")) or known_keys(Document, (group,)):
            yield group, key
            for inner in known_keys(Document, (group, "x", key)):
                yield group, inner


def options() -> Iterator[tuple[str, str]]:
    """Every option of every built-in kind that a block may name, with its group."""
    for kind in Registry().all():
        if kind.distribution == OWN_DISTRIBUTION and kind.name not in WITHOUT_A_BLOCK:
            loaded: type[Block] = kind.load()
            for name, field in loaded.model_fields.items():
                yield kind.group, field.alias or name


def planned() -> Iterator[tuple[str, str]]:
    """Every key that a later part brings, with its group."""
    for row in TABLE:
        if not row.planned and len(row.path) > 1:
            yield row.path[0], row.path[-1]


def section(group: str) -> str:
    """What the page says of a group of tables. A ranker's options stand below its route."""
    here, group = page(CONFIGURATION), "routes" if group == "rankers" else group
    title = next(title for _, title in here.headings if re.search(rf"`\[{group}(\.NAME)?\]`", title))
    return here.section(title)


@pytest.mark.parametrize(("group", "key"), sorted({*keys(), *options(), *planned()}))
def test_every_key_of_the_file_stands_in_the_reference(group: str, key: str) -> None:
    assert key in {part for name in names(section(group)) for part in re.split(r"[^\w]+", name)}


def test_every_word_that_is_planned_is_marked() -> None:
    text = page(CONFIGURATION).prose
    for row in TABLE:
        for value in row.planned:
            told = str(value).lower() if isinstance(value, bool) else value
            assert re.search(rf"`\"?{re.escape(told)}\"?`", text), f"{'.'.join(row.path)} = {told}"


def test_every_capability_is_named() -> None:
    assert set(CAPABILITIES) <= names(section("targets"))


# ---- HTTP and the log --------------------------------------------------------------------------------------------


def test_the_headers_that_travel_upstream_are_listed() -> None:
    rows = page(HTTP).section("Which headers travel upstream").splitlines()
    (caller,) = [row for row in rows if "the caller, unchanged" in row]
    assert names(caller) == CALLER_HEADERS


FILE = next(block.source for block in page(QUESTIONS).of("toml"))
"""The file that the examples of the reference speak of."""


def asked(path: str) -> httpx.Response:
    """What that file answers to the key `batch`, in the EU. Its provider is not there."""

    async def ask() -> httpx.Response:
        gateway = Gateway.from_text(FILE.replace("openai_compatible", "echo").replace("base_url", "# base_url"))
        inside = transport(gateway, "batch")
        async with gateway, httpx.AsyncClient(transport=inside, base_url="http://narrows") as client:
            body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
            return await client.post(path, json=body, headers={"x-region": "eu"})

    return anyio.run(ask)


def test_the_example_of_explain_is_what_it_answers() -> None:
    answer = asked("/v1/explain").json()
    told = page(HTTP).section("`POST /v1/explain`")
    assert set(answer) <= names(told)
    (example,) = [json.loads(block.source) for block in page(HTTP).of("json") if "explain" in block.heading]
    assert list(answer) == list(example)
    assert answer == {**example, "decision": answer["decision"], "policy": answer["policy"]}


def test_every_header_of_an_answer_stands_in_the_reference() -> None:
    ours = {name for name in asked("/v1/chat/completions").headers if name.startswith("x-")}
    assert "x-narrows-target" in ours
    assert ours <= names(page(HTTP).section("Answer"))


def test_every_field_of_the_log_line_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "narrows.requests"):
        assert asked("/v1/chat/completions").status_code == 200
    (line,) = [record.getMessage() for record in caplog.records if record.name == "narrows.requests"]
    fields = re.findall(r"(?:^| )(\w+)=", line)
    assert "decision" in fields
    table = page(OPERATE).section("Logs")
    assert fields == re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
