"""The chat-completions dialect: what a body says, decoded just far enough to decide. Bytes that no rule reads stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from narrows import tokens
from narrows.dialects.body import BadBody, Members, encode, members, refuse_lookalikes, settle, value
from narrows.dialects.refused import refuse_fields
from narrows.request import Sizes
from narrows.types import Denial, Json

_FIELDS = frozenset({
    "audio", "background", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "messages", "metadata", "modalities", "model", "n",
    "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "reasoning", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
    "temperature", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "user", "verbosity",
})  # fmt: skip
"""The members that mean something. All lower case: in any other case they are refused."""
IMAGE_TOKENS: Final = 4096
"""The most one image counts as, in tokens: its base64 says nothing about its cost."""
SERVER_TOOL: Final = "server_tool."
"""What the feature of a server-side tool begins with: a target must declare it, undeclared is not capable."""

_MOST_ANSWERS = 128
_BILLED = frozenset({"tools", "functions", "response_format", "prediction"})
_MOST_OUTPUT = 2**53
_PARTS = {
    "image_url": "vision",
    "input_image": "vision",
    "image": "vision",
    "video_url": "video",
    "input_audio": "audio",
    "audio": "audio",
    "file": "files",
    "input_file": "files",
}
_FORMATS = {"json_schema": "json_schema", "json_object": "json_object"}
_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "audio"})
_PART_KEYS = frozenset({"type", "text", *_PARTS})
_TYPE_KEY = frozenset({"type"})
"""What is read inside a message, a part of its content, and a tool or format."""


@dataclass(frozen=True, slots=True)
class Call:
    """A decoded body. `members`: the top level as it will be sent. `metadata`: the body's own, for attributes."""

    model: str
    stream: bool
    members: Members = field(repr=False)  # content
    features: frozenset[str]
    sizes: Sizes
    metadata: Mapping[str, Json] | None = field(default=None, repr=False)

    def body_for(self, model: str, extra: Mapping[str, bytes]) -> bytes:
        """The bytes for one target: the judged members, its model, the operator's own fields on top."""
        return encode(self.members, {**extra, "model": msgspec.json.encode(model)})


def decode(body: bytes, smallest_window: int | None) -> Call | Denial:
    """What the body says, or why it cannot be judged (`invalid_body`, `field_refused`).

    `smallest_window` (tokens) of any target: a prompt that could not exceed it is not measured more exactly.
    """
    try:
        return _decode(body, smallest_window)
    except BadBody as bad:
        return bad.denial


def _decode(body: bytes, smallest_window: int | None) -> Call:
    found = members(body)
    other = [key for key in found if key not in _FIELDS]
    if other:
        refuse_fields(other)
        refuse_lookalikes(other, _FIELDS)
    model = value(found, "model")
    if not isinstance(model, str) or not model:
        raise BadBody("the field 'model' must be a string that names a route", "model")
    stream = value(found, "stream")
    if stream is not None and not isinstance(stream, bool):
        raise BadBody("the field 'stream' must be true or false", "stream")
    prompt = _messages(found)
    features = prompt.features | _tools(found) | _options(found)
    if stream:
        features.add("streaming")
    text = b"".join(prompt.text)
    # What a vendor may bill beside the messages: its tools and formats, and every member that we do not know.
    raw = sum(len(bytes(member)) for key, member in found.items() if key in _BILLED or key not in _FIELDS)
    floor = len(text) // 8
    if smallest_window is not None and floor > smallest_window:
        floor = tokens.at_least(text)
    sizes = Sizes(
        at_least=floor,
        at_most=len(bytes(found["messages"])) - prompt.inline + prompt.media + raw,
        max_output=_most_output(found),
        n=_whole(found, "n", 1, _MOST_ANSWERS) or 1,
        body_bytes=len(body),
    )
    return Call(model, bool(stream), found, frozenset(features), sizes, _metadata(found))


@dataclass(slots=True)
class _Prompt:
    """What was seen in the messages. `inline`: bytes of base64; `media`: tokens that stand for them at most."""

    text: list[bytes]
    features: set[str]
    inline: int = 0
    media: int = 0


def _messages(found: Members) -> _Prompt:
    messages = value(found, "messages")
    if not isinstance(messages, list) or not messages:
        raise BadBody("the field 'messages' must be a list with at least one message", "messages")
    prompt = _Prompt([], set())
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadBody(f"messages[{place}] must be an object with a 'role'", f"messages[{place}]")
        refuse_lookalikes(message, _MESSAGE_KEYS, f"messages[{place}]")
        _content(message.get("content"), place, prompt)
        calls = message.get("tool_calls")
        if calls is not None:
            prompt.text.append(msgspec.json.encode(calls))
        if message.get("audio") is not None:
            prompt.features.add("audio")
    settle(found, "messages", messages)
    return prompt


def _content(content: Json, place: int, prompt: _Prompt) -> None:
    if content is None:
        return
    if isinstance(content, str):
        prompt.text.append(content.encode())
        return
    if not isinstance(content, list):
        raise BadBody(f"messages[{place}].content must be a string or a list of parts", f"messages[{place}].content")
    for part in content:
        if isinstance(part, str):
            prompt.text.append(part.encode())
            continue
        if not isinstance(part, dict):
            raise BadBody(f"messages[{place}].content holds a part that is no object", f"messages[{place}].content")
        refuse_lookalikes(part, _PART_KEYS, f"messages[{place}].content")
        kind = part.get("type")
        if kind is not None and not isinstance(kind, str):
            said = f"messages[{place}].content holds a part whose type is no string"
            raise BadBody(said, f"messages[{place}].content")
        text = part.get("text")
        if isinstance(text, str):
            prompt.text.append(text.encode())
        # The type names the part, and so does a key of that name: an upstream may go by either.
        for key in {kind, *part} & _PARTS.keys():
            _media(part, str(key), prompt)


def _media(part: Mapping[str, Json], key: str, prompt: _Prompt) -> None:
    feature = _PARTS[key]
    if part.get("type") != key and part.get(key) is None:
        return
    prompt.features.add(feature)
    inline = len(msgspec.json.encode(part.get(key)))
    prompt.inline += inline
    prompt.media += IMAGE_TOKENS if feature == "vision" else inline


def _tools(found: Members) -> set[str]:
    features: set[str] = set()
    for key in ("tools", "functions"):
        tools = value(found, key)
        if tools is None:
            continue
        if not isinstance(tools, list):
            raise BadBody(f"the field {key!r} must be a list", key)
        for place, tool in enumerate(tools):
            if not isinstance(tool, dict):
                raise BadBody(f"{key}[{place}] must be an object", f"{key}[{place}]")
            refuse_lookalikes(tool, _TYPE_KEY, f"{key}[{place}]")
            # Without a type it is a function where it says so; elsewhere another vendor's tool may be meant.
            kind = tool.get("type", "function" if key == "functions" or "function" in tool else None)
            if not isinstance(kind, str):
                raise BadBody(f"{key}[{place}].type must be a string", f"{key}[{place}].type")
            features.add("tools" if kind in ("function", "custom") else SERVER_TOOL + kind)
        if tools:
            settle(found, key, tools)
    if features and value(found, "parallel_tool_calls") is True:
        features.add("parallel_tools")
    return features


def _options(found: Members) -> set[str]:
    features: set[str] = set()
    wanted = value(found, "response_format")
    if wanted is not None:
        kind = None
        if isinstance(wanted, dict):
            refuse_lookalikes(wanted, _TYPE_KEY, "response_format")
            kind = wanted.get("type")
        if not isinstance(kind, str):
            raise BadBody("the field 'response_format' must be an object with a 'type'", "response_format")
        if kind in _FORMATS:
            features.add(_FORMATS[kind])
        settle(found, "response_format", wanted)
    if value(found, "reasoning_effort") not in (None, "none") or value(found, "reasoning") is not None:
        features.add("reasoning")
    modalities = value(found, "modalities")
    if (isinstance(modalities, list) and "audio" in modalities) or value(found, "audio") is not None:
        features.add("audio")
    return features


def _most_output(found: Members) -> int | None:
    limits = [_whole(found, key, 0, _MOST_OUTPUT) for key in ("max_completion_tokens", "max_tokens")]
    said = [limit for limit in limits if limit]  # zero is no limit: servers take it for none
    return max(said) if said else None


def _whole(found: Members, key: str, least: int, most: int) -> int | None:
    number = value(found, key)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise BadBody(f"the field {key!r} must be a whole number from {least} to {most}", key)
    return number


def _metadata(found: Members) -> Mapping[str, Json] | None:
    metadata = value(found, "metadata")
    if metadata is None or isinstance(metadata, dict):
        return metadata
    raise BadBody("the field 'metadata' must be an object", "metadata")
