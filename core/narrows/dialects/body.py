"""A JSON body as a map of raw members. What is judged is what is sent.

The top level is decoded once and re-encoded from the same map, so a duplicate key collapses to the one that was judged
and every other value keeps its bytes. A key that equals a known one only after case folding is refused, because some
upstream might read it. Source: DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from narrows.types import Denial, Json

Members = dict[str, msgspec.Raw]

_DEEPEST = 128
_CHEAP = 100
_KEY_CHARS = 64
_DECODER = msgspec.json.Decoder(Members)
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_BOM = b"\xef\xbb\xbf"


class BadBody(Exception):
    """The body cannot be judged; `denial` says why. Internal to the dialects: callers get the denial."""

    def __init__(self, why: str, param: str | None = None, code: str = "invalid_body") -> None:
        self.denial = Denial(code, why, param)
        super().__init__(why)


def members(body: bytes) -> Members:
    """The top level of a JSON object. Raises BadBody saying what is wrong and where."""
    if body.startswith(_BOM):
        raise BadBody("the body begins with a byte-order mark; send UTF-8 without one")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: byte {error.start}") from None
    if too_deep(body):
        raise BadBody(f"the body is nested deeper than {_DEEPEST} levels")
    try:
        return _DECODER.decode(body)
    except msgspec.ValidationError:
        raise BadBody("the body is not a JSON object") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadBody(f"the body is not JSON: {error}") from None


def too_deep(body: bytes) -> bool:
    """Is it nested deeper than any real request? Interpreters differ in where deep JSON breaks them, so the bound is
    ours. All steps run in C: strings go, then the innermost pairs, one level at a time; a wrong partner is the
    decoder's to refuse."""
    if body.count(b"{") + body.count(b"[") <= _CHEAP:
        return False
    left = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_ONE_KIND, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in left:
        left = b"".join(left.split(b'"')[::2])
    for _ in range(_DEEPEST):
        if not left:
            return False
        shorter = left.replace(b"[]", b"")
        if len(shorter) == len(left):
            return False  # unbalanced: the decoder says where
        left = shorter
    return bool(left)


def refuse_lookalikes(found: Iterable[str], known: Mapping[str, str]) -> None:
    """Raise BadBody for a key that is a known one in another case. `known`: each folded, and as it is written."""
    for key in found:
        written = known.get(key.strip().casefold())
        if written is not None and written != key:
            raise BadBody(
                f"the field {key[:_KEY_CHARS]!r} differs from {written!r} only in case or space; write {written!r}",
                written,
            )


def value(found: Members, key: str) -> Json:
    """One member, decoded. None where it is absent. Raises BadBody."""
    raw = found.get(key)
    if raw is None:
        return None
    try:
        decoded: Json = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadBody(f"the field {key!r} cannot be read: {error}", key) from None
    return decoded


def settle(found: Members, key: str, decoded: Json) -> None:
    """Put a member that a rule read inside back as what the rule saw. Raises BadBody where it cannot be written."""
    try:
        found[key] = msgspec.Raw(msgspec.json.encode(decoded))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadBody(f"the field {key!r} cannot be sent on: {error}", key) from None


def encode(found: Members, replaced: Mapping[str, bytes]) -> bytes:
    """The body that is sent: the judged members in their order, with some replaced or added."""
    out = dict(found)
    for key, raw in replaced.items():
        out[key] = msgspec.Raw(raw)
    return msgspec.json.encode(out)
