"""The chat dialect: which features a body has, how large it is, and what of it cannot be judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.dialects.chat import _FIELDS, IMAGE_TOKENS, Call, decode
from narrows.types import Denial, Json

USER = {"role": "user", "content": "hi"}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAB"}}


def body(*parts: object, **members: object) -> bytes:
    """A chat body: these parts as the content of a message, these members at the top."""
    content: dict[str, object] = (
        {"messages": [{"role": "user", "content": list(parts)}]} if parts else {"messages": [USER]}
    )
    return json.dumps({"model": "chat", **content, **members}).encode()


def decoded(content: bytes, window: int | None = None) -> Call:
    call = decode(content, window)
    assert isinstance(call, Call), call
    return call


def features(content: bytes) -> set[str]:
    return set(decoded(content).features)


def refused(content: bytes) -> tuple[str, str | None]:
    denial = decode(content, None)
    assert isinstance(denial, Denial), denial
    return denial.code, denial.param


# ---- features ----------------------------------------------------------------------------------------------------------

MEDIA = [
    ("image_url", "vision"),
    ("input_image", "vision"),
    ("image", "vision"),
    ("video_url", "video"),
    ("input_audio", "audio"),
    ("audio", "audio"),
    ("file", "files"),
    ("input_file", "files"),
]


@pytest.mark.parametrize(("kind", "feature"), MEDIA)
@pytest.mark.parametrize(
    "part",
    [
        lambda kind: {"type": kind, kind: {"url": "data:"}},
        lambda kind: {"type": kind, kind: "https://x/y"},
        lambda kind: {"type": kind, "file_id": "f1"},  # the type alone
        lambda kind: {kind: {"url": "data:"}},  # the key alone
        lambda kind: {"type": "text", "text": "look", kind: {"url": "data:"}},  # a type that hides it
        lambda kind: {"type": "new_kind", kind: [1]},
        lambda kind: {"type": None, kind: "x"},
    ],
    ids=["both", "a string", "type alone", "key alone", "hidden behind text", "unknown type", "no type"],
)
def test_a_part_is_known_by_its_type_or_by_a_key(kind: str, feature: str, part: Any) -> None:
    assert features(body({"type": "text", "text": "look"}, part(kind))) == {feature}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "an image_url of an image"},
        {"type": "text", "text": "x", "image_url": None},
        {"type": "refusal", "refusal": "no"},
        {"text": "x"},
        {},
        "only text",
    ],
)
def test_other_parts_need_nothing(part: object) -> None:
    assert features(body(part)) == set()


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool", "function"])
def test_media_count_in_any_message_at_any_place(role: str) -> None:
    messages = [USER, {"role": role, "content": ["x", IMAGE]}, {"role": "assistant", "content": None}]
    assert features(body(messages=messages)) == {"vision"}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, set()),
        ({"tools": [FUNCTION]}, {"tools"}),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, {"tools"}),
        ({"tools": [{"function": {"name": "f"}}]}, {"tools"}),
        ({"functions": [{"name": "f"}]}, {"tools"}),
        ({"functions": [{"name": "f"}], "tools": None}, {"tools"}),
        ({"tools": []}, set()),
        ({"tools": None}, set()),
        ({"tools": [], "parallel_tool_calls": True}, set()),
        ({"parallel_tool_calls": True}, set()),
        ({"tools": [FUNCTION], "parallel_tool_calls": True}, {"tools", "parallel_tools"}),
        ({"tools": [FUNCTION], "parallel_tool_calls": False}, {"tools"}),
        ({"tools": [{"type": "web_search"}]}, {"server_tool.web_search"}),
        ({"tools": [FUNCTION, {"type": "web_search_preview", "x": 1}]}, {"tools", "server_tool.web_search_preview"}),
        ({"tools": [{"type": "mcp"}, {"type": "mcp"}, {"type": "Function"}]}, {"server_tool.mcp", "server_tool.Function"}),
        ({"response_format": {"type": "text"}}, set()),
        ({"response_format": None}, set()),
        ({"response_format": {"type": "json_object"}}, {"json_object"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, {"json_schema"}),
        ({"response_format": {"type": "grammar"}}, set()),
        ({"stream": True}, {"streaming"}),
        ({"stream": False}, set()),
        ({"stream": None}, set()),
        ({"reasoning_effort": "high"}, {"reasoning"}),
        ({"reasoning_effort": "none"}, set()),
        ({"reasoning_effort": None}, set()),
        ({"reasoning": {"effort": "low"}}, {"reasoning"}),
        ({"modalities": ["text"]}, set()),
        ({"modalities": ["text", "audio"]}, {"audio"}),
        ({"audio": {"voice": "v", "format": "wav"}}, {"audio"}),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, {"audio"}),
        ({"seed": 3, "temperature": 0.1, "stop": ["x"], "user": "u", "own_field": {"a": 1}}, set()),
    ],
)  # fmt: skip
def test_features(members: dict[str, object], expected: set[str]) -> None:
    call = decoded(body(**members))
    assert set(call.features) == expected
    assert call.stream == ("streaming" in expected)


# ---- sizes -------------------------------------------------------------------------------------------------------------


def test_a_text_is_measured_by_its_bytes() -> None:
    text = "é" * 80
    sizes = decoded(body({"type": "text", "text": text})).sizes
    assert sizes.at_least == 160 // 8
    sent = json.dumps([{"role": "user", "content": [{"type": "text", "text": text}]}], ensure_ascii=False)
    assert sizes.at_most == len(sent.replace(", ", ",").replace(": ", ":").encode())
    assert sizes.body_bytes == len(body({"type": "text", "text": text}))


def test_tool_calls_of_the_conversation_are_text_and_tool_definitions_cost() -> None:
    calls = [{"id": "c", "function": {"name": "f", "arguments": "x" * 800}}]
    sizes = decoded(body(messages=[USER, {"role": "assistant", "content": None, "tool_calls": calls}])).sizes
    assert sizes.at_least >= 100
    plain, tools = decoded(body()).sizes, decoded(body(tools=[FUNCTION])).sizes
    assert tools.at_least == plain.at_least, "only what certainly is prompt"
    assert tools.at_most - plain.at_most == len(json.dumps([FUNCTION], separators=(",", ":")))


@pytest.mark.parametrize("kind", ["image_url", "input_image", "image"])
def test_an_image_costs_the_same_whatever_its_bytes(kind: str) -> None:
    small, large = ({"type": kind, kind: {"url": "data:" + "A" * size}} for size in (4, 4_000_000))
    one, other = decoded(body("look", small)).sizes, decoded(body("look", large)).sizes
    assert one.at_most == other.at_most
    assert IMAGE_TOKENS <= one.at_most < IMAGE_TOKENS + 200
    assert one.at_least == other.at_least == 0
    assert decoded(body(small, small)).sizes.at_most >= 2 * IMAGE_TOKENS


def test_runs_are_collapsed_only_where_a_window_could_be_exceeded() -> None:
    rule = body("=" * 8000)
    assert decoded(rule, None).sizes.at_least == 1000
    assert decoded(rule, 1000).sizes.at_least == 1000, "it could not exceed the smallest window"
    assert decoded(rule, 999).sizes.at_least == 0, "64 = are one token"


@pytest.mark.parametrize(
    ("members", "most"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 0}, None),  # servers take it for no limit
        ({"max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 9, "max_completion_tokens": 7}, 9),
        ({"max_tokens": 2**53}, 2**53),
    ],
)
def test_the_limit_is_the_larger_one(members: dict[str, object], most: int | None) -> None:
    """Which of the two an upstream obeys is its own: a reservation must hold for either."""
    assert decoded(body(**members)).sizes.max_output == most


@pytest.mark.parametrize(("n", "answers"), [(None, 1), (1, 1), (128, 128)])
def test_n(n: int | None, answers: int) -> None:
    assert decoded(body(n=n)).sizes.n == answers


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["a" * 300, "=" * 99, "\n" * 50]
)
parts = st.one_of(
    texts,
    texts.map(lambda text: {"type": "text", "text": text}),
    st.tuples(st.sampled_from([kind for kind, _ in MEDIA]), texts).map(lambda pair: {"type": pair[0], pair[0]: {"url": pair[1]}}),
    st.tuples(st.sampled_from([kind for kind, _ in MEDIA]), texts).map(lambda pair: {"type": "text", "text": pair[1], pair[0]: pair[1]}),
    st.sampled_from([kind for kind, _ in MEDIA]).map(lambda kind: {"type": kind}),
)  # fmt: skip


@settings(deadline=None)  # a busy machine is not a finding
@given(
    st.lists(st.lists(parts, max_size=4) | texts | st.none(), min_size=1, max_size=4), st.none() | st.integers(0, 99)
)
def test_the_floor_is_never_above_the_ceiling(contents: list[object], window: int | None) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    sizes = decoded(body(messages=messages), window).sizes
    assert 0 <= sizes.at_least <= sizes.at_most


# ---- what cannot be judged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
        ({"model": ["chat"]}, "model"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream": []}, "stream"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [USER, None]}, "messages[1]"),
        ({"messages": [USER, {"content": "x"}]}, "messages[1]"),
        ({"messages": [USER, {"role": 3}]}, "messages[1]"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [None]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [["x"]]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": 3}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": []}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": {"a": 1}}]}]}, "messages[0].content"),
        ({"tools": "x"}, "tools"),
        ({"tools": {"type": "function"}}, "tools"),
        ({"tools": [3]}, "tools[0]"),
        ({"tools": [FUNCTION, None]}, "tools[1]"),
        ({"tools": [{"type": 3}]}, "tools[0].type"),
        ({"tools": [{"type": None}]}, "tools[0].type"),
        ({"tools": [{"type": []}]}, "tools[0].type"),
        ({"tools": [{"name": "another vendor's"}]}, "tools[0].type"),
        ({"functions": 3}, "functions"),
        ({"functions": ["f"]}, "functions[0]"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": []}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": {"type": 3}}, "response_format"),
        ({"n": "2"}, "n"),
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": 129}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": 1.0}, "n"),
        ({"n": True}, "n"),
        ({"n": []}, "n"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 2**53 + 1}, "max_tokens"),
        ({"max_tokens": 10**3000}, "max_tokens"),
        ({"max_completion_tokens": {}}, "max_completion_tokens"),
        ({"max_completion_tokens": 10**30}, "max_completion_tokens"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": []}, "metadata"),
        ({"metadata": 3}, "metadata"),
        ({"Stream": True}, "stream"),
        ({"messages ": []}, "messages"),
        ({"messages": [{"role": "user", "Content": "x"}]}, "content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "Image_URL": "x"}]}]}, "image_url"),
        ({"tools": [{"Type": "web_search", "type": "function"}]}, "type"),
        ({"response_format": {"TYPE": "json_schema", "type": "text"}}, "type"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_by_name(members: dict[str, object], param: str) -> None:
    assert refused(body(**members)) == ("invalid_body", param)


def test_a_body_without_its_members_is_refused() -> None:
    assert refused(b'{"messages": []}') == ("invalid_body", "model")
    assert refused(b'{"model": "chat"}') == ("invalid_body", "messages")
    assert refused(b"{}") == ("invalid_body", "model")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.sampled_from(["user", "text", "image_url", "function", "json_schema", "any"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "image_url", "function", "tool_calls"]), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(_FIELDS)), anything, max_size=5), st.none() | st.integers(0, 10))
def test_whatever_its_members_hold_it_is_read_or_refused(members: Mapping[str, Json], window: int | None) -> None:
    call = decode(body(**members), window)
    if isinstance(call, Denial):
        assert call.code == "invalid_body"
        assert call.param is not None
        assert any(
            call.param.startswith(name)
            for name in (*members, "model", "role", "content", "type", "text", "image", "tool")
        )
        return
    assert 0 <= call.sizes.at_least <= call.sizes.at_most
    sent = json.loads(call.body_for("m", {}))
    assert sent == {**json.loads(body(**members)), "model": "m"}, "what was judged is what is sent"
    assert call.stream == (sent.get("stream") is True)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_arbitrary_bytes_never_raise(content: bytes) -> None:
    assert isinstance(decode(content, 1), Denial)
    inside = b'{"model":"chat","messages":[{"role":"user","content":' + content + b"}]}"
    assert isinstance(decode(inside, 1), Denial | Call)
    assert isinstance(decode(body()[:-1] + b',"n":' + content + b"}", 1), Denial | Call)


# ---- what is judged is what is sent ------------------------------------------------------------------------------------


def test_duplicates_collapse_to_the_judged_one_at_every_level_a_rule_reads() -> None:
    content = (
        b'{"model":"a","stream":true,"model":"chat","n":1,"n":2,"stream":false,'
        b'"messages":[{"role":"user","role":"system","content":[{"type":"image_url","type":"text","text":"x"}]}],'
        b'"tools":[{"type":"web_search","type":"function"}],"response_format":{"type":"json_schema","type":"text"}}'
    )
    call = decoded(content)
    assert (call.model, call.stream, call.sizes.n) == ("chat", False, 2)
    assert set(call.features) == {"tools"}
    assert call.body_for("up", {}) == (
        b'{"model":"up","stream":false,"n":2,"messages":[{"role":"system","content":[{"type":"text","text":"x"}]}],'
        b'"tools":[{"type":"function"}],"response_format":{"type":"text"}}'
    )


def test_members_that_no_rule_reads_keep_their_bytes() -> None:
    rest = b'"temperature":1.0e0,"logit_bias":{"1" : 2,"1":3},"own":"\\u0041","metadata":{"b":1,"a": [ ]}'
    call = decoded(body()[:-1] + b"," + rest + b"}")
    assert call.body_for("chat", {}).endswith(b"," + rest + b"}")
    assert call.metadata == {"b": 1, "a": []}


def test_the_operators_fields_stand_on_top_and_the_model_is_the_targets() -> None:
    call = decoded(body(store=True, own=1))
    sent = json.loads(call.body_for("large-2", {"store": b"false", "extra": b"[1]", "model": b'"other"'}))
    assert (sent["model"], sent["store"], sent["extra"], sent["own"]) == ("large-2", False, [1], 1)
    assert json.loads(call.body_for("small", {}))["store"] is True, "one call serves several targets"


def test_no_content_in_its_repr() -> None:
    assert "s3cret" not in repr(decoded(body("s3cret", metadata={"note": "s3cret"})))
