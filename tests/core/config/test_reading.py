"""Files that cannot be read, each with a clear problem of its own; and several files together."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.config import load
from tests.core.config.support import BASE, ENV, brief, line_of, only, refused, refused_files, registry

POLICY = """
[attributes.data-region]
values = ["eu", "any"]

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
always = true
"""


def written(folder: Path, text: str | bytes, name: str = "narrows.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_that_is_right_loads(tmp_path: Path) -> None:
    loaded = load([written(tmp_path, BASE)], registry(), ENV)
    assert list(loaded.settings.routes) == ["chat"]
    assert loaded.place("targets.eu.region") == (str(tmp_path / "narrows.toml"), 9)
    assert loaded.place("targets.eu.tier.deeper") == (str(tmp_path / "narrows.toml"), 6), "the nearest ancestor"
    assert loaded.place("server.port") == (str(tmp_path / "narrows.toml"), 1)


def test_an_absent_file(tmp_path: Path) -> None:
    problem = only(refused_files(tmp_path / "absent.toml"))
    assert (problem.code, problem.file, problem.line) == ("no_such_file", str(tmp_path / "absent.toml"), None)


def test_no_file_at_all() -> None:
    assert only(refused_files()).code == "no_such_file"


def test_a_name_that_no_file_can_have() -> None:
    assert only(refused_files("a\0b")).code == "unreadable_file"


def test_a_directory(tmp_path: Path) -> None:
    assert only(refused_files(tmp_path)).code == "is_directory"


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "[targets]\n"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    assert only(refused_files(written(tmp_path, text))).code == "empty_config"


def test_an_empty_file_beside_a_full_one_may_be_a_policy_that_was_lost(tmp_path: Path) -> None:
    problem = only(refused_files(written(tmp_path, "", "policy.toml"), written(tmp_path, BASE)))
    assert (problem.code, problem.file) == ("empty_config", str(tmp_path / "policy.toml"))


def test_a_configuration_without_a_route() -> None:
    problem = only(refused(BASE.split("[routes.chat]", maxsplit=1)[0]))
    assert (problem.code, problem.path) == ("empty_config", "")


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    problem = only(refused_files(written(tmp_path, BASE.encode() + b"# gr\xfc\xdf\n")))
    assert (problem.code, problem.line) == ("not_utf8", 13)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_refused_and_named(tmp_path: Path, encoding: str) -> None:
    problem = only(refused_files(written(tmp_path, BASE.encode(encoding))))
    assert problem.code == "not_utf8"
    assert "byte order mark" in problem.message


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a = 1\nb = = 2\n", 2, "Invalid value"),
        ("a = 1\n[t\n", 2, "Expected"),
        ("a = [1,\n2\n", 3, "end of the file"),
        ("a = 1\n\na = 2\n", 3, "Cannot overwrite"),
        ("a = unquoted\n", 1, "Invalid value"),
        ("a = " + "9" * 5000, 1, "integer"),
        ("a = " + "[" * 100_000, 1, "deep"),
        ("a = " + "[" * 60 + "]" * 60, 1, "inside each other"),
        ("a" + ".a" * 60 + " = 1", 1, "inside each other"),
    ],
)
def test_what_is_not_toml_names_the_line(text: str, line: int, part: str) -> None:
    problem = only(refused(text))
    assert (problem.code, problem.line) == ("not_toml", line)
    assert part in problem.message


def test_a_syntax_error_does_not_repeat_a_key() -> None:
    problem = only(refused("a = { sk-live-0123456789abcdefgh = 1, sk-live-0123456789abcdefgh = 2 }"))
    assert problem.code == "not_toml"
    assert "0123456789" not in str(problem)


def test_every_file_is_read_before_anything_is_refused(tmp_path: Path) -> None:
    """And what a readable one says is checked, but for what the unreadable one may have held."""
    bad = written(tmp_path, "x = = 1", "bad.toml")
    good = written(tmp_path, BASE.replace("region", "regoin").replace('"acme"', '"elsewhere"'), "good.toml")
    problems = refused_files(bad, tmp_path / "absent.toml", good)
    assert brief(problems) == [("not_toml", "", 1), ("no_such_file", "", None), ("unknown_key", "targets.eu.regoin", 9)]


# ---- several files -----------------------------------------------------------------------------------------------


def test_a_later_file_adds_tables(tmp_path: Path) -> None:
    policy, routes = written(tmp_path, POLICY, "policy.toml"), written(tmp_path, BASE)
    loaded = load([policy, routes], registry(), ENV)
    assert [entry.name for entry in loaded.blocks][:1] == ["residency"]
    assert loaded.place("constraints.residency.always") == (str(policy), line_of(POLICY, "always"))
    assert loaded.place("routes.chat") == (str(routes), line_of(BASE, "[routes.chat]"))


def test_a_later_file_adds_tables_and_settings(tmp_path: Path) -> None:
    first = written(tmp_path, BASE + "[server]\nport = 1\n", "first.toml")
    second = written(tmp_path, "[routes.more]\ntargets = ['eu']\n[server]\nmax_body_bytes = 5\n", "second.toml")
    settings = load([first, second], registry(), ENV).settings
    assert settings.routes["more"].targets == ("eu",)
    assert (settings.server.port, settings.server.max_body_bytes) == (1, 5)


KEY = f"[keys.k]\nsha256 = '{'a' * 64}'\n"


@pytest.mark.parametrize("mode", ["open", "host"])
def test_a_later_file_cannot_open_what_needs_a_key(tmp_path: Path, mode: str) -> None:
    policy = written(tmp_path, BASE + KEY, "policy.toml")
    problem = only(refused_files(policy, written(tmp_path, f"[auth]\nmode = '{mode}'", "second.toml")))
    assert (problem.code, problem.path, problem.line) == ("policy_redefined", "auth.mode", 2)
    load([policy, written(tmp_path, "[auth]\nmode = 'keys'", "third.toml")], registry(), ENV)  # that loosens nothing
    load([written(tmp_path, f"{BASE}{KEY}[auth]\nmode = '{mode}'", "one.toml")], registry(), ENV)  # its own file may


@pytest.mark.parametrize(
    ("more", "path", "line"),
    [
        ("[attributes.data-region]\nvalues = ['eu', 'any', 'us']", "attributes.data-region.values", 2),
        ("[targets.eu]\nregion = 'us'", "targets.eu.region", 2),
        ("[targets.eu.region]\nx = 1", "targets.eu.region", 1),
        ("[targets.eu]\ntier = 'frontier'", "targets.eu.tier", 2),
        ("[routes.chat]\nfailover_on = ['endpoint_dead']", "routes.chat.failover_on", 2),
        ("constraints.residency.always = false", "constraints.residency.always", 1),
        ("targets = 'none'", "targets", 1),
    ],
)
def test_a_later_file_cannot_redefine(tmp_path: Path, more: str, path: str, line: int) -> None:
    policy, second = written(tmp_path, POLICY + BASE, "policy.toml"), written(tmp_path, more, "second.toml")
    problem = only(refused_files(policy, second))
    assert (problem.code, problem.path, problem.file, problem.line) == ("policy_redefined", path, str(second), line)
    assert f"{policy} line " in problem.message, "both places are named"


@pytest.mark.parametrize(
    ("more", "path", "line"),
    [
        ("[constraints.residency]\naccept = { eu = '*', any = '*' }", "constraints.residency.accept", 2),
        ("[attributes.data-region]\nmissing = 'unrestricted'", "attributes.data-region.missing", 2),
        ("[tenants.t]\nmay_say = { data-region = 'any' }", "tenants.t.may_say", 2),
        ("[keys.k.may_say]\ndata-region = 'any'", "keys.k.may_say", 1),
        ("[keys.k]\nattributes.data-region = 'any'", "keys.k.attributes.data-region", 2),
        ("[auth]\nmay_say = { data-region = 'any' }", "auth.may_say", 2),
        ("[providers.acme]\nproxy = 'http://127.0.0.1:1'", "providers.acme.proxy", 2),
    ],
)
def test_what_a_rule_leaves_out_is_part_of_it(tmp_path: Path, more: str, path: str, line: int) -> None:
    """A key that a later file adds to a rule, an attribute or a caller would loosen what the first file declared."""
    callers = "[tenants.t]\n[keys.k]\ntenant = 't'\nattributes = { }\n[auth]\nmode = 'open'\n"
    policy, second = written(tmp_path, POLICY + callers + BASE, "policy.toml"), written(tmp_path, more, "second.toml")
    load([policy], registry(), ENV)
    problem = only(refused_files(policy, second))
    assert (problem.code, problem.path, problem.file, problem.line) == ("policy_redefined", path, str(second), line)


def test_arrays_of_tables_are_added_to_with_their_lines(tmp_path: Path) -> None:
    first = written(tmp_path, BASE + "[[server.extra]]\na = 1\n", "first.toml")
    second = written(tmp_path, "\n[[server.extra]]\na = 2020-01-01\n", "second.toml")
    problems = refused_files(first, second)
    assert ("wrong_type", "server.extra.1.a", 3) in brief(problems)
    assert "unknown_key" in {code for code, path, _ in brief(problems) if path == "server.extra"}


def test_one_file_twice_is_said_once(tmp_path: Path) -> None:
    path = written(tmp_path, BASE)
    assert only(refused_files(path, path)).code == "contradiction"
