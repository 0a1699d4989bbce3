"""Compressed bodies, in any pieces and never as a whole."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.upstream.encoding import PIECE, Inflate

TEXT = b'data: {"n": 1}\n\n' * 300


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


FORMS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zlib": zlib.compress, "raw": raw_deflate}


def inflated(pieces: list[bytes]) -> bytes:
    inflate = Inflate()
    out = b"".join(part for piece in pieces for part in inflate.feed(piece))
    inflate.end()
    return out


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_however_it_is_cut_the_same_comes_out(form: str, cuts: list[int]) -> None:
    packed = FORMS[form](TEXT)
    edges = [0, *sorted(cuts), len(packed)]
    assert inflated([packed[start:end] for start, end in pairwise(edges)]) == TEXT


def test_a_second_gzip_member_is_read() -> None:
    assert inflated([gzip.compress(b"one ") + gzip.compress(b"two")]) == b"one two"


def test_a_bomb_comes_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    sizes = [len(piece) for piece in Inflate().feed(bomb)]
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= PIECE


def test_what_is_ready_comes_before_the_body_ends() -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    inflate = Inflate()
    for number in range(3):
        event = b"data: %d\n\n" % number
        assert b"".join(inflate.feed(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH))) == event


@pytest.mark.parametrize("form", FORMS)
def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one(form: str) -> None:
    packed = FORMS[form](TEXT)
    for size in (1, 5, len(packed) // 2):
        with pytest.raises(zlib.error):
            inflated([packed[:size]])


def test_no_body_at_all_is_one() -> None:
    assert inflated([]) == b""


def test_what_is_not_compressed_is_an_error() -> None:
    with pytest.raises(zlib.error):
        inflated([b"\x1f\x8bnot gzip at all"])
