"""Who is calling: keys, grants, what is bound to a key, and a gateway that nobody has set up yet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from narrows import Gateway, NarrowsMiddleware, attach, transport
from narrows.server import Application
from narrows.testing import RecordingProvider
from tests.surface.keyring import CALLERS, KEYRING, ROUTES, bearer, secret
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, Headers, Site, Way, assert_refused, chat, opened


@pytest.fixture(scope="module")
def keyed(way: Way) -> Iterator[Site]:
    with opened(way, KEYRING, open_access=False) as site:
        yield site


@pytest.fixture(name="site")
def _site(keyed: Site) -> Site:
    keyed.clear()
    return keyed


def ask(site: Site, who: str, model: str = "chat", saying: Headers = (), path: str = CHAT) -> httpx.Response:
    return site.ask(model, saying=[bearer(who), *saying], path=path)


# ---- credentials -------------------------------------------------------------------------------------------------

GOOD = {
    "bearer": [("authorization", f"Bearer {secret('all')}")],
    "lower case": [("authorization", f"bearer {secret('all')}")],
    "more space": [("authorization", f"Bearer    {secret('all')}")],
    "x-api-key": [("x-api-key", secret("all"))],
    "the same in both": [("authorization", f"Bearer {secret('all')}"), ("x-api-key", secret("all"))],
    "the same twice": [("x-api-key", secret("all")), ("x-api-key", secret("all"))],
    "beside a cookie": [("cookie", "session=x"), ("x-api-key", secret("all"))],
}
BAD = {
    "none": [],
    "unknown": [("authorization", "Bearer nrw_unknown")],
    "unknown in x-api-key": [("x-api-key", "nrw_unknown")],
    "two different": [("authorization", f"Bearer {secret('all')}"), ("x-api-key", secret("narrow"))],
    "a good and an unknown": [("authorization", f"Bearer {secret('all')}"), ("x-api-key", "nrw_unknown")],
    "an unknown and a good": [("x-api-key", "nrw_unknown"), ("authorization", f"Bearer {secret('all')}")],
    "two bearers": [("authorization", f"Bearer {secret('all')}"), ("authorization", f"Bearer {secret('narrow')}")],
    "two x-api-keys": [("x-api-key", secret("all")), ("x-api-key", secret("narrow"))],
    "basic": [("authorization", "Basic YWxsOmFsbA==")],
    "basic beside a good one": [("authorization", "Basic YWxsOmFsbA=="), ("x-api-key", secret("all"))],
    "no scheme": [("authorization", secret("all"))],
    "empty": [("authorization", "Bearer ")],
    "an empty x-api-key": [("x-api-key", "")],
    "another case": [("x-api-key", secret("all").upper())],
    "a name": [("x-api-key", "all")],
    "in a query": [("x-goog-api-key", secret("all"))],
    "as a cookie": [("cookie", f"authorization=Bearer {secret('all')}")],
    "as a proxy's": [("proxy-authorization", f"Bearer {secret('all')}")],
    "latin-1": [("x-api-key", "nrw_\xe9\xff")],
}


@pytest.mark.parametrize("saying", GOOD.values(), ids=GOOD)
def test_a_key_is_known(site: Site, saying: Headers) -> None:
    assert site.ask(saying=saying).status_code == 200
    assert site.provider.count() == 1
    assert site.explain(saying=saying)["principal"] == "all"


@pytest.mark.parametrize("saying", BAD.values(), ids=BAD)
def test_anything_else_is_401_everywhere(site: Site, saying: Headers) -> None:
    saying = [(name, value.rstrip()) for name, value in saying]
    response = site.ask(saying=saying)
    error = assert_refused(response, "unauthenticated")
    assert response.status_code == 401
    assert (error["type"], error["exclusions"]) == ("authentication_error", [])
    assert_refused(site.get(MODELS, saying), "unauthenticated")
    explained = site.explain(saying=saying)
    assert (explained["code"], explained["principal"], explained["targets"]) == ("unauthenticated", None, [])
    assert site.provider.calls == []
    decision = site.decision(response)
    assert (decision.principal, decision.route, decision.code) == (None, None, "unauthenticated")
    for name in ("health/live", "health/ready"):
        assert site.get(f"/{name}").status_code == 200
    assert ask(site, "all").status_code == 200
    assert site.provider.count() == 1


def test_the_key_is_asked_before_the_body_is_read(site: Site) -> None:
    """Nobody learns from us how a body has to look, and a body that is too large is not even counted."""
    for body in (b"", b"\xff", chat(stream="true"), chat(models=["x"])):
        assert_refused(site.send(body), "unauthenticated")
    assert_refused(site.send(chat(), [("content-type", "text/plain")]), "unauthenticated")
    assert site.provider.calls == []


def test_a_key_in_the_query_or_the_body_is_none(site: Site) -> None:
    assert_refused(site.ask(path=f"{CHAT}?key={secret('all')}&api_key={secret('all')}"), "unauthenticated")
    assert_refused(site.ask(user=secret("all")), "unauthenticated")
    assert site.provider.calls == []


# ---- grants ------------------------------------------------------------------------------------------------------


def test_what_is_not_granted_is_not_counted_and_not_named(site: Site) -> None:
    """`wide` has three targets; each caller is told of its own alone, in every answer there is."""
    every = {"ohio", "paris", "third"}
    seen = {"all": every, "one_target": {"paris"}, "one_provider": {"ohio", "paris"}, "both": {"third"}}
    for who, granted in seen.items():
        for saying in ([], [("x-region", "us")], [("x-region", "eu, us")]):
            response = ask(site, who, "wide", saying)
            explained = ask(site, who, "wide", saying, EXPLAIN)
            assert {row["target"] for row in explained.json()["targets"]} == granted
            if response.status_code != 200:
                error = response.json()["error"]
                assert sum(row["count"] for row in error["exclusions"]) == len(granted)
                assert f"0 of {len(granted)} targets" in error["message"]
            told = response.text + explained.text + str(response.headers)
            assert not [name for name in every - granted if name in told]
            decision = site.decision(response)
            assert decision.labels.keys() == granted
            assert {row.target for row in decision.excluded} <= granted
            assert {*decision.order} <= granted


@pytest.mark.parametrize("who", ["one_target", "one_provider", "both"])
def test_failover_stays_inside_the_grants(site: Site, who: str) -> None:
    from narrows.testing import Answer

    for target in site.gateway.snapshot.targets.values():
        site.provider.script(target.model, Answer(503))
    assert ask(site, who, "wide").status_code == 503
    allowed = {"one_target": {"eu-1"}, "one_provider": {"us-1", "eu-1"}, "both": {"third-1"}}[who]
    assert {call.model for call in site.provider.calls} <= allowed
    site.provider.clear()
    assert ask(site, "all", "other").status_code == 503
    assert site.provider.count("third-1") == 1


# ---- what is bound to a key --------------------------------------------------------------------------------------


def test_a_tenants_attribute_is_bound_to_its_keys(site: Site) -> None:
    explained = ask(site, "bound", "wide", path=EXPLAIN).json()
    assert explained["attributes"]["region"] == {"values": ["eu"], "sources": ["tenant"], "assumed": False}
    assert ask(site, "bound", "wide").headers["x-narrows-target"] == "paris"
    assert [call.model for call in site.provider.calls] == ["eu-1"]


def test_what_a_caller_says_comes_on_top_and_never_instead(site: Site) -> None:
    saying = [("x-region", "us")]
    explained = ask(site, "bound", "wide", saying, EXPLAIN).json()
    assert explained["attributes"]["region"] == {
        "values": ["eu", "us"],
        "sources": ["header", "tenant"],
        "assumed": False,
    }
    assert_refused(ask(site, "bound", "wide", saying), "no_eligible_target")
    assert site.provider.calls == []


def test_key_and_tenant_speak_together(site: Site) -> None:
    explained = ask(site, "doubly", "wide", path=EXPLAIN).json()
    assert explained["attributes"]["region"] == {"values": ["eu", "us"], "sources": ["key", "tenant"], "assumed": False}
    assert_refused(ask(site, "doubly", "wide"), "no_eligible_target")
    assert site.provider.calls == []


def test_a_value_that_leaves_more_than_silence_has_to_be_granted(site: Site) -> None:
    plain = [("tier", "plain")]
    error = assert_refused(ask(site, "all", "wide", plain), "attribute_forbidden")
    assert error["param"] == "tier"
    assert "may_say" in error["message"]
    assert site.provider.calls == []
    assert ask(site, "all", "wide", [("tier", "gold")]).headers["x-narrows-target"] == "paris"
    assert ask(site, "all", "wide").headers["x-narrows-target"] == "paris"  # silence is the floor
    assert ask(site, "trusted", "wide", plain).headers["x-narrows-target"] == "ohio"
    assert [call.model for call in site.provider.calls] == ["eu-1", "eu-1", "us-1"]


# ---- in-process, outside of a request ----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_named_principal_needs_no_key_and_ignores_one(provider: RecordingProvider) -> None:
    gateway = Gateway.from_text(KEYRING.replace("{url}", provider.base_url))
    async with gateway:
        for key in ({}, {"authorization": f"Bearer {secret('all')}"}, {"authorization": "Bearer nonsense"}):
            async with client(gateway, "one_target") as inside:
                assert (await inside.post(EXPLAIN, content=chat(), headers=dict((JSON, *key.items())))).json()[
                    "principal"
                ] == "one_target"
                models = (await inside.get(MODELS, headers=key)).json()["data"]
                assert [row["id"] for row in models] == CALLERS["one_target"].routes
        async with client(gateway, "nobody") as inside:
            assert_refused(await inside.post(CHAT, content=chat(), headers=dict((JSON,))), "unauthenticated")
    assert provider.calls == []


def client(gateway: Gateway, principal: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport(gateway, principal), base_url="http://narrows")


# ---- a gateway that nobody has set up ----------------------------------------------------------------------------

OPEN = '[auth]\nmode = "open"\n'


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["", OPEN], ids=["unset", "open"])
async def test_without_keys_a_mount_must_say_open(provider: RecordingProvider, mode: str) -> None:
    text = mode + without_tenants(ROUTES).replace("{url}", provider.base_url)
    async with Gateway.from_text(text) as gateway, client(gateway) as outside:
        for saying in ({}, {"authorization": "Bearer anything"}, {"x-api-key": "-"}):
            response = await outside.post(CHAT, content=chat(), headers={**dict((JSON,)), **saying})
            models = await outside.get(MODELS, headers=saying)
            explained = (await outside.post(EXPLAIN, content=chat(), headers={**dict((JSON,)), **saying})).json()
            if mode:
                assert (response.status_code, models.status_code) == (200, 200)
                assert explained["principal"] == "anonymous"
            else:
                error = assert_refused(response, "auth_unset")
                assert (response.status_code, "[auth] mode" in error["message"]) == (503, True)
                assert_refused(models, "auth_unset")
                assert (explained["status"], explained["code"]) == (503, "auth_unset")
                assert provider.calls == []
        ready = await outside.get("/health/ready")  # nobody may call, so nothing can be served
        assert (ready.status_code, ready.headers.get("x-narrows-code")) == (
            (200, None) if mode else (503, "auth_unset")
        )
    assert provider.count() == (3 if mode else 0)


@pytest.mark.anyio
async def test_open_mode_with_keys_knows_who_has_one(provider: RecordingProvider) -> None:
    text = OPEN + KEYRING.replace("{url}", provider.base_url)
    async with Gateway.from_text(text) as gateway, client(gateway) as outside:

        async def principal(*saying: tuple[str, str]) -> Any:
            return (await outside.post(EXPLAIN, content=chat(), headers=[JSON, *saying])).json()["principal"]

        assert await principal() == "anonymous"
        assert await principal(bearer("narrow")) == "narrow"
        assert await principal(("x-api-key", "nrw_unknown")) is None  # a bad credential is not the same as none


def without_tenants(text: str) -> str:
    return text.replace('[tenants.payments]\nattributes = { region = "eu" }\n', "")


@pytest.mark.anyio
async def test_before_it_has_started_it_is_temporarily_away(provider: RecordingProvider) -> None:
    gateway = Gateway.from_text(KEYRING.replace("{url}", provider.base_url))
    async with client(gateway) as outside:
        for who in ("all", "nobody"):
            for method, path in (("POST", CHAT), ("POST", EXPLAIN), ("GET", MODELS), ("GET", "/health/ready")):
                response = await outside.request(method, path, content=chat(), headers=[JSON, bearer(who)])
                error = assert_refused(response, "not_started")
                assert response.status_code == 503
                assert int(response.headers["retry-after"]) >= 1
                assert "attach" in error["message"]
        assert (await outside.get("/health/live")).status_code == 200
        assert (await outside.get("/nothing")).status_code == 404
        assert (await outside.get(CHAT)).status_code == 405
        assert provider.connections == 0
        async with gateway:
            assert (await outside.post(CHAT, content=chat(), headers=[JSON, bearer("all")])).status_code == 200
        assert_refused(await outside.post(CHAT, content=chat(), headers=[JSON, bearer("all")]), "not_started")
    assert provider.count() == 1


@pytest.mark.anyio
async def test_a_mount_by_hand_is_not_started(provider: RecordingProvider) -> None:
    gateway = Gateway.from_text(OPEN + without_tenants(ROUTES).replace("{url}", provider.base_url))
    host = Starlette(routes=[Mount("/llm", Application(gateway))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://host") as outside:
        assert_refused(await outside.post(f"/llm{CHAT}", content=chat(), headers=[JSON]), "not_started")
    assert provider.connections == 0


# ---- the host's own callers --------------------------------------------------------------------------------------

HOST = '[auth]\nmode = "host"\n\n[keys.alice]\nroutes = ["chat"]\ntargets = ["ohio"]\n'


class Cookies(AuthenticationBackend):
    """The host's authentication: a cookie names the user. A bad one is the host's to refuse."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        user = conn.cookies.get("user")
        if user == "bad":
            raise AuthenticationError("this cookie is not ours")
        return None if user is None else (AuthCredentials(["authenticated"]), SimpleUser(user))


class Named(SimpleUser):
    """A user with an identity, as an application has them."""

    @property
    def identity(self) -> str:
        return self.username


async def forward(request: Request) -> JSONResponse:
    """The host's own handler asks the gateway, with a credential of its own that must not count."""
    async with httpx.AsyncClient(transport=request.state.narrows.transport, base_url="http://narrows") as inner:
        answer = await inner.post(
            EXPLAIN, content=await request.body(), headers=[JSON, ("authorization", f"Bearer {secret('all')}")]
        )
    return JSONResponse(answer.json())


@asynccontextmanager
async def hosted(gateway: Gateway, way: str) -> AsyncIterator[httpx.AsyncClient]:
    """A Starlette application with that authentication around the gateway."""
    authentication = Middleware(AuthenticationMiddleware, backend=Cookies())
    app = Starlette(routes=[Route("/forward", forward, methods=["POST"])], middleware=[authentication])
    if way == "attach":
        attach(app, "/llm", gateway)
    else:
        app = Starlette(
            routes=app.routes, middleware=[authentication, Middleware(NarrowsMiddleware, gateway=gateway, path="/llm")]
        )
    async with gateway, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://host") as outside:
        yield outside


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["attach", "middleware"])
async def test_host_mode_takes_the_hosts_user(provider: RecordingProvider, way: str) -> None:
    gateway = Gateway.from_text(HOST + without_tenants(ROUTES).replace("{url}", provider.base_url))

    async with hosted(gateway, way) as outside:

        async def post(path: str, user: str | None, *saying: tuple[str, str]) -> httpx.Response:
            cookie = [] if user is None else [("cookie", f"user={user}")]
            return await outside.post(path, content=chat(), headers=[JSON, *cookie, *saying])

        nobody = await post(f"/llm{CHAT}", None)
        assert_refused(nobody, "unauthenticated")
        assert_refused(await post(f"/llm{CHAT}", None, bearer("all")), "unauthenticated")
        assert (await post(f"/llm{CHAT}", "bad")).status_code == 400  # the host's own answer
        assert provider.calls == []

        served = await post(f"/llm{CHAT}", "alice")
        assert (served.status_code, served.headers["x-narrows-target"]) == (200, "ohio")
        assert [call.model for call in provider.calls] == ["us-1"]
        assert provider.calls[0].header("cookie") is None

        listed = await outside.get(f"/llm{MODELS}", headers=[("cookie", "user=alice")])
        assert [row["id"] for row in listed.json()["data"]] == ["chat"]
        bob = (await post(f"/llm{EXPLAIN}", "bob")).json()  # no key's block: no key's grants
        assert (bob["principal"], [row["target"] for row in bob["targets"]]) == ("bob", ["paris", "ohio"])

        inner = (await post("/forward", "alice")).json()
        assert (inner["principal"], inner["order"]) == ("alice", ["ohio"])
        assert (await post("/forward", None)).json()["code"] == "unauthenticated"


@pytest.mark.anyio
async def test_host_mode_without_a_host(provider: RecordingProvider) -> None:
    gateway = Gateway.from_text(HOST + without_tenants(ROUTES).replace("{url}", provider.base_url))
    async with gateway, client(gateway) as outside:
        error = assert_refused(
            await outside.post(CHAT, content=chat(), headers=[JSON, bearer("all")]), "unauthenticated"
        )
        assert "authentication middleware" in error["message"]
    assert provider.calls == []
