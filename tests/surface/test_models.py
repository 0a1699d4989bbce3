"""`GET /v1/models` lists what a caller may see, and what it may not see does not exist for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.surface.keyring import CALLERS, KEYRING, bearer
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, Site, Way, assert_refused, chat, opened

IDS = re.compile(rb'"decision":"dec_[0-9a-f]+"')


@pytest.fixture(scope="module")
def keyed(way: Way) -> Iterator[Site]:
    with opened(way, KEYRING, open_access=False) as site:
        yield site


@pytest.fixture(name="site")
def _site(keyed: Site) -> Site:
    keyed.clear()
    return keyed


def listed(site: Site, who: str) -> list[str]:
    response = site.get(MODELS, [bearer(who)])
    assert response.status_code == 200
    document = response.json()
    assert document.keys() == {"object", "data"}
    assert document["object"] == "list"
    for row in document["data"]:
        assert row == {"id": row["id"], "object": "model", "created": 0, "owned_by": "narrows"}
    return [row["id"] for row in document["data"]]


@pytest.mark.parametrize("who", CALLERS)
def test_only_visible_routes_are_listed_and_each_of_them_works(site: Site, who: str) -> None:
    visible = listed(site, who)
    assert visible == CALLERS[who].routes
    for route in site.gateway.snapshot.routes:
        site.provider.clear()
        response = site.send(chat(route), (JSON, bearer(who)))
        if route in visible and (who, route) != ("doubly", "wide"):
            assert (response.status_code, site.provider.count()) == (200, 1), response.text
        elif route in visible:
            assert_refused(response, "no_eligible_target")
        else:
            assert_refused(response, "field_refused" if ":" in route else "unknown_model")
            assert site.provider.calls == []


def test_nobody_gets_no_list(site: Site) -> None:
    assert_refused(site.get(MODELS), "unauthenticated")
    assert_refused(site.get(MODELS, [("authorization", "Bearer nrw_wrong")]), "unauthenticated")
    head = site.get(MODELS, method="HEAD")
    assert (head.status_code, head.content) == (401, b"")


def bare(response: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """An answer without what differs from one request to the next."""
    headers = {k: v for k, v in response.headers.items() if k not in ("x-narrows-decision", "date")}
    return response.status_code, IDS.sub(b"", response.content), headers


# A route that the key does not name, one of targets or of a provider that it may not use, one that ends like a suffix.
NOBODYS = {
    "unnamed": ("narrow", "wide"),
    "targets": ("one_target", "american"),
    "provider": ("one_provider", "other"),
    "suffix": ("one_target", "american:free"),
}


@pytest.mark.parametrize(("who", "route"), NOBODYS.values(), ids=NOBODYS)
@pytest.mark.parametrize("path", [CHAT, EXPLAIN], ids=["live", "explain"])
def test_a_route_that_is_not_granted_does_not_exist(site: Site, who: str, route: str, path: str) -> None:
    assert route in site.gateway.snapshot.routes
    missing = route[:-1] + "x" if ":" not in route else "x" + route[1:]
    assert missing not in site.gateway.snapshot.routes
    assert len(missing) == len(route)
    hidden = site.send(chat(route), (JSON, bearer(who)), path=path)
    absent = site.send(chat(missing), (JSON, bearer(who)), path=path)
    status, body, headers = bare(hidden)
    assert (status, body.replace(route.encode(), missing.encode()), headers) == bare(absent)
    assert status == (200 if path == EXPLAIN else 400 if ":" in route else 404)
    assert site.provider.calls == []
    assert site.send(chat(route), (JSON, bearer("all"))).status_code == 200
    assert site.provider.count() == 1


def test_the_record_of_both_is_alike(site: Site) -> None:
    """Not even the log tells them apart by the route's name."""
    for model in ("wide", "wildly"):
        response = site.send(chat(model), (JSON, bearer("narrow")))
        decision = site.decision(response)
        assert (decision.route, decision.code, decision.labels, decision.excluded) == (None, "unknown_model", {}, ())
        assert " route=other " in site.log.wait(decision.id)
