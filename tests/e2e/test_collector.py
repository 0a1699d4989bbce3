"""`narrows serve` → a collector that somebody else wrote → a sink of ours: the whole tree is read back.

And a collector that is down or silent: requests are answered, and a stop ends, as if there were none.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from narrows.testing import RecordingProvider, Refuse
from tests.e2e.support import CHAT, PROMPT, chat, plain_client
from tests.support.otlp import Seen, no_rotel, rotel, sink
from tests.support.process import narrows_process
from tests.support.servers import HOST, free_port

pytestmark = pytest.mark.timeout(120)

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
KEY = "sk-canary-3b1f"
STAGES = ("authenticate", "read", "resolve", "oblige", "authorize", "budget", "narrow", "hold", "rank")
SERVER, CLIENT, INTERNAL = 2, 3, 1
TEXT = """
[telemetry]
detail = "stages"
exporter = "otlp"

[attributes.region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"

[providers.acme]
kind = "openai_compatible"
base_url = "{url}"
api_key_env = "ACME_KEY"
max_retries = 0

[targets.down]
provider = "acme"
model = "down-1"
region = "eu"

[targets.eu]
provider = "acme"
model = "eu-1"
region = "eu"
price = { input = 1.0, output = 2.0 }

[targets.us]
provider = "acme"
model = "us-1"
region = "us"

[routes.chat]
targets = ["down", "eu", "us"]
constraints = ["residency"]

[routes.american]
targets = ["us"]
constraints = ["residency"]
"""


@pytest.fixture
def file(provider: RecordingProvider, tmp_path: Path) -> Path:
    path = tmp_path / "narrows.toml"
    path.write_text(TEXT.replace("{url}", provider.base_url), "utf-8")
    return path


def only(spans: list[Seen], **said: object) -> Seen:
    """The one span of which this is true."""
    (found,) = [span for span in spans if all(getattr(span, name) == value for name, value in said.items())]
    return found


def test_the_tree_is_read_back_behind_a_collector(file: Path, provider: RecordingProvider) -> None:
    missing = no_rotel()
    if missing is not None:
        pytest.skip(missing)
    provider.script("down-1", Refuse())
    with sink() as behind, rotel(behind) as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_BSP_SCHEDULE_DELAY": "50", "ACME_KEY": KEY}
        with narrows_process(file, env=env) as served, plain_client(served.url) as client:
            said = {"x-region": "eu", "traceparent": f"00-{TRACE}-{CALLER}-01"}
            answer = client.post(CHAT, json=chat("chat"), headers=said)
            refused = client.post(CHAT, json=chat("american"), headers={"x-region": "eu"})
        spans = behind.wait(lambda spans: {"chat chat", "chat american"} <= {span.name for span in spans})
    assert (answer.status_code, refused.status_code) == (200, 403)
    mine = [span for span in spans if span.trace == TRACE]
    request, first, second = (only(mine, name=name) for name in ("chat chat", "chat down-1", "chat eu-1"))
    calls = [only(mine, name="POST", parent=attempt.id) for attempt in (first, second)]
    stages = [only(mine, name=name) for name in STAGES]
    # nothing else: above all no span of the exporter's own calls
    assert len(mine) == len([request, first, second, *calls, *stages])
    assert (request.parent, request.kind) == (CALLER, SERVER)
    assert {span.parent for span in (first, second, *stages)} == {request.id}
    assert {span.kind for span in (first, second, *calls)} == {CLIENT}
    assert {span.kind for span in stages} == {INTERNAL}
    assert {span.resource["service.name"] for span in spans} == {"narrows"}
    policy = answer.headers["x-narrows-policy"]
    assert request.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "chat",
        "narrows.decision.id": answer.headers["x-narrows-decision"], "narrows.policy": policy,
        "narrows.route": "chat", "narrows.outcome": "answered", "narrows.code": "ok",
        "narrows.targets.offered": ["down", "eu", "us"], "narrows.targets.eligible": ["down", "eu"],
        "narrows.order": ["down", "eu"],
    }  # fmt: skip
    excluded = {"narrows.constraint": "residency", "narrows.code": "attribute_mismatch", "narrows.targets": ["us"]}
    assert request.events == [("narrows.exclusion", excluded)]
    assert (first.attributes["error.type"], first.error, first.message) == ("server_error", True, "")
    assert second.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai_compatible", "gen_ai.request.model": "eu-1",
        "gen_ai.response.model": "eu-1", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 5,
        "narrows.target": "eu", "narrows.attempt": 2, "narrows.cost_micro_usd": 17,
    }  # fmt: skip
    assert [call.error for call in calls] == [True, False]
    assert calls[1].attributes["http.response.status_code"] == 200
    (sent,) = [call.header("traceparent") for call in provider.calls if call.model == "eu-1"]
    assert sent is not None
    assert sent.startswith(f"00-{TRACE}-{calls[1].id}-")
    denied = only(spans, name="chat american")
    assert (denied.attributes["narrows.code"], denied.parent) == ("no_eligible_target", "")
    assert only(spans, name="narrow", trace=denied.trace).attributes == {"narrows.code": "no_eligible_target"}
    for canary in (PROMPT, KEY, "hello"):
        assert not any(canary.encode() in body for body in behind.bodies)


@contextmanager
def closed() -> Iterator[str]:
    """Where nobody listens."""
    yield f"http://{HOST}:{free_port()}"


@contextmanager
def silent() -> Iterator[str]:
    """Who takes every connection, and never answers."""
    with closing(socket.create_server((HOST, 0), backlog=64)) as listener:
        yield f"http://{HOST}:{listener.getsockname()[1]}"


@pytest.mark.parametrize("broken", [closed, silent])
def test_a_broken_collector_costs_a_request_nothing(
    file: Path, provider: RecordingProvider, broken: Callable[[], AbstractContextManager[str]]
) -> None:
    """Also when the queue of spans is full: what does not fit is dropped."""
    with broken() as collector:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "OTEL_BSP_MAX_QUEUE_SIZE": "32",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "16",
            "ACME_KEY": KEY,
        }
        with narrows_process(file, env=env) as served, plain_client(served.url) as client:
            # the client waits 5 s for an answer, and one export is given up after 10
            answers = [client.post(CHAT, json=chat("chat")) for _ in range(20)]
            assert served.terminate() == 0  # within its 10 s; the library alone would wait for 30
    assert [answer.status_code for answer in answers] == [200] * 20
    assert provider.count() == 20
    ours = [line for line in served.stderr.splitlines() if " INFO decision=" not in line]
    assert 1 <= sum("collector" in line for line in ours) <= 2
    assert "Traceback" not in served.stderr
    assert len(ours) <= 10
    assert not any(word in served.stderr for word in (PROMPT, KEY, "eu-1"))
