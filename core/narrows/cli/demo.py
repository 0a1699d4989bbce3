"""`narrows demo`: a gateway to try, on providers that answer in this process. No key, no network, no file.

It prints curl lines to paste, and after each request one line: what was decided, who was ruled out by what, which calls
were made. The configuration is `demo.toml` beside this module, an ordinary one.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

import typer

from narrows.cli.output import problems_of, refuse, say
from narrows.cli.serve import runner
from narrows.errors import ConfigError

if TYPE_CHECKING:
    from narrows.gateway import Gateway

FILE: Final = "demo.toml"
HOST: Final = "127.0.0.1"
NARRATOR: Final = "narrator"


@dataclass(frozen=True, slots=True)
class Scene:
    """One request to try, and what it shows."""

    shows: str
    route: str
    region: str | None = None

    def curl(self, url: str) -> str:
        """The line to paste."""
        said = f" -H 'x-region: {self.region}'" if self.region is not None else ""
        body = json.dumps({"model": self.route, "messages": [{"role": "user", "content": "Hello"}]})
        return f"curl -si {url}/v1/chat/completions -H 'content-type: application/json'{said} -d '{body}'"


FIRST: Final = (
    Scene("Served: the first target of the route, in the US.", "chat"),
    Scene("Moved by the rule: EU data stays in the EU.", "chat", "eu"),
    Scene("Refused, with its reasons: the only private target is in the US.", "vault", "eu"),
)
MORE: Final = (
    Scene("Failover: the first target is busy, the next one answers.", "failover"),
    Scene("The same for EU data: no failover leads out of the rule. 429, and no call to the US.", "failover", "eu"),
    Scene("A provider refuses the content: that stops. The next target is not asked.", "refused"),
)


def demo(
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="Port on 127.0.0.1, 0 for a free one.")
    ] = 8000,
) -> None:
    """Start a gateway to try, with curl lines that work.

    Needs no key, no network and no file.
    """
    run = runner("demo")
    from narrows.cli import listening, logs

    try:
        gateway = narrated()
    except ConfigError as error:
        refuse(problems_of(error))
    sockets = listening.listen(listening.resolved(HOST), port, "demo")
    logs.to_stderr(requests=logging.WARNING)  # the narrator tells more
    url = listening.urls(sockets)[0]
    raise typer.Exit(run(gateway, sockets, lambda: _introduce(gateway, url)))


def narrated() -> Gateway:
    """The demo's gateway, with a sink that tells each decision. Raises ConfigError where its plugins are missing."""
    from narrows.cli.narrator import Narrator
    from narrows.config import loads
    from narrows.gateway import Gateway
    from narrows.registry import Registered, Registry

    registry = Registry({f"plugins.{NARRATOR}": Narrator})
    kind = registry.get("plugins", NARRATOR)
    if kind is None:
        raise RuntimeError("a registry has every kind it is given")
    text = files("narrows.cli").joinpath(FILE).read_text("utf-8")
    loaded = loads(text, registry, os.environ, FILE)
    narrator = Narrator()
    entry = Registered(NARRATOR, f"plugins.{NARRATOR}", kind, narrator)
    gateway = Gateway(replace(loaded, blocks=(*loaded.blocks, entry)), open_access=True, standalone=True)
    narrator.watch(gateway.snapshot)
    return gateway


def _introduce(gateway: Gateway, url: str) -> None:
    for line in _introduction(gateway.policy, url, str(files("narrows.cli").joinpath(FILE))):
        say(line)


def _introduction(policy: str, url: str, file: str) -> Iterator[str]:
    yield f"narrows demo on {url} (this machine only; no key, no network). Stop it with Ctrl-C."
    yield f"Its configuration: {file}"
    yield f"policy {policy}"
    yield "Paste these into another terminal:"
    for number, scene in enumerate((*FIRST, *MORE), start=1):
        if number == len(FIRST) + 1:
            yield ""
            yield "And when a provider fails:"
        yield ""
        yield f"{number}. {scene.shows}"
        yield scene.curl(url)
    yield ""
    yield "Every request is told here:"
