"""A gateway under test: built from configuration, asked in process, watched at its upstreams."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from narrows import Block, Decision, Gateway, hookimpl, transport
from tests.equivalence.upstreams import MODEL, Plan, Upstreams
from tests.support.config import Table, toml

CHAT = "/v1/chat/completions"
PROMPT = "PROMPT-canary-77d1"
ALICE, BOB, CAROL = "nrw_alice_canary_5d20", "nrw_bob_canary_8e11", "nrw_carol_canary_0c4f"
"""The keys of three callers."""


def keys(*, alice: Table | None = None, bob: Table | None = None, carol: Table | None = None) -> dict[str, object]:
    """`[keys]` of the three, each with what is granted to it."""
    callers = (("alice", ALICE, alice), ("bob", BOB, bob), ("carol", CAROL, carol))
    return {
        name: {"sha256": hashlib.sha256(key.encode()).hexdigest(), **(grants or {})} for name, key, grants in callers
    }


@dataclass(frozen=True, slots=True)
class Told:
    """What the caller got. `code`: our stable code, or "ok"."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return self.headers.get("x-narrows-code", "ok")

    @property
    def refused(self) -> tuple[int, str]:
        return self.status, self.code

    @property
    def target(self) -> str | None:
        return self.headers.get("x-narrows-target")

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gate:
    """One gateway that runs. `decisions`: what it recorded, in order."""

    def __init__(self, gateway: Gateway, upstreams: Iterable[Upstreams], decisions: list[Decision]) -> None:
        self.gateway, self.decisions = gateway, decisions
        self._upstreams = tuple(upstreams)
        self._names = {target.model: target.name for target in gateway.snapshot.targets.values()}
        self._taken: Counter[str] = Counter()
        self._client = httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows")

    async def ask(
        self,
        route: str = "chat",
        headers: Mapping[str, str] | None = None,
        /,
        *,
        key: str | None = None,
        path: str = CHAT,
        raw: bytes | None = None,
        more: Mapping[str, object] | None = None,
        **body: object,
    ) -> Told:
        """One request, its answer read to the end. `body`, `more`: members beside model and messages; `raw`: the whole
        body instead."""
        content = json.dumps(chat(route, **body, **(more or {}))).encode() if raw is None else raw
        answer = await self._client.post(path, content=content, headers=_headers(headers, key))
        return Told(answer.status_code, answer.headers, answer.content)

    @asynccontextmanager
    async def streaming(self, route: str = "chat") -> AsyncIterator[AsyncIterator[bytes]]:
        """A streamed answer, chunk by chunk; leaving the block leaves it."""
        asked = self._client.stream("POST", CHAT, json=chat(route, stream=True))
        async with asked as answer:
            yield answer.aiter_raw()

    def taken(self) -> dict[str, int]:
        """The calls since this was asked last, by target: {} is silence at every upstream."""
        now: Counter[str] = Counter()
        for upstreams in self._upstreams:
            now += upstreams.tally()
        new, self._taken = now - self._taken, now
        return {self._names.get(model, model): count for model, count in new.items()}

    @property
    def calls(self) -> int:
        """How many calls there were at all."""
        return sum(upstreams.tally().total() for upstreams in self._upstreams)

    async def aclose(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def opened(
    targets: Mapping[str, tuple[Upstreams, Plan]], document: Table, kinds: Mapping[str, type[Block]]
) -> AsyncIterator[Gate]:
    """Run a gateway over these targets. `document`: everything but providers and targets; without `routes` there is one,
    `chat`, over all of them; without `keys` everybody may call. `kinds`: plugins of the test's own."""
    decisions: list[Decision] = []

    class Keeping(Block):
        """Keeps the decisions."""

        @hookimpl
        def record(self, decision: Decision) -> None:
            decisions.append(decision)

    plugins = document.get("plugins", {})
    assert isinstance(plugins, Mapping)
    whole: dict[str, object] = {"routes": {"chat": {"targets": list(targets)}}, **document}
    if "keys" not in document:
        whole["auth"] = {"mode": "open", **_table(document, "auth")}
    whole["plugins"] = {**_table(document, "plugins"), "keeping": {"kind": "keeping"}}
    whole["providers"] = {f"of_{name}": upstreams.block(name, plan) for name, (upstreams, plan) in targets.items()}
    whole["targets"] = {
        name: {"provider": f"of_{name}", "model": MODEL + name, **plan.keys} for name, (_, plan) in targets.items()
    }
    gateway = Gateway.from_text(toml(whole), kinds={**kinds, "plugins.keeping": Keeping})
    every = {id(upstreams): upstreams for upstreams, _ in targets.values()}.values()
    for upstreams in every:
        upstreams.bind(gateway)
    async with gateway:
        gate = Gate(gateway, every, decisions)
        try:
            yield gate
        finally:
            await gate.aclose()


def chat(route: str, /, **body: object) -> dict[str, object]:
    """The body of a request."""
    return {"model": route, "messages": [{"role": "user", "content": PROMPT}], **body}


def _table(document: Table, name: str) -> Table:
    table = document.get(name, {})
    assert isinstance(table, Mapping)
    return table


def _headers(headers: Mapping[str, str] | None, key: str | None) -> dict[str, str]:
    credential = {} if key is None else {"authorization": f"Bearer {key}"}
    return {"content-type": "application/json", **credential, **(headers or {})}
