"""`GET /v1/decisions[/ID]`: a caller reads its own decisions, and of them only what it is granted now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from narrows.decisions import AS_IT_IS, BY_TARGET, ROWS, granted
from narrows.ledger import Gap, LedgerUnavailable, Page, Query
from narrows.ledger.reading import Document
from narrows.recorders import Recorders
from narrows.testing import Answer
from tests.surface.keyring import KEYRING, bearer
from tests.surface.support import JSON, PATIENCE, Headers, Site, Way, assert_refused, chat, opened
from tests.surface.test_models import bare

PATH: Final = "/v1/decisions"
D: Final = {
    "id", "ts", "policy", "principal", "tenant", "route", "session", "attributes", "demands", "labels", "outcome",
    "status", "code", "excluded", "shadow", "waived", "order", "rank", "attempts", "cost_micro_usd", "blocked_fallback",
}  # fmt: skip
"""The keys of D in INTERFACES: none may be missing. Ours beside them: `facts`, `request_id`."""


@pytest.fixture(scope="module")
def keyed(way: Way, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two ways with a ledger in a file, two with the memory alone: nobody can tell them apart."""
    ledger = tmp_path_factory.mktemp("ledger") / "narrows.db"
    sink = f'\n[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{ledger}"\n' if way in ("uvicorn", "trio") else ""
    with opened(way, KEYRING + sink, open_access=False) as site:
        yield site


@pytest.fixture(name="site")
def _site(keyed: Site) -> Iterator[Site]:
    keyed.clear()
    snapshot = keyed.gateway.snapshot
    yield keyed
    keyed.gateway.snapshot = snapshot


def made(site: Site, who: str, route: str = "chat", saying: Headers = ()) -> str:
    """The id of a request of that caller, which can be read when this returns."""
    response = site.send(chat(route), (JSON, bearer(who), *saying))
    key = site.decision(response).id
    assert read(site, who, f"/{key}")["id"] == key
    return key


def read(site: Site, who: str, rest: str = "") -> Any:
    """What that caller reads there, as soon as it is there."""
    response = site.get(PATH + rest, [bearer(who)])
    deadline = time.monotonic() + PATIENCE
    while response.status_code == 404 and time.monotonic() < deadline:
        response = site.get(PATH + rest, [bearer(who)])
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def ids(page: Mapping[str, Any]) -> list[str]:
    return [row["id"] for row in page["data"]]


def regrant(site: Site, who: str, **grants: frozenset[str] | None) -> None:
    """Change what a key is granted, as a reload would."""
    snapshot = site.gateway.snapshot
    caller = snapshot.callers[who]
    changed = replace(caller, principal=replace(caller.principal, **grants))  # type: ignore[arg-type]
    routes = {name: replace(route, _granted={}) for name, route in snapshot.routes.items()}
    site.gateway.snapshot = replace(snapshot, callers={**snapshot.callers, who: changed}, routes=routes)


def test_the_caller_reads_what_was_recorded(site: Site) -> None:
    key = made(site, "all", "wide", [("x-region", "eu"), ("tier", "gold")])
    found = read(site, "all", f"/{key}")
    assert found.keys() >= D
    assert found == httpx.Response(200, json=site.probe.of(key).document()).json()
    assert [row["target"] for row in found["excluded"]] == ["ohio", "third"]
    assert ids(read(site, "all"))[0] == key


def test_it_can_be_read_within_a_second_of_the_answer(site: Site) -> None:
    """The best of three: this machine may be busy with something else."""
    waited = []
    for _ in range(3):
        response = site.send(chat(), (JSON, bearer("all")))
        answered = time.monotonic()
        read(site, "all", f"/{response.headers['x-narrows-decision']}")
        waited.append(time.monotonic() - answered)
    assert min(waited) < 1


def test_a_head_is_answered_without_a_body(site: Site) -> None:
    key = made(site, "all")
    for path in (PATH, f"{PATH}/{key}"):
        head = site.get(path, [bearer("all")], method="HEAD")
        assert (head.status_code, head.content) == (200, b"")
    assert site.get(f"{PATH}/dec_none", [bearer("all")], method="HEAD").status_code == 404


def test_what_is_not_the_callers_own_is_not_found(site: Site) -> None:
    key = made(site, "all")
    assert read(site, "all", f"/{key}")["id"] == key
    answers = [
        site.get(f"{PATH}/{other}", [bearer("narrow")])
        for other in (key, f"dec_{27 * '0'}", "dec_x", "", f"{key}/", "%2e%2e", f"{key}%00", "a" * 4000)
    ]
    for answer in answers:
        assert_refused(answer, "not_found")
    assert len({(bare(answer)[1], *bare(answer)[2].items()) for answer in answers}) == 1
    assert key not in ids(read(site, "narrow", "?limit=200"))


def test_nobody_reads_nothing_and_nothing_else_is_taken(site: Site) -> None:
    key = made(site, "all")
    for path in (PATH, f"{PATH}/{key}"):
        assert_refused(site.get(path), "unauthenticated")
        assert_refused(site.get(path, [("x-api-key", "nrw_wrong")]), "unauthenticated")
        refused = site.send(b"", [JSON, bearer("all")], method="POST", path=path)
        assert_refused(refused, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD"
    assert_refused(site.get(f"{PATH}x", [bearer("all")]), "not_found")


def test_pages_follow_one_another(site: Site) -> None:
    keys = [made(site, "doubly") for _ in range(5)]
    first = read(site, "doubly", "?limit=2")
    assert (ids(first), first["next"]) == (keys[:-3:-1], keys[-2])
    made(site, "doubly")  # what comes meanwhile moves nothing
    second = read(site, "doubly", f"?limit=2&before={first['next']}")
    assert ids(second) == [keys[2], keys[1]]
    last = read(site, "doubly", f"?limit=200&before={second['next']}")
    assert keys[0] in ids(last)
    assert last["next"] is None
    assert read(site, "doubly", f"?before={keys[0]}&limit=200")["data"] == last["data"][1:]


def test_nothing_is_behind_an_id_that_is_not_ones_own(site: Site) -> None:
    older, theirs = made(site, "doubly"), made(site, "all")
    assert older in ids(read(site, "doubly", f"?before={made(site, 'doubly')}"))
    for before in (theirs, f"dec_{27 * 'f'}"):
        assert read(site, "doubly", f"?before={before}") == {"data": [], "next": None}


BAD: Final = {
    "limit=0": "limit", "limit=-1": "limit", "limit=201": "limit", "limit=ten": "limit", "limit=": "limit",
    "limit=1.5": "limit", "limit=%D9%A3": "limit", "limit=1&limit=2": "limit", "limit=" + 5000 * "9": "limit",
    "before=x": "before", "before=": "before", "session=": "session", "session=%20": "session",
    "limt=5": None, "a=1&b=2&c=3&d=4": None,
}  # fmt: skip


@pytest.mark.parametrize("query", BAD, ids=lambda query: query[:20])
def test_a_bad_parameter_is_named(site: Site, query: str) -> None:
    refused = assert_refused(site.get(f"{PATH}?{query}", [bearer("all")]), "invalid_body")
    assert refused["param"] == BAD[query]
    assert BAD[query] is None or BAD[query] in refused["message"]


@pytest.mark.parametrize("name", ["work", "a b+c&d=é/%41", "x" * 3000])
def test_a_session_is_found_by_its_name_and_kept_as_a_digest(site: Site, name: str) -> None:
    here = made(site, "all", saying=[("x-narrows-session", name)])
    made(site, "all", saying=[("x-narrows-session", f"{name}2")])
    made(site, "all")
    theirs = made(site, "bound", saying=[("x-narrows-session", name)])
    asked = quote(name, safe="", encoding="latin-1")
    found = read(site, "all", f"?session={asked}&limit=200")
    assert here in ids(found)
    assert {row["session"] for row in found["data"]} == {read(site, "all", f"/{here}")["session"]}
    assert ids(read(site, "bound", f"?session={asked}")) == [theirs]
    told = [read(site, who, f"/{key}")["session"] for who, key in (("all", here), ("bound", theirs))]
    assert told[0] != told[1]
    assert all(len(digest) == 32 and name not in digest for digest in told)


def test_no_session_is_none(site: Site) -> None:
    for saying in ([], [("x-narrows-session", "")]):
        assert read(site, "all", f"/{made(site, 'all', saying=saying)}")["session"] is None


def test_a_target_that_is_not_granted_any_more_is_not_there(site: Site) -> None:
    """Everywhere a target is named, and in every sum."""
    site.provider.script("us-1", Answer(500))
    key = made(site, "trusted", "wide", [("tier", "plain"), ("x-region", "us")])
    before = read(site, "trusted", f"/{key}")
    assert [row["target"] for row in before["attempts"]] == ["ohio"]
    assert {row["target"] for row in before["excluded"]} == {"paris", "third"}
    assert before["blocked_fallback"] is True
    regrant(site, "trusted", targets=frozenset({"paris"}))
    after = read(site, "trusted", f"/{key}")
    assert after.keys() == before.keys()
    assert "ohio" not in str(after)
    assert "third" not in str(after)
    assert [row["target"] for row in after["excluded"]] == ["paris"]
    assert (after["order"], after["attempts"], after["cost_micro_usd"]) == ([], [], 0)
    assert after["blocked_fallback"] is False
    assert (list(after["labels"]), list(after["facts"])) == (["paris"], ["paris"])
    assert read(site, "trusted")["data"][0] == after
    regrant(site, "trusted", targets=None)
    assert read(site, "trusted", f"/{key}") == before


def test_a_route_that_is_not_granted_any_more_is_not_named(site: Site) -> None:
    key = made(site, "all", "wide")
    for grants in ({"routes": frozenset({"chat"})}, {"providers": frozenset[str]()}):
        regrant(site, "all", **grants)
        assert read(site, "all", f"/{key}")["route"] is None
        regrant(site, "all", routes=None, providers=None)
    assert read(site, "all", f"/{key}")["route"] == "wide"


def test_a_target_that_is_not_configured_any_more_is_there_for_who_may_use_all(site: Site) -> None:
    key = made(site, "all")
    snapshot = site.gateway.snapshot
    gone = {name: target for name, target in snapshot.targets.items() if name != "paris"}
    site.gateway.snapshot = replace(snapshot, targets=gone)
    assert read(site, "all", f"/{key}")["order"] == ["paris", "ohio"]
    regrant(site, "all", providers=frozenset({"vendor", "second"}))
    assert read(site, "all", f"/{key}")["order"] == ["ohio"]


def test_what_a_ranker_says_names_no_hidden_target(site: Site) -> None:
    document = site.probe.of(made(site, "all")).document()
    document["rank"] = {
        "algorithm": "x",
        "reason": "drawn",
        "signals": {"ohio": 1, "first": "ohio", "paris": 2, "n": 3},
    }
    regrant(site, "all", targets=frozenset({"paris"}))
    snapshot = site.gateway.snapshot
    told = granted(document, snapshot, snapshot.callers["all"].principal)
    assert told["rank"] == {"algorithm": "x", "reason": "drawn", "signals": {"paris": 2, "n": 3}}


def test_a_key_that_is_not_known_is_left_out(site: Site) -> None:
    document = site.probe.of(made(site, "all")).document()
    snapshot = site.gateway.snapshot
    assert "later" not in granted({**document, "later": ["ohio"]}, snapshot, snapshot.callers["all"].principal)


def test_every_key_of_a_decision_is_known_to_the_filter(site: Site) -> None:
    """A new one must be looked at before callers see it: it may name a target."""
    document = site.probe.of(made(site, "all")).document()
    assert document.keys() == {
        *AS_IT_IS,
        *BY_TARGET,
        *ROWS,
        "route",
        "order",
        "rank",
        "cost_micro_usd",
        "blocked_fallback",
    }


class Broken:
    """A store that raises whenever it is asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def decisions(self, query: Query) -> Page:
        raise self.error

    def decision(self, key: str) -> Document | None:
        raise self.error

    def policy(self, digest: str) -> str | None:
        raise self.error

    def gaps(self, since: float | None = None) -> tuple[Gap, ...]:
        raise self.error


@pytest.mark.parametrize("error", [LedgerUnavailable("locked"), RuntimeError("CANARY of a third party")])
def test_a_store_that_cannot_be_read_is_said_so(site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    key = made(site, "all")
    monkeypatch.setattr(Recorders, "reader", property(lambda _: Broken(error)))
    for rest in ("", f"/{key}"):
        refused = assert_refused(site.get(PATH + rest, [bearer("all")]), "ledger_unavailable")
        assert "CANARY" not in str(refused)
    assert site.send(chat(), (JSON, bearer("all"))).status_code == 200  # requests are served as before
    monkeypatch.undo()
    assert read(site, "all", f"/{key}")["id"] == key
