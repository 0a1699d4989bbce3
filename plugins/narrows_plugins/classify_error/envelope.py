"""Unwrapping: one error body, in whatever envelope, as plain layers, the innermost first.

Providers and the gateways in front of them send an error object, an error string, a flat object, an array, an error in an
error, a JSON text inside a string (OpenRouter's `metadata.raw`), an SSE line inside a string, a message that is an
object. A layer holds what one of these said: words, a number, a message. Nothing is judged here, and nothing outside the
named fields is read, so that echoed input (`input`, `flagged_input`, `failed_generation`) is never seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from narrows_plugins.classify_error.words import fold
from narrows_plugins.classify_error.wrappers import unwrapped

Node: TypeAlias = dict[str, Any]
Shape: TypeAlias = Literal["json", "events", "text", "html", "broken", "empty"]
_DEEPEST = 8
_DECODER = json.JSONDecoder()
_MESSAGES = ("message", "msg", "Message", "errorMessage", "error_message", "error_msg", "detail", "error_description")
_CODES = ("code", "Code", "error_code", "errorCode", "__type")
_TYPES = ("type", "error_type", "status")
_WAITS = (
    "retry_after",
    "retry_after_seconds",
    "resets_in_seconds",
    "resets_at",
    "reset_at",
    "retryDelay",
    "estimated_time",
)
_ANSWERS = ("choices", "output", "content", "candidates", "data", "embedding", "done", "stop_reason", "stopReason")


@dataclass(frozen=True, slots=True)
class Layer:
    """What one envelope says. Words are folded. `number`: an HTTP status told in the body. `waits`: typed hints by name."""

    details: tuple[str, ...]
    codes: tuple[str, ...]
    types: tuple[str, ...]
    number: int | None
    message: str
    waits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Envelope:
    """A body as read. `root`: its JSON, or that of the first event, or the text of a plain one."""

    shape: Shape
    root: object = None


def unwrap(body: bytes) -> Envelope:
    """Reads any bytes; never raises. A body that was cut is `broken` and tells nothing."""
    if body[:1] == b"{":  # the common case, and every normal answer: not decoded to text first
        try:
            return Envelope("json", msgspec.json.decode(body))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
    text = body.decode("utf-8-sig", "replace").strip()
    if not text:
        return Envelope("empty")
    if text[0] == "<":
        return Envelope("html")
    parsed, root = _parse(text)
    if parsed:
        return Envelope("json", root)
    event = _event(text)
    if event is not None:
        return Envelope("events", event)
    if text[0] in "{[":
        return Envelope("broken")
    if text.startswith(("data:", "event:", ":")):
        return Envelope("events")
    return Envelope("text", text)


def layers_of(envelope: Envelope) -> tuple[Layer, ...]:
    """What the body says, the innermost first; empty where it says nothing that is read."""
    if envelope.shape == "text":
        return (_plain(str(envelope.root)),)
    return tuple(_layers(envelope.root, _DEEPEST))


def tells_an_error(root: object) -> bool:
    """Is this JSON an error by its form? An answer (choices, output, …) with `"error": null` is none."""
    if isinstance(root, list):
        return any(isinstance(item, dict) and bool(item.get("error")) for item in root[:1])
    if not isinstance(root, dict):
        return False
    if root.get("error") or root.get("errors") or root.get("type") == "error" or root.get("object") == "error":
        return True
    if _sub(root, "response").get("error") or _sub(root, "x_groq").get("error"):
        return True
    base = root.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0):
        return True
    if any(isinstance(choice, dict) and choice.get("error") for choice in _items(root.get("choices"))):
        return True
    return not tells_an_answer(root) and any(isinstance(root.get(key), str) for key in _MESSAGES)


def tells_an_answer(root: object) -> bool:
    """Has this JSON a member in which some dialect answers?"""
    return isinstance(root, dict) and any(key in root for key in _ANSWERS)


def _parse(text: str) -> tuple[bool, object]:
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: a body that nests deeper than any error does
        return False, None


def _event(text: str) -> object | None:
    """The JSON of the first `data:` line, where the text is a piece of an event stream."""
    if not text.startswith(("data:", "event:", "id:", ":")):
        return None
    for line in text.splitlines()[:20]:
        if line.startswith("data:"):
            parsed, root = _parse(line[5:].strip())
            return root if parsed and isinstance(root, dict | list) else None
    return None


def _inside(value: object) -> object | None:
    """What a member holds in its turn: an object, an array, or either of them written as a text. The whole text must be
    JSON: a sentence that merely quotes some is a sentence."""
    if isinstance(value, dict | list):
        return value
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("{", "[")):
            root = _parse(text)[1]
            return root if isinstance(root, dict | list) else None
        return _event(text)
    return None


def _layers(node: object, depth: int) -> Iterator[Layer]:
    if isinstance(node, list):
        node = next((item for item in node if isinstance(item, dict)), None)
    if not isinstance(node, dict) or depth == 0:
        return
    for child in _children(node):
        inner = _inside(child)
        if inner is not None:
            yield from _layers(inner, depth - 1)
    raw = _sub(node, "metadata").get("raw")
    if isinstance(raw, str) and raw and _inside(raw) is None:
        yield _plain(raw)  # what the wrapped provider said in a plain sentence
    layer = _layer(node)
    if layer is None:
        return
    yield from _quoted(layer.message, depth)
    yield layer


def _quoted(message: str, depth: int) -> Iterator[Layer]:
    """What a gateway's message quotes behind its wrapper: the status it met, or the whole error as JSON."""
    quoted, status = unwrapped(message)
    if quoted is message:
        return
    start = quoted.removeprefix("b'")
    if start.startswith("{"):
        try:
            root, _ = _DECODER.raw_decode(start)  # gateways add words of their own behind it
        except (ValueError, RecursionError):
            root = None
        yield from _layers(root, depth - 1)
    if status is not None:
        yield Layer((), (), (), status, "", {})


def _children(node: Node) -> Iterator[object]:
    yield node.get("error")
    yield node.get("errors")
    yield _sub(node, "metadata").get("raw")
    yield node.get("message")
    yield node.get("detail")
    yield _sub(node, "response").get("error")
    yield _sub(node, "x_groq").get("error")
    for choice in _items(node.get("choices")):
        if isinstance(choice, dict):
            yield choice.get("error")


def _layer(node: Node) -> Layer | None:
    base = _sub(node, "base_resp")
    codes, types, number = [], [], None
    for key in _CODES:
        if key in node:
            number = number or _status(node[key])
            codes.append(_word(node[key]))
    for key in _TYPES:
        if key in node:
            number = number or _status(node[key])
            types.append(_word(node[key]))
    number = number or _status(node.get("status_code")) or _status(node.get("statusCode"))
    details = tuple(_details(node, base))
    message = next((node[key] for key in _MESSAGES if isinstance(node.get(key), str)), None)
    if message is None:
        message = node["error"] if isinstance(node.get("error"), str) else base.get("status_msg")
    found = Layer(
        details,
        tuple(word for word in codes if word),
        tuple(word for word in types if word),
        number,
        message if isinstance(message, str) and _inside(message) is None else "",
        _waits(node),
    )
    return (
        found if found.details or found.codes or found.types or found.number or found.message or found.waits else None
    )


def _details(node: Node, base: Node) -> Iterator[str]:
    """Typed facts below the error's own code: the best evidence there is."""
    if base:
        yield f"baseresp{base.get('status_code')}"
    details = node.get("details")
    if isinstance(details, dict):
        yield _word(details.get("error_code"))
    for item in _items(details):
        if isinstance(item, dict):
            yield _word(item.get("reason"))
            for violation in _items(item.get("violations")):
                if isinstance(violation, dict) and "quotaId" in violation:
                    yield "quotazero" if str(violation.get("quotaValue")) == "0" else "quotaid"
    inner = _sub(node, "innererror") or _sub(_sub(node, "provider_specific_fields"), "innererror")
    yield _word(inner.get("code"))
    if any(
        isinstance(each, dict) and each.get("filtered") is True
        for each in _sub(inner, "content_filter_result").values()
    ):
        yield "contentfiltered"
    metadata = _sub(node, "metadata")
    if metadata:
        if metadata.get("reasons") and "flagged_input" in metadata:
            yield "moderationreasons"
        for key in ("limit_source", "error_type", "provider_error_code"):
            yield _word(metadata.get(key))
    code = node.get("code")
    if isinstance(code, str) and len(code) == 4 and code.isdigit() and "type" not in node:
        yield f"business{code}"  # Z.AI's own numbers; others that use digits (Mistral) also send a type


def _waits(node: Node) -> dict[str, Any]:
    metadata = _sub(node, "metadata")
    found = {key: node[key] for key in _WAITS if key in node} | {
        key: metadata[key] for key in _WAITS if key in metadata
    }
    for item in _items(node.get("details")):
        if isinstance(item, dict) and "retryDelay" in item:
            found["retryDelay"] = item["retryDelay"]
    headers = metadata.get("headers")
    if isinstance(headers, dict):
        found["headers"] = {str(key).lower(): str(value) for key, value in headers.items()}
    return found


def _plain(text: str) -> Layer:
    return Layer((), (), (), None, text[:2000], {})


def _sub(node: Node, key: str) -> Node:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Any]:
    return value[:16] if isinstance(value, list) else []


def _word(value: object) -> str:
    if not isinstance(value, str) or value.isdigit():
        return ""
    return fold(value.rpartition("#")[2].partition(":")[0])


def _status(value: object) -> int | None:
    """An HTTP error status told as a number or as digits."""
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 400 <= value <= 599 else None
