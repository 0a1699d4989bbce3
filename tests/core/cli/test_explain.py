"""`narrows explain`: the document of the live path, the table, who is calling, what they send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.core.cli.commands import ECHO, KEYS, Ran, narrows, process
from tests.support.config import write_config

SHAPE = {
    "outcome", "status", "code", "policy", "route", "principal", "attributes", "demands", "targets", "closest", "order",
    "tokens", "cost_micro_usd",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_config(tmp_path, ECHO)


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    return write_config(tmp_path, ECHO + KEYS, "keyed.toml")


def explain(file: Path, *more: object, route: str = "chat", stdin: str | bytes | None = None) -> Ran:
    return narrows("explain", file, "--route", route, *more, stdin=stdin)


def rows(ran: Ran) -> dict[str, list[str]]:
    """The table: target -> the rest of its row, in words."""
    found = [line.split() for line in ran.stdout.splitlines() if line.startswith(" ") and "─" not in line]
    return {words[0]: words[1:] for words in found if words}


def test_the_document_of_an_eligible_request(file: Path) -> None:
    ran = explain(file, "--header", "x-region=eu", "--json")
    document = ran.json()
    assert (ran.code, ran.stderr) == (0, "")
    assert set(document) >= SHAPE
    assert (document["outcome"], document["status"], document["code"]) == ("eligible", 200, "ok")
    assert (document["route"], document["principal"]) == ("chat", "anonymous")
    assert document["attributes"] == {"data-region": {"values": ["eu"], "sources": ["header"], "assumed": False}}
    assert document["demands"] == [{"constraint": "residency", "demand": "eu", "source": "said"}]
    assert document["order"] == ["eu-main"]
    us, eu = document["targets"]
    assert (us["target"], us["eligible"]) == ("us-large", False)
    assert [reason["constraint"] for reason in us["exclusions"]] == ["residency"]
    assert eu == {"target": "eu-main", "eligible": True, "exclusions": []}


def test_the_table_has_a_tick_or_the_reason_for_each_rule(file: Path) -> None:
    ran = explain(file, "--header", "x-region=eu")
    assert (ran.code, ran.stderr) == (0, "")
    table = rows(ran)
    assert table["target"] == ["residency", "capability", "context_window", "eligible"]
    assert table["us-large"] == ["region", "is", "not", "eu", "✓", "✓", "no"]
    assert table["eu-main"] == ["✓", "✓", "✓", "yes"]
    assert "eligible: 1 of 2 targets of 'chat', for anonymous" in ran.stdout
    assert "order:    eu-main" in ran.stdout
    assert "says:     data-region = eu (said by header)" in ran.stdout
    assert "demands:  residency: eu (said)" in ran.stdout
    assert "cost:     unknown, no eligible target has a price" in ran.stdout


def test_without_a_header_both_are_left_and_the_cost_has_bounds(file: Path) -> None:
    ran = explain(file)
    assert ran.code == 0
    assert "order:    us-large, eu-main" in ran.stdout
    assert "USD an attempt; without a price: eu-main" in ran.stdout


def test_a_refusal_exits_1_with_the_nearest_way_out(file: Path) -> None:
    ran = explain(file, "--header", "x-region=eu", route="us-only")
    assert (ran.code, ran.stderr) == (1, "")
    assert rows(ran)["us-large"][-1] == "no"
    assert "refused:  403 no_eligible_target: 0 of 1 targets eligible" in ran.stdout
    assert ran.stdout.count("blocked only by") == 1
    document = explain(file, "--header", "x-region=eu", "--json", route="us-only")
    assert document.code == 1
    assert document.json()["closest"] == {"target": "us-large", "blocked_by": ["residency"]}
    assert (document.json()["outcome"], document.json()["code"]) == ("refused", "no_eligible_target")


def test_a_refusal_before_narrowing_names_the_nearest_way_out_too(tmp_path: Path) -> None:
    file = write_config(tmp_path, ECHO.replace('"unrestricted"', '"floor"'))
    ran = explain(file)
    assert ran.code == 1
    assert "refused:  400 attribute_missing: " in ran.stdout
    assert "says:     data-region = eu, us (assumed, nobody said)" in ran.stdout
    assert "closest:  us-large, blocked only by residency" in ran.stdout


# ---- who is calling --------------------------------------------------------------------------------------------------


def test_without_a_key_it_is_anonymous_with_every_grant_and_says_so(keyed: Path) -> None:
    ran = explain(keyed, "--json")
    assert ran.code == 0
    assert ran.json()["principal"] == "anonymous"
    assert [row["target"] for row in ran.json()["targets"]] == ["us-large", "eu-main"]
    assert ran.json()["attributes"] == {}
    assert ran.stderr.startswith("note: no --key: ")
    assert "ci, ops" in ran.stderr


def test_a_key_is_that_caller_with_its_tenant(keyed: Path) -> None:
    ran = explain(keyed, "--key", "ci", "--json")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json()["principal"] == "ci"
    assert ran.json()["attributes"]["data-region"]["sources"] == ["tenant"]
    assert ran.json()["order"] == ["eu-main"]


def test_a_route_that_the_key_is_not_granted_does_not_exist_for_it(keyed: Path) -> None:
    ran = explain(keyed, "--key", "ci", route="us-only")
    assert ran.code == 1
    assert "refused:  404 unknown_model" in ran.stdout
    assert "note: [keys.ci] grants nothing on 'us-only'" in ran.stderr
    assert explain(keyed, "--key", "ops", "--header", "x-region=us", route="us-only").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--key", "cj"], "no key is named 'cj'. Did you mean 'ci'?"),
        (["--key", "somebody-else"], "There is: ci, ops."),
        (["--key", "nrw_0123456789abcdefghij"], "--key takes the NAME of a [keys.NAME] block, never the key itself"),
        (["--header", "x-region"], "--header is no NAME=VALUE"),
        (["--header", "=eu"], "--header is no NAME=VALUE"),
        (["--header", "authorization=Bearer x"], "Say who is calling with --key NAME"),
        (["--body", "absent.json"], "--body 'absent.json' cannot be read: No such file or directory"),
        (["--session", "s1"], "`narrows explain --session` is not built yet"),
    ],
)
def test_what_cannot_be_explained_exits_2(keyed: Path, arguments: list[str], says: str) -> None:
    ran = explain(keyed, *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert says in ran.stderr


def test_a_misspelt_route_exits_2(file: Path) -> None:
    ran = explain(file, route="caht")
    assert (ran.code, ran.stdout) == (2, "")
    assert "no route is named 'caht'. Did you mean 'chat'?" in ran.stderr


def test_in_an_open_gateway_anonymous_may_say_what_auth_gives_everybody(tmp_path: Path) -> None:
    text = ECHO.replace('"unrestricted"', '"floor"').replace(
        "[providers", 'accept = { eu = ["eu"], us = "*" }\n\n[providers'
    )
    text = text.partition("[routes.us-only]")[0]  # "us" now leaves more than silence, so it needs leave
    leave = '[auth]\nmode = "open"\nmay_say = { data-region = ["us"] }\n'
    for more, code in (("", "attribute_forbidden"), (leave, "ok")):
        ran = explain(write_config(tmp_path, text + more), "--header", "x-region=us", "--json")
        assert ran.json()["code"] == code


# ---- what they send -----------------------------------------------------------------------------------------------


def test_several_headers_speak_together(file: Path) -> None:
    ran = explain(file, "--header", "x-region=eu", "--header", "X-Region=us", "--json")
    assert ran.code == 1
    assert ran.json()["attributes"]["data-region"]["values"] == ["eu", "us"]


def test_a_misspelt_header_is_noted(file: Path) -> None:
    ran = explain(file, "--header", "x-regoin=eu")
    assert ran.code == 0
    assert ran.stderr == "note: the header 'x-regoin' says no attribute. Did you mean 'x-region'?\n"


def test_an_undeclared_value_is_refused_as_live(file: Path) -> None:
    ran = explain(file, "--header", "x-region=mars", "--json")
    assert (ran.code, ran.json()["code"]) == (1, "attribute_unknown")


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_the_body_is_judged(file: Path, tmp_path: Path, how: str) -> None:
    body = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "x" * 1000}]})
    (tmp_path / "body.json").write_text(body)
    given = {"file": (str(tmp_path / "body.json"), None), "stdin": ("-", body)}[how]
    ran = explain(file, "--body", given[0], "--json", stdin=given[1])
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json()["tokens"]["at_most"] > 1000


def test_the_route_wins_over_the_model_of_the_body(file: Path) -> None:
    ran = explain(
        file, "--body", "-", "--json", stdin='{"model": "other", "messages": [{"role": "user", "content": "Hi"}]}'
    )
    assert ran.json()["route"] == "chat"
    assert "the body's own `model` is read as 'chat'" in ran.stderr


@pytest.mark.parametrize("body", ["", "[]", "nonsense", '{"messages": 7}', b"\xff"])
def test_a_body_that_live_refuses_is_refused(file: Path, body: str | bytes) -> None:
    ran = explain(file, "--body", "-", "--json", stdin=body)
    assert (ran.code, ran.json()["code"]) == (1, "invalid_body")


def test_a_load_error_under_json_is_one_document(tmp_path: Path) -> None:
    ran = explain(write_config(tmp_path, ECHO + "[routs]\n"), "--json")
    assert ran.code == 2
    assert [problem["path"] for problem in ran.json()["problems"]] == ["routs"]


def test_names_are_never_read_as_markup(tmp_path: Path) -> None:
    text = ECHO.replace("residency", "red").replace("us-large", "bold")
    ran = explain(write_config(tmp_path, text), "--header", "x-region=eu", route="us-only")
    assert "[red]" in ran.stdout
    assert rows(ran)["bold"][-1] == "no"


def test_a_narrow_terminal_breaks_words_and_hides_none(file: Path) -> None:
    ran = narrows("explain", file, "--route", "chat", "--header", "x-region=eu", env={"COLUMNS": "50"})
    assert "…" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines()[:8])) <= 50


def test_an_ascii_terminal_gets_an_ascii_table(file: Path) -> None:
    ran = process("explain", file, "--route", "chat", "--header", "x-region=eu", env={"PYTHONIOENCODING": "ascii"})
    assert ran.code == 0
    assert ran.stdout.isascii()
    assert "ok" in ran.stdout
