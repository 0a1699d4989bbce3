"""A body as raw members: how deep, which duplicate, which spelling, and every byte that nobody read stays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import perf_counter

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from narrows.dialects.body import BadBody, encode, members, refuse_lookalikes, settle, too_deep, value
from narrows.types import Json

DEEPEST = 128
KNOWN = frozenset({"model", "messages", "stream", "provideroptions"})


def refusal(body: bytes) -> str:
    with pytest.raises(BadBody) as caught:
        members(body)
    assert caught.value.denial.code == "invalid_body"
    return caught.value.denial.why


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "is not JSON"),
        (b"   ", "is not JSON"),
        (b"null", "is not a JSON object"),
        (b"[]", "is not a JSON object"),
        (b'"model"', "is not a JSON object"),
        (b"3", "is not a JSON object"),
        (b"{", "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": 1} {}', "is not JSON"),
        (b'{"a": NaN}', "is not JSON"),
        (b'{"a": Infinity}', "is not JSON"),
        (b'{"a": 01}', "is not JSON"),
        (b'{"a": tru}', "is not JSON"),
        (b'{"a": "\x01"}', "is not JSON"),
        (b'{"a": "\\ud800"}', "is not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "byte-order mark"),
        (b'{"a": "\xff"}', "is not UTF-8: byte 7"),
        (b'\x00{"a": 1}', "is not JSON"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes, why: str) -> None:
    assert why in refusal(body)


@settings(deadline=None)  # a busy machine is not a finding
@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        found = members(body)
    except BadBody:
        return
    assert isinstance(json.loads(body), dict)
    assert set(found) == set(json.loads(body))


# ---- depth -------------------------------------------------------------------------------------------------------------


def depth(text: str) -> int:
    """The naive way: character by character."""
    deepest = level = 0
    inside = escaped = False
    for char in text:
        if inside:
            escaped, inside = (char == "\\" and not escaped), not (char == '"' and not escaped)
        elif char == '"':
            inside = True
        elif char in "[{":
            level += 1
            deepest = max(deepest, level)
        elif char in "]}":
            level -= 1
    return deepest


nasty = st.text(st.sampled_from('[]{}"\\,:né '), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | nasty
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(nasty, inner, max_size=3), max_leaves=25
)


def nested(inner: Json, kinds: list[bool], beside: Json) -> Json:
    """The value inside as many lists (True) and objects (False), each with something beside it."""
    for is_list in kinds:
        inner = [beside, inner, beside] if is_list else {"[": beside, '"': inner}
    return inner


@settings(deadline=None)
@given(values, st.lists(st.booleans(), max_size=140), nasty | st.just([]) | st.just({"{": "]"}), st.booleans())
@example([], [True] * 127, None, True)
@example([], [True] * 128, None, True)
@example({}, [False] * 127, None, False)
@example({}, [True, False] * 64, None, False)
@example({}, [False, True] * 63 + [True], None, False)
def test_the_bound_on_depth_is_exact(value: Json, kinds: list[bool], beside: Json, ascii: bool) -> None:  # noqa: A002
    text = json.dumps(nested(value, kinds, beside), ensure_ascii=ascii)
    assert too_deep(text.encode()) == (depth(text) > DEEPEST)


@settings(deadline=None)
@given(values, st.integers(126, 130), st.lists(st.booleans(), min_size=1, max_size=5))
def test_just_at_the_bound(value: Json, levels: int, pattern: list[bool]) -> None:
    """Wrapped to exactly so many levels, whatever kinds alternate: strings with brackets and escapes count for nothing."""
    missing = levels - depth(json.dumps(value))
    kinds = [pattern[level % len(pattern)] for level in range(missing)]
    value = nested(value, kinds, ']}[{\\"')
    assert depth(json.dumps(value)) == levels
    assert too_deep(json.dumps(value).encode()) == (levels > DEEPEST)


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1])
@pytest.mark.parametrize("before", [b"", b'"' + b"[" * 70_000 + b'", ', b"[], " * 40_000, b'"\\"", ' * 30_000])
def test_the_bound_holds_far_into_a_large_body(levels: int, before: bytes) -> None:
    body = b'{"a": [' + before + b"[" * (levels - 2) + b"]" * (levels - 2) + b"]}"
    assert depth(body.decode()) == levels
    assert too_deep(body) == (levels > DEEPEST)
    if levels > DEEPEST:
        assert "deeper than 128 levels" in refusal(body)
    else:
        assert list(members(body)) == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"a": ' + b'{"b": ' * 1000 + b"1" + b"}" * 1000 + b"}",
        b'{"a": ' + b"[" * 100_000,
        b"[" * 5_000_000 + b"]" * 5_000_000,
        b'{"a": ' + b"[]," * 3_000_000 + b"1}",
        b'{"a": "' + b'\\"' * 3_000_000 + b'"',
    ],
    ids=["lists", "objects", "unbalanced", "brackets alone", "wide", "escapes"],
)
def test_a_hostile_body_is_refused_fast(body: bytes) -> None:
    begun = perf_counter()
    assert refusal(body)
    assert perf_counter() - begun < 5, "linear: seconds on the slowest machine, not minutes"


# ---- what is judged is what is sent ------------------------------------------------------------------------------------

RAW = [
    b"1",
    b"-0.0",
    b"1.0e0",
    b"1E5",
    b'"\\u0041"',
    b'"\\/"',
    b'{"a" : 1 ,"a":2}',
    b"[ 1,2 ]",
    b"null",
    b"12345678901234567890123",
]
raws = st.sampled_from(RAW) | values.map(lambda value: json.dumps(value).encode())
keys = st.text(st.sampled_from('abm"\\[é'), min_size=1, max_size=3)
pairs = st.lists(st.tuples(keys, raws), max_size=6)


def written(rows: list[tuple[str, bytes]], space: bytes = b"") -> bytes:
    """An object with these members in this order, duplicates included."""
    inside = b",".join(space + json.dumps(key).encode() + space + b":" + space + raw + space for key, raw in rows)
    return b"{" + inside + b"}"


@settings(deadline=None)
@given(pairs, st.sampled_from([b"", b" ", b"\n\t "]))
def test_every_byte_of_a_member_stays_and_the_last_duplicate_is_the_one(
    rows: list[tuple[str, bytes]], space: bytes
) -> None:
    found = members(written(rows, space))
    last = dict(rows)
    assert {key: bytes(raw) for key, raw in found.items()} == last
    sent = encode(found, {})
    assert {key: bytes(raw) for key, raw in members(sent).items()} == last
    seen = json.loads(sent, object_pairs_hook=lambda seen: seen)
    assert [key for key, _ in seen] == list(dict.fromkeys(key for key, _ in rows)), "each once, in its first place"


@settings(deadline=None)
@given(pairs, st.dictionaries(keys, raws, max_size=3))
def test_replaced_members_stand_on_top_and_nothing_else_moves(
    rows: list[tuple[str, bytes]], replaced: dict[str, bytes]
) -> None:
    found = members(written(rows))
    before = dict(found)
    sent = members(encode(found, replaced))
    assert {key: bytes(raw) for key, raw in sent.items()} == {**dict(rows), **replaced}
    assert found == before, "the judged members are not changed by sending"


@settings(deadline=None)
@given(values)
def test_a_settled_member_is_sent_as_it_was_judged(given_value: Json) -> None:
    """Also where its own text said something twice: an upstream that reads the first would see what no rule saw."""
    found = members(written([("m", json.dumps(given_value).encode())]))
    judged = value(found, "m")
    settle(found, "m", judged)
    assert json.loads(encode(found, {})) == {"m": given_value}
    twice = members(b'{"m": {"role": "a", "role": "b"}}')
    settle(twice, "m", value(twice, "m"))
    assert encode(twice, {}) == b'{"m":{"role":"b"}}'


@pytest.mark.parametrize(
    ("raw", "said"), [(b"1e999", "Number out of range"), (b"1" * 5000, "out of range"), (b"{}", None), (b"null", None)]
)
def test_a_member_that_cannot_be_read_is_refused_by_name(raw: bytes, said: str | None) -> None:
    found = members(b'{"n": ' + raw + b"}")
    if said is None:
        assert value(found, "n") in ({}, None)
        return
    with pytest.raises(BadBody, match=said) as caught:
        value(found, "n")
    assert caught.value.denial.param == "n"


def test_what_cannot_be_written_is_refused_by_name() -> None:
    found: dict[str, msgspec.Raw] = {}
    with pytest.raises(BadBody, match="the field 'm' cannot be sent on"):
        settle(found, "m", object())  # type: ignore[arg-type]
    assert found == {}
    assert value(found, "m") is None, "an absent member is none"


# ---- spelling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("Model", "model"),
        ("MODEL", "model"),
        (" model", "model"),
        ("model\t", "model"),
        ("ſtream", "stream"),
        ("meſſageſ", "messages"),
        ("providerOptions", "provideroptions"),
    ],
)
def test_a_known_key_in_another_case_is_refused(key: str, known: str) -> None:
    with pytest.raises(BadBody) as caught:
        refuse_lookalikes(["model", key], KNOWN)
    denial = caught.value.denial
    assert (denial.code, denial.param) == ("invalid_body", known)
    assert repr(known) in denial.why
    assert "only in case or space" in denial.why


@settings(deadline=None)
@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_any_spelling_of_a_known_key_but_its_own_is_refused(known: str, data: st.DataObject) -> None:
    upper = data.draw(st.lists(st.booleans(), min_size=len(known), max_size=len(known)))
    spelt = "".join(char.upper() if up else char for char, up in zip(known, upper, strict=True))
    spelt = data.draw(st.sampled_from(["", " ", "\n"])) + spelt + data.draw(st.sampled_from(["", " ", "\t"]))
    if spelt == known:
        refuse_lookalikes([spelt], KNOWN)
    else:
        with pytest.raises(BadBody):
            refuse_lookalikes([spelt], KNOWN)


def test_other_keys_pass_and_long_ones_are_clipped() -> None:
    refuse_lookalikes(["model", "models", "mo del", "m", "", "temperature"], KNOWN)
    with pytest.raises(BadBody) as caught:
        refuse_lookalikes(["model" + " " * 10_000], KNOWN)
    assert len(caught.value.denial.why) < 300


def test_a_refusal_names_where_it_was_read() -> None:
    bad: Mapping[str, Json] = {"Role": "user"}
    with pytest.raises(BadBody, match=r"'Role' of messages\[3\] differs"):
        refuse_lookalikes(bad, frozenset({"role"}), "messages[3]")
