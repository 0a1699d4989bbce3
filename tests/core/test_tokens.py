"""Token counts without a tokenizer: a floor that never excludes wrongly, a ceiling that never under-charges."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.tokens import UNBOUNDED_OUTPUT, at_least, at_most, estimate, most_output

runs = st.lists(st.tuples(st.sampled_from(list(b"ab=\n\xc3")), st.integers(1, 40))).map(
    lambda parts: b"".join(bytes([byte]) * length for byte, length in parts)
)
texts = st.binary(max_size=200) | st.text().map(str.encode) | runs
counts = st.none() | st.integers(0, 10**6)


@settings(deadline=None)  # a busy machine is not a finding
@given(texts)
def test_the_floor_is_never_above_the_ceiling(text: bytes) -> None:
    assert 0 <= at_least(text) <= at_most(text) == len(text)


@settings(deadline=None)
@given(texts)
def test_a_run_counts_as_three(text: bytes) -> None:
    """Against the naive way: walk the runs."""
    assert at_least(text) == sum(min(len(list(run)), 3) for _, run in groupby(text)) // 8


@settings(deadline=None)
@given(texts, texts)
def test_more_text_is_no_fewer_tokens_but_for_a_run_across_the_seam(one: bytes, two: bytes) -> None:
    assert at_most(one + two) == at_most(one) + at_most(two)
    assert at_least(one + two) <= at_least(one) + at_least(two) + 1
    assert at_least(one + b"\x00" + two) >= max(at_least(one), at_least(two))


@settings(deadline=None)
@given(st.sampled_from(b"=- \n#*_"), st.integers(0, 10_000))
def test_a_run_of_any_length_is_no_token(byte: int, length: int) -> None:
    """64 "=" are one token: a rule of them must never exclude a small window."""
    assert at_least(bytes([byte]) * length) == 0


@pytest.mark.parametrize(
    ("text", "floor"),
    [(b"", 0), (b"1234567", 0), (b"12345678", 1), (b"a" * 800, 0), (b"ab" * 800, 200), ("é" * 8, 2), (b"aaaa" * 8, 0)],
)
def test_some_floors(text: bytes | str, floor: int) -> None:
    assert at_least(text if isinstance(text, bytes) else text.encode()) == floor


@settings(deadline=None)
@given(counts, counts, counts)
def test_output_is_bound_by_the_request_and_the_target_else_by_the_window(
    asked: int | None, declared: int | None, window: int | None
) -> None:
    bound = most_output(asked, declared, window)
    for limit in (asked, declared):
        assert limit is None or bound <= limit
    if asked is None and declared is None:
        assert bound == (UNBOUNDED_OUTPUT if window is None else window)
    else:
        assert bound in (asked, declared)


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_an_estimate_is_four_bytes_a_token_rounded_up(size: int) -> None:
    assert estimate(size) * 4 >= size > (estimate(size) - 1) * 4
