"""Everything that can come about, driven: each answer of an upstream, each refusal, each bad body, key, path and header."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from narrows.testing import Stall, Stream
from tests.properties.canaries import ATTRIBUTE, EVENTS, FOREIGN, HEADERS, KEYS, UPSTREAM, canary, filled
from tests.properties.sinks import Got, Rig, bearer
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, chat
from tests.surface.test_errors import MET


async def upstreams(rig: Rig) -> AsyncIterator[tuple[str, Got]]:
    """Each answer of an upstream, streamed and not, with its key in a header and in the query: one way round on asyncio,
    the other on trio."""
    for name, script in UPSTREAM.items():
        for stream, route in zip((False, True), rig.routes, strict=True):
            rig.script(script)
            yield name, await rig.ask(route, stream=stream, **filled())
    rig.script(Stream(EVENTS, delay=0.01))
    yield "left", await rig.ask("chat", stream=True, leave=True, **filled())
    yield "left late", await rig.ask("keyed", stream=True, leave=True, **filled())


async def refusals(rig: Rig) -> AsyncIterator[tuple[str, Got]]:
    """Each refusal of ours, live and explained."""
    rig.script(UPSTREAM["answered"])
    for met in MET:
        if met.script is not None:
            rig.script(Stall() if isinstance(met.script, Stall) else UPSTREAM["class authentication"])
        body = chat(met.model, **{**filled(), **met.more})
        kept = [row for row in HEADERS if row[0] not in dict(met.saying)]
        for path in dict.fromkeys((met.path, EXPLAIN)):
            media = () if "content-type" in dict(met.saying) else (JSON,)
            headers = (*media, bearer("mine"), *met.saying, *kept)
            yield met.code, await rig.send(body, headers, method=met.method, path=path, query=f"q={canary('query')}")
    rig.script(UPSTREAM["answered"])


BAD: Final[dict[str, Any]] = {
    "a model": {"model": canary("model")},
    "a suffix": {"model": f"chat:{canary('suffix')}"},
    "a server's tool": {"tools": [{"type": canary("server-tool")}]},
    "metadata": {"metadata": {"tier": canary("tier"), canary("metadata-key"): 1}},
    "metadata of a kind": {"metadata": canary("metadata-text")},
    "models": {"models": [canary("models")]},
    "a provider": {"provider": {"order": [canary("order")]}},
    "n": {"n": canary("n")},
    "max_tokens": {"max_tokens": canary("max-tokens")},
    "messages": {"messages": canary("messages")},
    "a role": {"messages": [{"role": canary("role"), "content": canary("content")}]},
    "an image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": canary("url")}}]}]},
    "a part": {"messages": [{"role": "user", "content": [{"type": canary("part-type"), canary("part-key"): 1}]}]},
    "case": {"Messages": canary("case")},
}  # fmt: skip


async def callers(rig: Rig) -> AsyncIterator[tuple[str, Got]]:
    """Bad bodies, wrong keys, wrong paths, methods and headers, and an attribute of the caller's own."""
    rig.script(UPSTREAM["answered"])
    for name, more in BAD.items():
        for path in (CHAT, EXPLAIN):
            yield name, await rig.send(chat(**{**filled(), **more}), (JSON, bearer("mine"), *HEADERS), path=path)
    whole = chat(**filled())
    for body in (whole[:-1], canary("no-json").encode(), b'{"' + canary("key").encode() + b'":', b"[" + whole + b"]"):
        yield "no body", await rig.send(body, (JSON, bearer("mine"), *HEADERS))
    keys = [("x-api-key", FOREIGN)], [("x-api-key", FOREIGN), bearer("mine")], [("authorization", f"Basic {FOREIGN}")]
    for wrong in (*keys, [("authorization", FOREIGN)], [("authorization", f"Bearer {FOREIGN} {KEYS['mine']}")]):
        for method, path in (("POST", CHAT), ("POST", EXPLAIN), ("GET", MODELS), ("GET", "/v1/decisions")):
            yield "a wrong key", await rig.send(whole, (JSON, *wrong, *HEADERS), method=method, path=path)
    for method, path in (("POST", f"/v1/{canary('path')}"), (canary("method"), CHAT), ("GET", f"{CHAT}/{KEYS['mine']}"),
                         ("GET", f"/v1/decisions/{canary('id')}"), ("GET", "/v1/decisions")):  # fmt: skip
        query = f"key={KEYS['mine']}&{canary('query-name')}={canary('query-value')}"
        yield "a path", await rig.send(whole, (JSON, bearer("mine"), *HEADERS), method=method, path=path, query=query)
    for name, value in (("content-type", canary("media")), ("content-encoding", canary("coding")),
                        ("content-length", canary("length")), ("x-region", canary("region"))):  # fmt: skip
        yield "a header", await rig.send(whole, (JSON, bearer("mine"), *HEADERS, (name, value)))
    for model in ("team", "chat"):
        yield "an attribute", await rig.ask(model, saying=(*HEADERS, ATTRIBUTE), **filled())
