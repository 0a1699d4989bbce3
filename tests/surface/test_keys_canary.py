"""Secrets and content are planted in every input, everything that can happen is made to happen, and then they are looked
for: in answers, in logs at DEBUG, in spans, in records, in `repr`, in what the commands print, on stdout and stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from narrows import ContractViolation, Decision, Failure, FailureClass, Inbound, PluginError
from narrows.config import loads
from narrows.dialects.chat import Call, decode
from narrows.errors import ConfigError
from narrows.registry import Registry
from narrows.run import Run
from narrows.testing import Answer, Refuse, Script, Stall, Stream, error_event, failure_answer, stream_events
from narrows_plugins.authenticate.keys import Keys
from tests.core.cli.commands import narrows
from tests.e2e.support import plain_client
from tests.support.process import narrows_process
from tests.surface.keyring import bearer, secret, sha256
from tests.surface.spans import Spans
from tests.surface.support import CHAT, EXPLAIN, JSON, MODELS, PROMPT, Headers, Log, Site, Way, chat, opened
from tests.surface.test_errors import MET
from tests.surface.world import KINDS, RAISED, WORLD

PROVIDERS: Final = "sk-provider-canary-41d7aa"
VENDORS: Final = "VENDOR-canary-a7d2"
"""In every error that the vendor sends."""

CLIENTS: Final = secret("all")
FOREIGN: Final = secret("unknown")

SECRETS: Final = {"client key": CLIENTS, "its hash": sha256("all"), "unknown key": FOREIGN, "provider key": PROVIDERS}
CONTENT: Final = {"prompt": PROMPT, "a plugin's exception": RAISED}
EVERYTHING: Final = {**SECRETS, **CONTENT, "vendor's text": VENDORS}

KEYED: Final = f'\n[keys.all]\nsha256 = "{sha256("all")}"\ntags = ["intern"]\n' + WORLD.replace(
    '[providers.vendor]\nkind = "openai_compatible"',
    '[providers.vendor]\nkind = "openai_compatible"\napi_key_env = "CANARY_KEY"',
)

FILLED: dict[str, object] = {
    "messages": [
        {"role": "system", "content": PROMPT},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}], "name": PROMPT},
        {"role": "assistant", "content": None, "tool_calls": [{"id": PROMPT, "function": {"arguments": PROMPT}}]},
    ],
    "tools": [{"type": "function", "function": {"name": PROMPT, "description": PROMPT}}],
    "metadata": {"note": PROMPT},
    "user": PROMPT,
    "stop": [PROMPT],
    "response_format": {"type": "json_schema", "json_schema": {"name": PROMPT}},
}
SAYING: Headers = [("x-narrows-session", PROMPT), ("cookie", PROMPT), ("x-odd", PROMPT), ("baggage", f"a={PROMPT}"),
                   ("traceparent", PROMPT), ("referer", f"http://host/?q={PROMPT}")]  # fmt: skip


def found(text: str, planted: dict[str, str] = EVERYTHING) -> list[str]:
    """Which of them are in the text."""
    return [name for name, canary in planted.items() if canary in text]


@dataclass
class Rig:
    """One gateway with everything planted, and everything that can be looked at."""

    site: Site
    spans: Spans
    log: Log


@pytest.fixture(scope="module")
def rig(way: Way) -> Iterator[Rig]:
    spans = Spans()
    with pytest.MonkeyPatch.context() as patch, Log("", logging.DEBUG) as log:
        patch.setenv("CANARY_KEY", PROVIDERS)
        with opened(way, KEYED, kinds=KINDS, open_access=False, tracer_provider=spans.provider) as site:
            yield Rig(site, spans, log)


STREAM = stream_events("eu-1")
SCRIPTS: dict[str, Script] = {
    **{f"class {kind}": failure_answer(kind, message=VENDORS) for kind in FailureClass},
    "redirect": Answer(302, VENDORS.encode(), [("location", f"http://127.0.0.1:9/?{VENDORS}")]),
    "html": Answer(200, f"<html>{VENDORS}".encode()),
    "empty": Answer(200, b""),
    "refused": Refuse(),
    "reset": Refuse(reset=True),
    "stalled": Stall(),
    "an error in the stream": Stream((*STREAM[:2], error_event(FailureClass.SERVER_ERROR, message=VENDORS))),
    "a key in the stream": Stream((*STREAM[:2], error_event(FailureClass.AUTHENTICATION, message=VENDORS))),
    "an error first": Stream((error_event(FailureClass.SERVER_ERROR, message=VENDORS),)),
    "cut": Stream((*STREAM[:2], b'data: {"error": {"message": "' + VENDORS.encode()), cut_at=len(b"".join(STREAM[:2])) + 40),
    "large": Answer(500, f'{{"error":{{"message":"{VENDORS * 6000}"}}}}'.encode()),
    "headers": Answer(503, {"error": {"message": VENDORS}}, [("x-vendor", VENDORS), ("server", VENDORS)]),
}  # fmt: skip

PASSED: Final = {"server_error", "rate_limited", "timeout", "content_policy", "context_length", "invalid_request"}


def drive(site: Site) -> Iterator[tuple[str, httpx.Response]]:
    """Every outcome, by name."""
    for stream in (False, True):
        yield "served", site.send(chat(stream=stream, **FILLED), (JSON, bearer("all"), *SAYING))
        for name, script in SCRIPTS.items():
            for model in ("eu-1", "us-1", "hasty-1"):
                site.provider.script(model, script)
            route = "hasty" if script == Stall() else "chat"
            yield name, site.send(chat(route, stream=stream, **FILLED), (JSON, bearer("all"), *SAYING))
        for model in ("eu-1", "us-1", "hasty-1"):
            site.provider.script(model, Answer())
    for met in MET:
        if not met.calls and met.method == "POST" and not any(name == "content-type" for name, _ in met.saying):
            for path in dict.fromkeys((met.path, EXPLAIN)):
                body = chat(met.model, **{**FILLED, **met.more})
                yield met.code, site.send(body, (JSON, bearer("all"), *SAYING, *met.saying), path=path)
    for body in (
        PROMPT.encode(),
        chat(**FILLED)[:-2],
        b'{"' + PROMPT.encode() + b'":',
        chat(**{**FILLED, "n": PROMPT}),
    ):
        yield "bad body", site.send(body, (JSON, bearer("all"), *SAYING))
    for saying in (
        [("x-api-key", FOREIGN)],
        [("x-api-key", FOREIGN), bearer("all")],
        [("authorization", f"Basic {FOREIGN}")],
        [("authorization", f"Bearer {FOREIGN}")],
        [],
    ):
        yield "unknown", site.send(chat(**FILLED), (JSON, *saying))
        yield "unknown", site.get(MODELS, saying)
    yield "a path", site.send(chat(**FILLED), (JSON, bearer("all")), path=f"/v1/{PROMPT}/{CLIENTS}?key={CLIENTS}")
    yield "a method", site.send(b"", (JSON, bearer("all")), method="DELETE", path=f"{CHAT}?key={CLIENTS}")
    yield "models", site.get(MODELS, [bearer("all"), *SAYING])


def test_nothing_planted_is_found(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    site = rig.site
    seen: list[Decision] = []
    passed = set()
    for name, response in drive(site):
        headers = str(response.headers.multi_items())
        assert found(headers) == [], name
        allowed = vendors_words(response)
        passed |= {name} if VENDORS in response.text else set()
        planted = {**SECRETS, **CONTENT} if allowed else EVERYTHING
        assert found(response.text, planted) == [], (name, response.text)
        if response.request.url.path == CHAT and response.request.method == "POST":
            seen.append(site.decision(response))
    assert passed == {f"class {kind}" for kind in PASSED} | {"an error in the stream", "an error first", "headers"}
    for decision in seen:
        assert found(repr(decision) + json.dumps(decision.document())) == []
    assert {decision.outcome for decision in seen} == {"answered", "refused", "upstream_error", "upstream_incomplete"}
    assert any(PROMPT.encode() in call.body for call in site.provider.calls)  # it was all there
    assert {call.header("authorization") for call in site.provider.calls} >= {f"Bearer {PROVIDERS}"}
    assert any(" DEBUG " in line for line in rig.log.lines)
    for line in filter(ours, rig.log.lines):
        assert found(line) == [], line
    spans = rig.spans.all()
    assert len(spans) >= len(seen)
    for span in spans:
        assert found(span.to_json()) == []
    written = capfd.readouterr()
    assert found(written.out + written.err) == []
    assert [
        call for call in site.provider.calls if found(str(call.headers) + call.path, {"k": CLIENTS, "h": sha256("all")})
    ] == []


def vendors_words(response: httpx.Response) -> bool:
    """May the vendor's own text be in it? INTERFACES: a passed-on error keeps its body, `x-narrows-class` says what it
    is; and an error event inside a stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return True
    return response.headers.get("x-narrows-class") in PASSED and "x-should-retry" not in response.headers


def ours(line: str) -> bool:
    """Is it a line of the gateway's own doing? Not: the test's client, which tells the URL that it calls, and httpcore,
    which at DEBUG tells the header fields of the vendor's answer."""
    vendors = line.startswith("httpcore.http11 DEBUG receive_response_headers.complete") and VENDORS in line
    return not line.startswith("httpx INFO HTTP Request") and not vendors


# ---- repr --------------------------------------------------------------------------------------------------------


def objects(site: Site) -> dict[str, object]:
    """What a debugger, a traceback with locals or a careless log line would show."""
    gateway = site.gateway
    body = chat(**FILLED)
    call = decode(body, None)
    assert isinstance(call, Call)
    inbound = Inbound("POST", CHAT, (JSON, bearer("all"), ("x-api-key", CLIENTS)), "127.0.0.1", None)
    run = Run(gateway.engine, inbound, empty)
    run.call = call
    vendor = gateway.snapshot.vendors["vendor"]
    keys = next(entry.block for entry in gateway.loaded.blocks if isinstance(entry.block, Keys))
    return {
        "gateway": gateway,
        "loaded": gateway.loaded,
        "settings": gateway.loaded.settings,
        "canonical": gateway.loaded.canonical,
        "snapshot": gateway.snapshot,
        "engine": gateway.engine,
        "blocks": gateway.loaded.blocks,
        "block": vendor.block,
        "vendor": vendor,
        "keys": keys,
        "keys' dict": keys.model_dump_json(exclude={"sha256"}),
        "implementations": gateway.snapshot.implementations.of("authenticate"),
        "inbound": inbound,
        "call": call,
        "run": run,
        "failure": Failure("x", status=401, headers={"x": PROVIDERS}, body=VENDORS.encode()),
        "plugin error": PluginError("acts", "narrow", "RuntimeError"),
        "violation": ContractViolation("acts", "narrow", "it returned a list"),
    }


async def empty() -> Any:
    """A body that nobody reads."""
    yield b""


def test_no_repr_holds_a_secret_or_content(rig: Rig) -> None:
    for name, thing in objects(rig.site).items():
        assert found(repr(thing) + str(thing) + f"{thing!r:s}") == [], name


@pytest.mark.parametrize("key", ["sha256", "api_key_env", "key", "token"])
def test_a_key_that_stands_in_a_file_is_not_repeated(key: str) -> None:
    table = "keys.all" if key in ("sha256", "key", "token") else "providers.vendor"
    text = f'[{table}]\n{key} = "{CLIENTS}"\n'
    with pytest.raises(ConfigError) as caught:
        loads(text, Registry(), {})
    error = caught.value
    assert found(str(error) + repr(error) + repr(error.problems)) == []


# ---- the commands, and a process -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("canary")
    plugins = '\n[plugins.acts]\nkind = "acts"\n\n[plugins.purse]\nkind = "purse"\n'
    text = KEYED.replace("{url}", "http://127.0.0.1:9/v1").replace(plugins, "")
    assert "acts" not in text
    (folder / "narrows.toml").write_text(text, "utf-8")
    (folder / "broken.toml").write_text(text + f'\n[keys.other]\nsha256 = "{FOREIGN}"\n', "utf-8")
    (folder / "body.json").write_bytes(chat(**FILLED))
    (folder / "bad.json").write_text(PROMPT, "utf-8")
    return folder


COMMANDS: list[Sequence[str]] = [
    ("check", "narrows.toml"),
    ("check", "broken.toml"),
    ("plugins", "narrows.toml"),
    ("explain", "narrows.toml", "--route", "chat", "--key", "all", "--body", "body.json"),
    ("explain", "narrows.toml", "--route", "american", "--header", "x-region=eu", "--body", "body.json"),
    ("explain", "narrows.toml", "--route", "chat", "--body", "bad.json"),
    ("explain", "narrows.toml", "--route", "chat", "--key", CLIENTS),
    ("explain", "narrows.toml", "--route", "chat", "--header", f"authorization=Bearer {CLIENTS}"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]) + str(len(command)))
def test_no_command_prints_one(folder: Path, command: Sequence[str], as_json: bool) -> None:
    arguments = [str(folder / word) if (folder / word).is_file() else word for word in command]
    ran = narrows(*arguments, *(["--json"] if as_json else []), env={"CANARY_KEY": PROVIDERS})
    assert found(ran.stdout + ran.stderr) == []
    assert ran.stdout + ran.stderr != ""
    if as_json and ran.stdout:
        ran.json()


def test_a_process_writes_none_to_stdout_or_stderr(folder: Path) -> None:
    """The real thing, under `python -O`, with a provider that nobody reaches."""
    with narrows_process(folder / "narrows.toml", env={"CANARY_KEY": PROVIDERS}) as running:
        with plain_client(running.url) as client:
            for saying in ([bearer("all")], [("x-api-key", FOREIGN)], []):
                for body in (
                    chat(**FILLED),
                    chat(**FILLED)[:-3],
                    chat("nobody", **FILLED),
                    chat(**{**FILLED, "models": [PROMPT]}),
                ):
                    for path in (CHAT, EXPLAIN, f"/v1/{PROMPT}?key={CLIENTS}"):
                        response = client.post(path, content=body, headers=[JSON, *saying, *SAYING])
                        assert found(response.text + str(response.headers)) == []
        running.terminate()
        written = running.stdout + running.stderr
    assert "decision=dec_" in written
    assert found(written) == []
