"""The engine as the property tests ask it: in this process, through the same door as every way in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from narrows import Block, ConfigError, Constraint, Exclusion, Gateway, Inbound, Request, Target
from narrows.config import loads
from narrows.registry import Registry
from narrows_plugins.dispatch.echo import Echo
from tests.support.config import toml

Table = Mapping[str, Any]


class BusinessHours(Constraint[str]):
    """A third party's constraint, as small as one can be."""

    request_attribute: str

    def demands(self, request: Request) -> Iterable[str]:
        return request.attributes.get(self.request_attribute, frozenset())

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        if target.label_set("team") == frozenset({demand}):
            return None
        return Exclusion("off_duty", f"team is not {demand}")


@dataclass(frozen=True)
class Answer:
    """A reply. `target`, `code`: of its headers."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return self.headers.get("x-narrows-code", "ok")

    @property
    def target(self) -> str | None:
        return self.headers.get("x-narrows-target")

    def json(self) -> Any:
        return json.loads(self.body)


@cache
def registry() -> Registry:
    """One for all tests: what is installed, and the third party's kind."""
    return Registry({"constraints.business_hours": BusinessHours})


def load(config: Table) -> Gateway:
    """The gateway of a configuration given as data. Raises ConfigError."""
    targets = {name: {**table, "model": name} for name, table in config["targets"].items()}
    return Gateway(loads(toml({**config, "targets": targets}), registry(), {}))


def of_text(text: str, kinds: Mapping[str, type[Block]] | None = None) -> Gateway:
    """The gateway of a configuration in TOML; without keys everybody may call. Raises ConfigError."""
    return Gateway(loads(text, registry() if kinds is None else Registry(kinds), {}), open_access=True)


def chat(
    *headers: tuple[str, str], key: str | None = None, model: str = "chat", metadata: object = None, **more: object
) -> dict[str, Any]:
    """A request on a route: one short message, these headers and further members of the body."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}
    return {"key": key, "headers": headers, "body": body if metadata is None else {**body, "metadata": metadata}}


def problems(config: Table) -> set[str]:
    """The codes with which it is refused; empty where it loads."""
    try:
        load(config)
    except ConfigError as error:
        return {problem.code for problem in error.problems}
    return set()


async def ask(gateway: Gateway, asked: Table, path: str = "/v1/chat/completions") -> Answer:
    """Send one request and read its answer whole."""
    headers = list(asked["headers"])
    if asked["key"] is not None:
        headers.append(("authorization", f"Bearer {asked['key']}"))
    body = json.dumps(asked["body"]).encode()

    async def read() -> AsyncIterator[bytes]:
        yield body

    async with gateway.answer(Inbound("POST", path, tuple(headers)), read) as reply:
        return Answer(reply.status, dict(reply.headers), b"".join([chunk async for chunk in reply.chunks]))


async def explain(gateway: Gateway, asked: Table) -> Any:
    """The explain document of a request."""
    answer = await ask(gateway, asked, "/v1/explain")
    assert answer.status == 200, answer
    return answer.json()


def calls(gateway: Gateway) -> dict[str, int]:
    """How often each target was called so far: each has a model of its own name, at an echo provider."""
    counts = dict.fromkeys(gateway.snapshot.targets, 0)
    for vendor in gateway.snapshot.vendors.values():
        assert isinstance(vendor.block, Echo)
        for name, target in gateway.snapshot.targets.items():
            if target.provider == vendor.name:
                counts[name] = vendor.block.count(target.model)
    return counts
