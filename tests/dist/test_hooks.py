"""Each of the eight hooks is asked of a plugin that came in another wheel. Seven show it by what HTTP answers, `record`
by a file. Every answer that a plugin makes stands beside one that it does not make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import httpx

from narrows.testing import Answer, RecordingProvider

Serve = Callable[[Path], AbstractContextManager[httpx.Client]]
CANARY = "canary-7f3a"


def ask(
    gateway: httpx.Client, route: str, caller: str | None = "ci", headers: Mapping[str, str] | None = None
) -> httpx.Response:
    said = {} if caller is None else {"x-probe-caller": caller}
    body = {"model": route, "messages": [{"role": "user", "content": CANARY}], "max_tokens": 6}
    return gateway.post("/v1/chat/completions", json=body, headers={**said, **(headers or {})})


def code(answer: httpx.Response) -> tuple[int, str]:
    """The status and the stable code, which stands in the header and in the body."""
    told: str = answer.json()["error"]["code"]
    assert answer.headers["x-narrows-code"] == told
    return answer.status_code, told


def served(answer: httpx.Response) -> str:
    """The target that answered."""
    assert answer.status_code == 200, answer.text
    return answer.headers["x-narrows-target"]


def test_authenticate(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    refused = [ask(gateway, "chat", None), ask(gateway, "chat", "nobody")]
    assert [code(answer) for answer in refused] == [(401, "unauthenticated")] * 2
    assert upstream.count() == 0
    assert served(ask(gateway, "chat", "ci")) == "hamburg"
    assert upstream.count() == 1


def test_authorize(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    refused = ask(gateway, "chat", "banned")
    assert code(refused) == (403, "forbidden")
    assert "the probe objects" in refused.json()["error"]["message"]
    assert upstream.count() == 0
    assert served(ask(gateway, "chat", "ci")) == "hamburg"


def test_budget(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    # 1 USD a token: an answer of at most 6 tokens is held, one of 5 is charged, and the cap is 10.
    assert served(ask(gateway, "dear", "spender")) == "dear"
    refused = ask(gateway, "dear", "spender")
    assert code(refused) == (402, "budget_exhausted")
    assert refused.json()["error"]["exclusions"] == [{"constraint": "cap", "code": "unaffordable", "count": 1}]
    assert upstream.count() == 1
    assert served(ask(gateway, "dear", "ci")) == "dear"


def test_narrow(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    refused = ask(gateway, "emea", headers={"shift": "late"})
    assert code(refused) == (403, "no_eligible_target")
    off_duty = {"constraint": "duty", "code": "business_hours.off_duty", "count": 1}
    assert refused.json()["error"]["exclusions"] == [off_duty]
    assert upstream.count() == 0
    assert served(ask(gateway, "emea", headers={"shift": "early"})) == "hamburg"
    assert upstream.count("hamburg") == 1


def test_rank(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    assert served(ask(gateway, "backwards")) == "osaka"
    assert served(ask(gateway, "chat")) == "hamburg"
    assert [call.model for call in upstream.calls] == ["osaka", "hamburg"]


def test_dispatch_over_the_network(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    ask(gateway, "backwards")
    ask(gateway, "chat")
    assert [(call.model, call.header("x-probe")) for call in upstream.calls] == [("osaka", "seven"), ("hamburg", None)]


def test_dispatch_in_the_process(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    answer = ask(gateway, "inside")
    assert served(answer) == "here"
    assert answer.json()["choices"][0]["message"]["content"] == "answered by probe_local"
    assert upstream.count() == 0


def failing(upstream: RecordingProvider, status: int, word: str) -> None:
    upstream.script("hamburg", Answer(status, {"error": {"message": "no", "type": word}}), Answer())


def test_classify_error_stops(gateway: httpx.Client, upstream: RecordingProvider) -> None:
    failing(upstream, 503, "probe-refusal")
    stopped = ask(gateway, "chat")
    assert (stopped.status_code, stopped.headers["x-narrows-class"]) == (503, "content_policy")
    assert (upstream.count("hamburg"), upstream.count("osaka")) == (1, 0)
    failing(upstream, 503, "of-another-kind")  # the same status, and nobody says that it is a refusal
    assert served(ask(gateway, "chat")) == "osaka"


def test_classify_error_cannot_make_a_stop_move(gateway: httpx.Client, home: Path, upstream: RecordingProvider) -> None:
    failing(upstream, 418, "probe-busy")
    stopped = ask(gateway, "chat")
    assert (stopped.status_code, stopped.headers["x-narrows-class"]) == (418, "invalid_request")
    assert (upstream.count("hamburg"), upstream.count("osaka")) == (1, 0)
    told = "plugin verdicts called a failure rate_limited that is invalid_request"
    assert (home / "output.txt").read_text("utf-8").count(told) == 1
    failing(upstream, 503, "probe-busy")  # beside a class that moves too, nothing is overruled
    assert served(ask(gateway, "chat")) == "osaka"
    assert (home / "output.txt").read_text("utf-8").count(told) == 1


def test_record_and_the_life_cycle(serve: Serve, tmp_path: Path, upstream: RecordingProvider) -> None:
    kept = tmp_path / "decisions.jsonl"
    with serve(tmp_path) as gateway:
        answers = [
            ask(gateway, "chat"),
            ask(gateway, "emea", headers={"shift": "late"}),
            ask(gateway, "chat", "banned"),
        ]
    rows = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    assert [row["hook"] for row in rows] == ["start", "record", "record", "record", "stop"]
    decisions = {row["decision"]["id"]: row["decision"] for row in rows[1:-1]}
    told = [decisions[answer.headers["x-narrows-decision"]] for answer in answers]
    assert [(row["principal"], row["outcome"], row["code"]) for row in told] == [
        ("ci", "answered", "ok"),
        ("ci", "refused", "no_eligible_target"),
        ("banned", "refused", "forbidden"),
    ]
    assert [attempt["target"] for attempt in told[0]["attempts"]] == ["hamburg"]
    assert [(row["target"], row["constraint"], row["code"]) for row in told[1]["excluded"]] == [
        ("hamburg", "duty", "business_hours.off_duty")
    ]
    assert CANARY not in kept.read_text("utf-8")
    assert CANARY in upstream.calls[0].body.decode()
