"""A JSON body as a map of raw members. What is judged is what is sent.

The top level is decoded once and re-encoded from the same map, so a duplicate key collapses to the one that was judged
and every other value keeps its bytes. A key that equals a known one only after case folding is refused, because some
upstream might read it. Source: DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

import msgspec

from narrows.types import Denial, Json

Members = dict[str, msgspec.Raw]

_DEEPEST = 128
_KEY_CHARS = 64
_DECODER = msgspec.json.Decoder(Members)
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEPS = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")
"""What an opening and a closing add to the depth, as signed bytes."""
_SLICE = 64 * 1024
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
        raise BadBody(f"the body is not JSON: {str(error).removeprefix('JSON is malformed: ')}") from None


def too_deep(body: bytes) -> bool:
    """Is it nested deeper than any real request? Interpreters differ in where deep JSON breaks them, so the bound is
    ours. Linear, and every step that touches each byte runs in C: a body of the largest size made of brackets alone
    must not hold up other requests for long."""
    if body.count(b"{") + body.count(b"[") <= _DEEPEST:
        return False
    left = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_STEPS, _NOT_STRUCTURE)
    depth = quoted = 0
    for start in range(0, len(left), _SLICE):
        parts = left[start : start + _SLICE].split(b'"')
        steps = memoryview(b"".join(parts[quoted::2])).cast("b")
        levels = list(accumulate(steps, initial=depth))
        if max(levels) > _DEEPEST:
            return True
        depth, quoted = levels[-1], quoted ^ (len(parts) - 1) & 1
    return False


def refuse_lookalikes(found: Iterable[str], known: frozenset[str], place: str = "the body") -> None:
    """Raise BadBody for a key that is a known one (lower case) in another case: some upstream might read it, and no rule
    would. `place`: of what these are the keys."""
    for key in found:
        if key not in known and (written := key.strip().casefold()) in known:
            raise BadBody(
                f"the field {key[:_KEY_CHARS]!r} of {place} differs from {written!r} only in case or space; "
                f"write {written!r}",
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
