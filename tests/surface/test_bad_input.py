"""Bad input, behind every way in: refused with its code, zero upstream calls, one log line without content."""

from __future__ import annotations

import gzip
import http.client
import json
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from narrows import Inbound
from narrows.dialects.chat import decode
from narrows.dialects.refused import REFUSED, SUFFIXES
from narrows.types import Denial
from tests.surface.support import (
    CHAT,
    EXPLAIN,
    JSON,
    MODELS,
    PROMPT,
    Content,
    Headers,
    Inside,
    Site,
    Socket,
    assert_refused,
    chat,
)
from tests.surface.world import MOST

HI = {"role": "user", "content": PROMPT}
TOOL = {"type": "function", "function": {"name": "add"}}


@dataclass(frozen=True)
class Bad:
    """One request that is refused. `param`, `says`: what the error names."""

    name: str
    content: Content
    code: str = "invalid_body"
    param: str | None = None
    says: str = ""
    headers: Headers = (JSON,)


def deep(levels: int) -> bytes:
    """A body with a member that is nested so deep, between others that are in order."""
    return chat(extra=b"[" * levels + b"]" * levels)


BODIES = [
    Bad("invalid UTF-8", chat()[:-1] + b',"user":"\xff"}', says="UTF-8"),
    Bad("an overlong UTF-8 slash", chat()[:-1] + b',"user":"\xc0\xaf"}', says="UTF-8"),
    Bad("UTF-16", chat().decode().encode("utf-16"), says="UTF-8"),
    Bad("a byte-order mark", b"\xef\xbb\xbf" + chat(), says="byte-order mark"),
    Bad("NaN", chat(temperature=b"NaN"), says="not JSON"),
    Bad("Infinity", chat(temperature=b"-Infinity"), says="not JSON"),
    Bad("NaN inside", chat(logit_bias=b'{"5":NaN}'), says="not JSON"),
    Bad("a number that no number holds, where it is read", chat(n=b"1e400"), param="n"),
    Bad("1,000 levels", deep(1000), says="nested deeper than 128"),
    Bad("1,000 levels that never end", chat(extra=b"[" * 1000), says="nested deeper than 128"),
    Bad("1,000 objects", chat(extra=b'{"a":' * 1000 + b"1" + b"}" * 1000), says="nested deeper than 128"),
    Bad("1,000 levels in a message", chat(messages=[HI])[:-2] + b"," + b"[" * 1000 + b"]" * 1000 + b"]}"),
    Bad("empty", b"", says="not JSON"),
    Bad("space", b" \n", says="not JSON"),
    Bad("half of it", chat()[: len(chat()) // 2], says="not JSON"),
    Bad("two bodies", chat() + chat(), says="not JSON"),
    Bad("a trailing comma", chat()[:-1] + b",}", says="not JSON"),
    Bad("a list", b"[" + chat() + b"]", says="not a JSON object"),
    Bad("a string", json.dumps(PROMPT).encode(), says="not a JSON object"),
    Bad("null", b"null", says="not a JSON object"),
    Bad("a form", b"model=chat&messages=" + PROMPT.encode(), says="not JSON"),
    Bad("no model", json.dumps({"messages": [HI]}).encode(), param="model"),
    Bad("a model that is null", chat(None), param="model"),
    Bad("a model that is a number", chat(7), param="model"),
    Bad("a model that is a list", chat(["chat"]), param="model"),
    Bad("an empty model", chat(""), param="model"),
    Bad("stream as a word", chat(stream="true"), param="stream"),
    Bad("stream as a number", chat(stream=1), param="stream"),
    Bad("no messages", b'{"model":"chat"}', param="messages"),
    Bad("messages as a string", chat(messages=PROMPT), param="messages"),
    Bad("messages as an object", chat(messages=HI), param="messages"),
    Bad("messages that are null", chat(messages=None), param="messages"),
    Bad("no message", chat(messages=[]), param="messages"),
    Bad("messages as numbers", chat(messages=[1, 2]), param="messages[0]"),
    Bad("messages as strings", chat(messages=[PROMPT]), param="messages[0]"),
    Bad("a message without a role", chat(messages=[HI, {"content": PROMPT}]), param="messages[1]"),
    Bad("a role that is a number", chat(messages=[{**HI, "role": 1}]), param="messages[0]"),
    Bad("content as a number", chat(messages=[{**HI, "content": 7}]), param="messages[0].content"),
    Bad("content as an object", chat(messages=[{**HI, "content": {"text": PROMPT}}]), param="messages[0].content"),
    Bad("a part that is a number", chat(messages=[{**HI, "content": [1]}]), param="messages[0].content"),
    Bad("a part's type as a number", chat(messages=[{**HI, "content": [{"type": 1}]}]), param="messages[0].content"),
    Bad("half a surrogate", chat(messages=b'[{"role":"user","content":"\\ud800"}]')),
    Bad("tools as an object", chat(tools=TOOL), param="tools"),
    Bad("a tool that is a string", chat(tools=["add"]), param="tools[0]"),
    Bad("a tool's type as a number", chat(tools=[{"type": 1}]), param="tools[0].type"),
    Bad("another vendor's tool, which has no type", chat(tools=[{"google_search": {}}]), param="tools[0].type"),
    Bad("response_format as a word", chat(response_format="json"), param="response_format"),
    Bad("metadata as a list", chat(metadata=[PROMPT]), param="metadata"),
    Bad("n as a fraction", chat(n=1.5), param="n"),
    Bad("n as true", chat(n=True), param="n"),
    Bad("n beyond all reason", chat(n=10**6), param="n"),
    Bad("max_tokens as a string", chat(max_tokens="9"), param="max_tokens"),
    Bad("max_tokens below nothing", chat(max_tokens=-1), param="max_tokens"),
]

LOOKALIKES = [
    Bad("Model", chat(Model="american"), param="model", says="'Model'"),
    Bad("MODEL alone", json.dumps({"MODEL": "chat", "messages": [HI]}).encode(), param="model"),
    Bad("a space", b'{"model ":"american",' + chat()[1:], param="model"),
    Bad("a long s", '{"ſtream":true,'.encode() + chat()[1:], param="stream"),
    Bad("Messages", chat(Messages=[HI]), param="messages"),
    Bad("Tools", chat(Tools=[{"type": "web_search"}]), param="tools"),
    Bad("in a message", chat(messages=[{**HI, "Content": [{"type": "image_url"}]}]), param="content"),
    Bad("in a part", chat(messages=[{**HI, "content": [{"type": "text", "Image_Url": {}}]}]), param="image_url"),
    Bad("in a tool", chat(tools=[{**TOOL, "Type": "web_search"}]), param="type"),
    Bad("in a format", chat(response_format={"type": "text", "TYPE": "json_schema"}), param="type"),
]

MEDIA = "unsupported_media_type"
TYPES = [
    Bad("text", chat(), MEDIA, "content-type", headers=[("content-type", "text/plain")]),
    Bad(
        "a form's type", chat(), MEDIA, "content-type", headers=[("content-type", "application/x-www-form-urlencoded")]
    ),
    Bad("another JSON", chat(), MEDIA, "content-type", headers=[("content-type", "application/problem+json")]),
    Bad("two types", chat(), MEDIA, "content-type", headers=[JSON, ("content-type", "text/plain")]),
    Bad("gzip", gzip.compress(chat()), MEDIA, "content-encoding", headers=[JSON, ("content-encoding", "gzip")]),
    Bad("gzip that is none", chat(), MEDIA, "content-encoding", headers=[JSON, ("content-encoding", "GZIP")]),
    Bad("a coding list", chat(), MEDIA, "content-encoding", headers=[JSON, ("content-encoding", "identity, br")]),
]

BIG = chat(user="x" * MOST)
SIZES = [
    Bad("declared", BIG, "body_too_large"),
    Bad("one byte", chat() + b" " * (MOST + 1 - len(chat())), "body_too_large"),
    Bad("chunked", [BIG[at : at + 1000] for at in range(0, len(BIG), 1000)], "body_too_large"),
]

ATTRIBUTES = [
    Bad("undeclared", chat(), "attribute_unknown", "x-region", headers=[JSON, ("x-region", "mars")]),
    Bad("one of two", chat(), "attribute_unknown", "x-region", headers=[JSON, ("x-region", "eu, mars")]),
    Bad("an empty one", chat(), "attribute_unknown", "x-region", headers=[JSON, ("x-region", "")]),
    Bad("an empty part", chat(), "attribute_unknown", "x-region", headers=[JSON, ("x-region", "eu,,us")]),
    Bad("over-long", chat(), "attribute_unknown", "x-region", headers=[JSON, ("x-region", "e" * 129)]),
    Bad("in metadata", chat(metadata={"X_Region": "mars"}), "attribute_unknown", "metadata.X_Region"),
    Bad("a number in metadata", chat(metadata={"region": 7}), "attribute_unknown", "metadata.region"),
    Bad("contradicting", chat(), "no_eligible_target", headers=[JSON, ("x-region", "eu"), ("x-region", "us")]),
    Bad("header and body", chat(metadata={"region": "us"}), "no_eligible_target", headers=[JSON, ("x-region", "eu")]),
]

EVERYTHING = [*BODIES, *LOOKALIKES, *TYPES, *SIZES, *ATTRIBUTES]


def assert_quiet(site: Site, decision: str, code: str, status: int) -> None:
    """No call, and one line of the log: it names the code and holds nothing that the caller sent. The same gateway
    serves what is in order."""
    assert site.provider.calls == []
    line = site.log.wait(decision)
    assert f" outcome=refused status={status} code={code} target=- attempts=0 " in line
    assert PROMPT not in line
    site.control()
    assert site.log.count(decision) == 1


@pytest.mark.parametrize("bad", EVERYTHING, ids=lambda bad: bad.name.replace(" ", "-"))
def test_it_is_refused(site: Site, bad: Bad) -> None:
    response = site.send(bad.content, bad.headers)
    found = assert_refused(response, bad.code)
    assert found["param"] == bad.param
    assert bad.says in found["message"]
    assert PROMPT not in response.text
    decision = site.decision(response)
    assert (decision.outcome, decision.code, decision.status) == ("refused", bad.code, response.status_code)
    assert decision.attempts == ()
    assert PROMPT not in repr(decision)
    assert_quiet(site, decision.id, bad.code, response.status_code)


@pytest.mark.parametrize("body", BODIES + LOOKALIKES, ids=lambda bad: bad.name.replace(" ", "-"))
def test_explain_says_the_same(site: Site, body: Bad) -> None:
    document = site.send(body.content, path=EXPLAIN)
    assert document.status_code == 200
    assert (document.json()["outcome"], document.json()["code"]) == ("refused", body.code)
    assert PROMPT not in document.text
    assert site.provider.calls == []


# ---- what is in order --------------------------------------------------------------------------------------------


def test_what_looks_odd_and_is_in_order(site: Site) -> None:
    served = [
        chat(extra=b"[" * 127 + b"]" * 127),
        chat(user="[{" * 1000),
        chat(user='\\"[{' * 500),
        chat(stream=None),
        chat(stream=False),
        chat(messages=[{"role": "assistant", "content": None, "tool_calls": []}, HI]),
        chat(messages=[{**HI, "content": [PROMPT, {"type": "text", "text": PROMPT}]}]),
        chat(tools=[{"function": {"name": "add"}}]),
        chat(tools=[]),
        chat() + b" " * (MOST - len(chat())),
        b"\n\t" + chat() + b"\n",
    ]
    for number, body in enumerate(served, 1):
        response = site.send(body)
        assert response.status_code == 200, (body, response.text)
        assert site.provider.count() == number


def test_content_types_that_mean_json(site: Site) -> None:
    for number, kind in enumerate(["application/json; charset=utf-8", "Application/JSON", "application/json ;x=1"], 1):
        assert site.send(chat(), [("content-type", kind), ("content-encoding", "identity")]).status_code == 200
        assert site.provider.count() == number


@pytest.mark.parametrize("size", [64, 200, 65_536, 200_000])
def test_depth_is_measured_across_slices_and_strings(size: int) -> None:
    filler = b'"' + b"]}" * size + b'\\"' + b"[" * size + b'"'
    ok = chat(extra=b"[" + filler + b"," + b"[" * 125 + filler + b"]" * 125 + b"]")
    bad = chat(extra=b"[" + filler + b"," + b"[" * 128 + filler + b"]" * 128 + b"]")
    assert not isinstance(decode(ok, None), Denial)
    refused = decode(bad, None)
    assert isinstance(refused, Denial)
    assert "nested deeper" in refused.why


# ---- the size cap ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_after_a_body_that_is_too_large_the_connection_is_usable_or_closed(site: Site, chunked: bool) -> None:
    if not isinstance(site, Socket):
        return  # it has no connection; test_it_is_refused has these bodies
    body = chat(user="x" * 1_000_000)
    parts = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    with closing(site.connection()) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # hypercorn waits for no rest; its answer is there anyhow
            connection.request(
                "POST", CHAT, body=parts if chunked else body, headers=dict((JSON,)), encode_chunked=chunked
            )
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, "body_too_large")
        assert site.provider.calls == []
        try:
            connection.request("POST", CHAT, body=chat(), headers=dict((JSON,)))
            answer = connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            pass  # closed, behind the whole answer
        else:
            assert answer.status == 200
            answer.read()
    site.clear()
    site.control()


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-5", "", "0x10", "1e9"])
def test_a_declared_length_that_is_none(site: Site, length: str) -> None:
    if not isinstance(site, Inside):
        return  # a server judges it before us
    headers = (JSON, ("content-length", length))
    status, answered, _ = site.answer(Inbound("POST", CHAT, headers), chat())
    assert (status, answered.get("x-narrows-code")) in [(200, None), (413, "body_too_large")]
    status, answered, _ = site.answer(Inbound("POST", CHAT, headers), BIG)
    assert (status, answered.get("x-narrows-code")) == (413, "body_too_large")


# ---- methods and paths -------------------------------------------------------------------------------------------

ALLOWED = {
    CHAT: "POST",
    EXPLAIN: "POST",
    MODELS: "GET, HEAD",
    "/health/live": "GET, HEAD",
    "/health/ready": "GET, HEAD",
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


@pytest.mark.parametrize("path", ALLOWED)
def test_other_methods_are_405_and_named(site: Site, path: str) -> None:
    for method in [method for method in METHODS if method not in ALLOWED[path].split(", ")]:
        site.clear()
        response = site.send(chat() if method != "HEAD" else b"", method=method, path=path)
        assert (response.status_code, response.headers["allow"]) == (405, ALLOWED[path])
        assert response.headers["x-narrows-code"] == "method_not_allowed"
        assert response.headers["x-should-retry"] == "false"
        if method == "HEAD":
            assert response.content == b""
        else:
            found = assert_refused(response, "method_not_allowed")
            assert ALLOWED[path].replace(", ", " or ") in found["message"]
        assert_quiet(site, response.headers["x-narrows-decision"], "method_not_allowed", 405)


@pytest.mark.parametrize("path", [*ALLOWED, "/v1/nothing"])
def test_head_has_the_head_of_get_and_no_body(site: Site, path: str) -> None:
    head = site.get(path, method="HEAD")
    after = site.get(path)  # on the same connection: a body behind a HEAD would garble it
    assert head.content == b""
    assert head.status_code == after.status_code
    assert after.content != b""
    assert int(head.headers["content-length"]) == len(after.content)
    assert head.headers.keys() == after.headers.keys()
    assert site.provider.calls == []


UNKNOWN = [
    "/",
    "/v1",
    "/v1/",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/completions",
    "/v1/decisionsx",
    "/v1/models/chat",
    "/metrics/",
    "/admin/x",
    "/admin/overrides",
    "/health",
    "/chat/completions",
    "/v1/chat/completions/",
    "/v1/chat/completions/../completions",
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/./v1/chat/completions",
    "/x/../v1/chat/completions",
    "/v1/%2e%2e/v1/chat/completions",
    "/V1/chat/completions",
    "/v1/chat/completions%20",
    "/v1/chat/completions%00",
    "/v1/chat/completions;x=1",
    "/http://127.0.0.1/v1/chat/completions",
    "/v1/chat/complétions".encode().decode("latin-1").replace("Ã©", "%C3%A9"),
]


@pytest.mark.parametrize("path", UNKNOWN)
def test_any_other_path_is_404(site: Site, path: str) -> None:
    status, headers = site.at(path)
    assert (status, headers["x-narrows-code"]) == (404, "not_found")
    assert_quiet(site, headers["x-narrows-decision"], "not_found", 404)


def test_what_says_404_has_the_whole_shape(site: Site) -> None:
    found = assert_refused(site.ask(path="/v1/embeddings"), "not_found")
    assert "embeddings" not in found["message"]
    assert site.decision(site.ask()).outcome == "answered"


def test_only_requests_for_a_model_are_decisions(site: Site) -> None:
    paths = ["/v1/nothing", MODELS, "/health/live", "/health/ready", CHAT]
    others = [site.get(path).headers["x-narrows-decision"] for path in paths]
    others.append(site.explain("american", saying=[("x-region", "eu")])["decision"])
    last = site.decision(site.ask()).id
    assert len({*others, last}) == 7
    assert not {*others} & {decision.id for decision in site.probe.wait(1)}
    site.control()
    assert [site.log.count(decision) for decision in others] == [1, 0, 0, 0, 1, 0]  # refusals are logged all the same


# ---- refused fields ----------------------------------------------------------------------------------------------

SPELLINGS = ["Models", "apiBase", "api-base", "WEB_SEARCH_OPTIONS", "webSearchOptions", " route", "provideroptions"]


@pytest.mark.parametrize("field", [*REFUSED, *SPELLINGS])
def test_a_field_that_routes_outside_is_refused_by_name(site: Site, field: str) -> None:
    found = assert_refused(site.send(chat(**{field: PROMPT})), "field_refused")
    assert found["param"] == field
    assert repr(field) in found["message"]
    assert "configuration" in found["message"]
    assert "`" in found["message"]  # the setting that an operator has instead
    assert PROMPT not in found["message"]
    assert_quiet(site, found["decision"], "field_refused", 400)


def test_the_fields_of_the_issue_are_among_them() -> None:
    named = {"models", "provider", "route", "plugins", "transforms", "fallbacks", "api_base", "web_search_options"}
    assert named <= REFUSED.keys()


def test_null_is_refused_too_and_a_value_is_not_repeated(site: Site) -> None:
    values: list[object] = [None, False, [], {}, {"order": [PROMPT]}]
    for value in values:
        found = assert_refused(site.ask(provider=value), "field_refused")
        assert PROMPT not in found["message"]
    assert site.provider.calls == []
    site.control()


# ---- routing suffixes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [*SUFFIXES, "ONLINE"])
def test_a_routing_suffix_is_refused(site: Site, suffix: str) -> None:
    found = assert_refused(site.ask(f"chat:{suffix}"), "field_refused")
    assert (found["param"], f"':{suffix}'" in found["message"]) == ("model", True)
    assert_quiet(site, found["decision"], "field_refused", 400)


def test_a_route_may_end_in_the_same_text(site: Site) -> None:
    response = site.ask("m:online")
    assert (response.status_code, response.headers["x-narrows-route"]) == (200, "m:online")
    assert [call.model for call in site.provider.calls] == ["eu-1"]
    assert_refused(site.ask("n:online"), "field_refused")


def test_another_colon_is_just_an_unknown_name(site: Site) -> None:
    for model in ("chat:v2", ":online", "chat:", "a:b:c"):
        assert_refused(site.ask(model), "unknown_model")
    assert site.provider.calls == []
    site.control()


# ---- server-side tools -------------------------------------------------------------------------------------------

SEARCH = {"type": "web_search"}


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_preview", "code_interpreter", "mcp", "builtin_function", ""]
)
def test_a_tool_that_the_vendor_runs_is_refused(site: Site, kind: str) -> None:
    found = assert_refused(site.ask(tools=[TOOL, {"type": kind}]), "field_refused")
    assert found["param"] == "tools"
    assert f'"server_tool.{kind}" = true' in found["message"]
    assert_quiet(site, found["decision"], "field_refused", 400)


def test_only_a_target_that_declares_it_is_eligible(site: Site) -> None:
    response = site.ask("search", tools=[SEARCH])
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "searcher")
    assert [call.model for call in site.provider.calls] == ["search-1"]
    explained = site.explain("search", tools=[SEARCH])
    assert [(row["target"], row["eligible"]) for row in explained["targets"]] == [("eu", False), ("searcher", True)]
    assert explained["targets"][0]["exclusions"][0]["code"] == "capability.server_tool.web_search"
    assert site.ask("search").headers["x-narrows-target"] == "eu"
    assert_refused(site.ask("search", tools=[SEARCH, {"type": "mcp"}]), "field_refused")


def test_the_declaring_target_fails_and_no_other_is_called(site: Site) -> None:
    from narrows.testing import Answer

    site.provider.script("search-1", Answer(503))
    response = site.ask("search", tools=[SEARCH])
    assert response.status_code == 503
    assert {call.model for call in site.provider.calls} == {"search-1"}


# ---- what is judged is what is sent ------------------------------------------------------------------------------


def sent(site: Site, body: bytes, headers: Headers = (JSON,)) -> bytes:
    """What arrives upstream."""
    before = site.provider.count()
    response = site.send(body, headers)
    assert response.status_code == 200, response.text
    (call,) = site.provider.calls[before:]
    return call.body


KEPT = [
    b'"temperature":1e400',
    b'"temperature":0.10000000000000000000000000001',
    b'"seed":123456789012345678901234567890',
    b'"user":"\\u00e9\\u2028\\ud83d\\ude00 \\/ \\""',
    b'"logit_bias":{ "5" :\t1.50 , "5":-0.0 }',
    b'"stop":[ "a",\n"b" ]',
    b'"seed":-0',
    b'"extra":{"Model":"x","model":"y","model":"z"}',
    b'"stream_options":{"include_usage" : true}',
    b'"reasoning_effort":"low"',
    b'"max_completion_tokens":17',
    '"user":"é\u2028\U0001f600"'.encode(),
]


@pytest.mark.parametrize("member", KEPT, ids=lambda member: member.decode()[:24].replace(" ", "-"))
def test_every_other_member_keeps_its_bytes(site: Site, member: bytes) -> None:
    assert (
        sent(site, chat()[:-1] + b"," + member + b"}")
        == chat("eu-1").replace(b": ", b":").replace(b", ", b",")[:-1] + b"," + member + b"}"
    )


def test_seed_format_and_effort_arrive_byte_equal(site: Site) -> None:
    form = b'{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}'
    arrived = sent(site, chat(seed=b"7", response_format=form, reasoning_effort=b'"high"'))
    assert arrived.endswith(b',"seed":7,"response_format":' + form + b',"reasoning_effort":"high"}')


TWICE: list[tuple[str, bytes, dict[str, Any]]] = [
    ("the model", b'{"model":"american","model":"chat","messages":[{"role":"user","content":"hi"}]}', {}),
    ("the model, escaped", b'{"m\\u006fdel":"american","model":"chat","messages":[{"role":"user","content":"hi"}]}', {}),
    ("stream", chat(messages=b'[{"role":"user","content":"hi"}]')[:-1] + b',"stream":true,"stream":false}', {"stream": False}),
    ("messages", chat(messages=b'[{"role":"user","content":[{"type":"image_url"}]}]')[:-1]
     + b',"messages":[{"role":"user","content":"hi"}]}', {}),
    ("in a message", chat(messages=b'[{"role":"system","role":"user","content":[{"type":"image_url"}],"content":"hi"}]'), {}),
    ("tools", chat(messages=b'[{"role":"user","content":"hi"}]')[:-1] + b',"tools":[{"type":"web_search"}],"tools":null}', {"tools": None}),
    ("in a tool", chat(messages=b'[{"role":"user","content":"hi"}]')[:-1] + b',"tools":[{"type":"mcp","type":"function","function":{}}]}',
     {"tools": [{"type": "function", "function": {}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "more"), [row[1:] for row in TWICE], ids=[row[0].replace(" ", "-") for row in TWICE])
def test_duplicate_keys_collapse_to_the_one_that_was_judged(site: Site, body: bytes, more: dict[str, Any]) -> None:
    pairs: list[str] = []

    def noted(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.extend(key for key, _ in found)
        return dict(found)

    arrived = json.loads(sent(site, body), object_pairs_hook=noted)
    assert arrived == {"model": "eu-1", "messages": [{"role": "user", "content": "hi"}], **more}
    assert len([key for key in pairs if key in ("model", "messages", "stream", "tools", "role", "content")]) == len(
        {key for key in pairs if key in ("model", "messages", "stream", "tools", "role", "content")}
    )


def test_the_other_one_of_two_is_judged_where_it_is_the_last(site: Site) -> None:
    image = b'[{"role":"user","content":"hi","content":[{"type":"image_url","image_url":{"url":"x"}}]}]'
    assert_refused(site.ask("blind", messages=image), "no_capable_target")
    assert_refused(site.send(chat()[:-1] + b',"tools":null,"tools":[{"type":"web_search"}]}'), "field_refused")
    assert_refused(site.send(chat()[:-1] + b',"model":"nobody"}'), "unknown_model")
    assert site.provider.calls == []


# ---- attributes of a request --------------------------------------------------------------------------------------


def values(site: Site, headers: Headers, **more: object) -> list[str]:
    found: list[str] = site.explain(saying=headers, **more)["attributes"]["region"]["values"]
    return found


def test_repeated_headers_join_and_contradicting_ones_add(site: Site) -> None:
    assert values(site, [("x-region", "eu"), ("x-region", "eu")]) == ["eu"]
    assert values(site, [("x-region", "EU ,eu")]) == ["eu"]
    assert values(site, [("x-region", "eu"), ("x-region", "us")]) == ["eu", "us"]
    assert values(site, [("x-region", "us, eu")]) == ["eu", "us"]
    assert values(site, [("x-region", "eu")], metadata={"region": ["us"]}) == ["eu", "us"]
    assert values(site, [("x-region", "eu")], metadata={"region": None}) == ["eu"]
    served = site.ask(saying=[("x-region", "eu"), ("x-region", "Eu")])
    assert (served.status_code, served.headers["x-narrows-target"]) == (200, "eu")
    assert_refused(site.ask(saying=[("x-region", "us"), ("x-region", "eu")]), "no_eligible_target")
    assert site.provider.count() == 1
