"""Guarantees about what is sent: what was judged, to the model that the core chose, or nothing."""

from __future__ import annotations

import json

from narrows import FailureClass
from narrows.dialects.refused import REFUSED, SUFFIXES
from tests.equivalence.bench import Bench
from tests.equivalence.gates import PROMPT, chat
from tests.equivalence.upstreams import MODEL, Plan

PATHS = (
    "/",
    "/v1",
    "/chat/completions",
    "/v1/chat/completions/",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/files",
    "/v1/responses",
    "/v1/messages",
    "/V1/chat/completions",
)
UNREADABLE = (
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"model": "chat"}',
    b'{"model": ["chat"], "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "chat", "messages": "x"}',
    b'{"model": "chat", "messages": [{"role": "user", "content": NaN}]}',
    b'{"model": "chat", "messages": [{"role": "user", "content": "\xff"}]}',
    b'\xef\xbb\xbf{"model": "chat", "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "chat", "stream": "true", "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "chat", "Messages": [], "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "chat", "messages": ' + b"[" * 1000 + b"]" * 1000 + b"}",
)


async def no_pass_through(bench: Bench) -> None:
    """A path that the gateway does not know is answered by it and reaches nobody."""
    async with bench.gateway({"chat": Plan()}) as gate:
        for path in PATHS:
            assert (await gate.ask(path=path)).refused == (404, "not_found")
        assert gate.taken() == {}
        assert (await gate.ask()).status == 200
        assert gate.taken() == {"chat": 1}


async def unreadable_body(bench: Bench) -> None:
    """A body that cannot be judged is not sent."""
    async with bench.gateway({"a": Plan()}, server={"max_body_bytes": 100_000}) as gate:
        for raw in UNREADABLE:
            assert (await gate.ask(raw=raw)).refused == (400, "invalid_body")
        assert (await gate.ask(raw=b" " * 100_001)).refused == (413, "body_too_large")
        for headers in ({"content-type": "text/plain"}, {"content-encoding": "gzip"}):
            assert (await gate.ask("chat", headers)).refused == (415, "unsupported_media_type")
        assert gate.taken() == {}
        assert (await gate.ask()).status == 200
        assert gate.taken() == {"a": 1}


async def refused_field(bench: Bench) -> None:
    """A field that would choose or change the upstream outside the gateway never leaves, nor does a model name that ends
    in a routing suffix. Fields that do neither pass."""
    async with bench.gateway(
        {"a": Plan()}, routes={"chat": {"targets": ["a"]}, "own:free": {"targets": ["a"]}}
    ) as gate:
        for field in REFUSED:
            for stream in (False, True):
                told = await gate.ask(stream=stream, more={field: "canary"})
                assert told.refused == (400, "field_refused")
                assert told.json["error"]["param"] == field
            assert (await gate.ask(more={field.swapcase(): "canary"})).status == 400
        for suffix in SUFFIXES:
            assert (await gate.ask(f"chat:{suffix}")).refused == (400, "field_refused")
        assert gate.taken() == {}
        assert (await gate.ask(seed=7, reasoning_effort="high", logit_bias={"50256": -100})).status == 200
        assert (await gate.ask("own:free")).status == 200  # an operator's own name may end so
        assert gate.taken() == {"a": 2}
        fields = bench.upstreams.handed("a")[0].fields
        assert (fields["seed"], fields["reasoning_effort"], fields["logit_bias"]) == (7, "high", {"50256": -100})


async def model(bench: Bench) -> None:
    """An upstream is asked for the model of the target that was chosen, on every attempt, and never for what the caller
    wrote."""
    async with bench.gateway({"bad": Plan(fails=FailureClass.SERVER_ERROR), "good": Plan()}) as gate:
        for stream in (False, True):
            assert (await gate.ask(stream=stream)).target == "good"
        twice = b'{"model": "gpt-of-my-choice", ' + json.dumps(chat("chat")).encode()[1:]
        assert (await gate.ask(raw=twice)).target == "good"
        assert gate.taken() == {"bad": 6, "good": 3}
        for name in ("bad", "good"):
            for handed in bench.upstreams.handed(name):
                assert handed.fields["model"] == MODEL + name
                assert handed.body.count(b'"model"') == 1
                assert b"gpt-of-my-choice" not in handed.body
        assert (await gate.ask("gpt-of-my-choice")).refused == (404, "unknown_model")
        assert gate.taken() == {}


async def judged_is_sent(bench: Bench) -> None:
    """Of a key that stands twice the value that was judged is the only one that is sent; an operator's own fields stand
    above the caller's; what no rule reads keeps its bytes."""
    own = {"store": False, "user": "from-the-operator"}
    async with bench.gateway({"a": Plan({"extra_body": own, "capabilities": {"vision": False}}), "b": Plan()}) as gate:
        image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
        hidden = json.dumps([{"role": "user", "content": image}]).encode()
        plain = json.dumps([{"role": "user", "content": PROMPT}]).encode()
        rest = b', "store": true, "user": "me", "temperature": 0.70}'
        first = b'{"model": "chat", "messages": ' + hidden + b', "messages": ' + plain + rest
        assert (await gate.ask(raw=first)).target == "a"  # judged without the image, and sent without it
        assert gate.taken() == {"a": 1}
        (handed,) = bench.upstreams.handed("a")
        assert handed.body.count(b'"messages"') == 1
        assert b"image_url" not in handed.body
        assert handed.fields["messages"] == [{"role": "user", "content": PROMPT}]
        assert (handed.fields["store"], handed.fields["user"]) == (False, "from-the-operator")
        assert b"0.70" in handed.body

        last = b'{"model": "chat", "messages": ' + plain + b', "messages": ' + hidden + rest
        assert (await gate.ask(raw=last)).target == "b"  # the control: the same bytes the other way round
        assert gate.taken() == {"b": 1}
        assert b"image_url" in bench.upstreams.handed("b")[0].body
