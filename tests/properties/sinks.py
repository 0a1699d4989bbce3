"""A gateway with everything planted in it, and everything that it writes anywhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import pytest

from narrows import Attempt, Block, Decision, Gateway, Inbound, Provider, Reply, RouteExhausted, hookimpl
from narrows.cli.logs import Human, Structured
from narrows.ledger import Query
from narrows.testing import Answer, RecordingProvider, Script
from tests.properties.canaries import ENVIRONMENT, HASHES, HEADERS, KEYS, canary, found
from tests.surface.spans import Spans
from tests.surface.support import CHAT, EXPLAIN, JSON, chat
from tests.surface.world import KINDS, WORLD

Headers = Sequence[tuple[str, str]]

MORE: Final = f"""
[keys.mine]
sha256 = "{HASHES["mine"]}"

[keys.other]
sha256 = "{HASHES["other"]}"

[constraints.team]
kind = "attribute_match"
request_attribute = "x-team"
target_attribute = "team"

[providers.keyed]
kind = "keyed"
base_url = "{{url}}"
max_retries = 0
timeout_secs = 0.15

[targets.keyed]
provider = "keyed"
model = "keyed-1"

[targets.teamed]
provider = "vendor"
model = "team-1"
labels = {{ team = "a" }}

[routes.keyed]
targets = ["keyed"]

[routes.team]
targets = ["teamed", "keyed_too"]
constraints = ["team"]

[targets.keyed_too]
provider = "keyed"
model = "keyed-1"
labels = {{ team = "b" }}

[plugins.kept]
kind = "kept"

[sinks.ledger]
kind = "sql"
url = "sqlite:///{{ledger}}"

[telemetry]
detail = "{{detail}}"
"""


class Keyed(Provider):
    """A vendor that takes its key in the query, as some do."""

    base_url: str

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send it there."""
        key = quote(ENVIRONMENT["CANARY_QUERY_KEY"], safe="")
        return await attempt.send(f"/chat/completions?key={key}", attempt.headers, attempt.body)


def keeping(kept: list[Decision]) -> type[Block]:
    """The plugin that is handed every decision."""

    class Kept(Block):
        """Keeps them."""

        @hookimpl
        def record(self, decision: Decision) -> None:
            kept.append(decision)

    return Kept


class Written(logging.Handler):
    """What a logger is told, in every form in which it may be written: the command line's two, and the plain one of a
    host, which prints exceptions with their texts."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._forms = (Human(), Structured(), logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [form.format(record) for form in self._forms]


@contextmanager
def written() -> Iterator[Written]:
    """Everything that the gateway's loggers are told, from DEBUG on."""
    handler, logger = Written(), logging.getLogger("narrows")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


@dataclass(frozen=True)
class Got:
    """An answer as its caller has it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """All of it."""
        return f"{dict(self.headers)} {self.body.decode('latin-1')}"


@dataclass
class Rig:
    """One gateway that runs, and its sinks. `routes`: whose vendor has its key in a header, and in the query, or the
    other way round."""

    gateway: Gateway
    provider: RecordingProvider
    ledger: Path
    spans: Spans
    log: Written
    kept: list[Decision] = field(default_factory=list)
    routes: tuple[str, str] = ("chat", "keyed")

    async def send(
        self,
        body: bytes = b"",
        headers: Headers = (),
        *,
        method: str = "POST",
        path: str = CHAT,
        query: str = "",
        leave: bool = False,
    ) -> Got:
        """One request. `leave`: at the first chunk of its answer."""

        async def read() -> AsyncIterator[bytes]:
            yield body

        chunks: list[bytes] = []
        inbound = Inbound(method, path, tuple(headers), "127.0.0.1", query=query)
        async with self.gateway.answer(inbound, read) as reply:
            async for chunk in reply.chunks:
                chunks.append(chunk)
                if leave:
                    break
        return Got(reply.status, dict(reply.headers), b"".join(chunks))

    async def ask(self, model: str = "chat", *, saying: Headers = HEADERS, leave: bool = False, **more: object) -> Got:
        """A chat request of the caller `mine`."""
        return await self.send(chat(model, **more), (JSON, bearer("mine"), *saying), leave=leave)

    def script(self, script: Script) -> None:
        """What every model answers from now on."""
        for target in self.gateway.snapshot.targets.values():
            self.provider.script(target.model, script)

    async def others(self) -> list[str]:
        """Everything that another caller, and who scrapes, can get now."""
        self.script(Answer())
        key = bearer("other")
        paths = ("models", "decisions", f"decisions/{self.kept[0].id}", "nothing")
        got = [await self.send(headers=[key], method="GET", path=f"/v1/{path}") for path in paths]
        got += [await self.send(headers=[key], method="GET", path=path) for path in ("/metrics", "/health/ready")]
        got += [
            await self.send(chat(model), (JSON, key), path=path) for model in ("chat", "x") for path in (CHAT, EXPLAIN)
        ]
        return [one.text for one in got]

    async def sinks(self) -> dict[str, set[str]]:
        """What is found in each sink now."""
        with anyio.fail_after(20):
            while self.gateway.engine.recorders.queued:  # noqa: ASYNC110 - its writer's thread has no event for us
                await anyio.sleep(0.02)
        texts: dict[str, list[str]] = {
            "ledger": [file.read_bytes().decode("latin-1") for file in self.ledger.parent.iterdir()],
            "log": self.log.lines,
            "spans": [span.to_json() for span in self.spans.all()],
            "metrics": [(await self.send(method="GET", path="/metrics")).text],
            "decisions": [repr(one) + str(one) + str(one.document()) for one in self.kept],
            "exceptions": [raised(one) for one in self.kept],
            "objects": [repr(one) + str(one) for one in self._objects()],
            "other callers": await self.others(),
        }
        return {name: set().union(*map(found, lines)) if lines else set() for name, lines in texts.items()}

    def _objects(self) -> Sequence[object]:
        gateway = self.gateway
        inbound = Inbound(canary("m"), f"/{canary('path')}", HEADERS, canary("peer"), canary("user"), canary("query"))
        reader = gateway.engine.recorders.reader
        return (
            gateway, gateway.loaded, gateway.loaded.canonical, gateway.snapshot, gateway.engine, reader, gateway.warnings,
            reader.decisions(Query()), reader.policy(gateway.policy), reader.gaps(), *gateway.loaded.blocks, inbound,
        )  # fmt: skip


def raised(decision: Decision) -> str:
    """The exception of a refused decision, in every form."""
    try:
        decision.require()
    except RouteExhausted as error:
        return f"{error!r} {error} {vars(error)}"
    return ""


def bearer(who: str) -> tuple[str, str]:
    """The header with that caller's key."""
    return ("authorization", f"Bearer {KEYS[who]}")


@asynccontextmanager
async def rigged(folder: Path, detail: str = "plugins", routes: str = "") -> AsyncIterator[Rig]:
    """Run it. The ledger's file stands in a folder of its own."""
    ledger = folder / "ledger" / "narrows.db"
    ledger.parent.mkdir()
    spans, kept = Spans(), list[Decision]()
    vendor = '[providers.vendor]\nkind = "openai_compatible"'
    assert WORLD.count(vendor) == 1
    text = WORLD.replace(vendor, f'{vendor}\ntimeout_secs = 0.3\napi_key_env = "CANARY_KEY"') + MORE + routes
    with pytest.MonkeyPatch.context() as patch, RecordingProvider() as provider, written() as log:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        for old, new in (("{url}", provider.base_url), ("{ledger}", str(ledger)), ("{detail}", detail)):
            text = text.replace(old, new)
        kinds: dict[str, Any] = {**KINDS, "providers.keyed": Keyed, "plugins.kept": keeping(kept)}
        gateway = Gateway.from_text(text, kinds=kinds, tracer_provider=spans.provider)
        async with gateway:
            yield Rig(gateway, provider, ledger, spans, log, kept)
        stopped = set().union(*(found(file.read_bytes()) for file in ledger.parent.iterdir()))
        assert stopped <= {"attribute"}


Leak = Callable[[Rig], object]
"""A way for a canary into a sink, for the tests that prove that it would be found."""
LEAKED: Final = canary("leak")
