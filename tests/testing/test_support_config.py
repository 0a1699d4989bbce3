"""TOML as the tests write it reads back as it was, and event streams read as a browser reads them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.config import basic_config, toml, write_config
from tests.support.sse import Event, sse_events

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(TEXT, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
KEYS = TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@settings(deadline=None)  # a busy machine is not a finding
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_document_reads_back(document: dict[str, object]) -> None:
    assert tomllib.loads(toml(document)) == document


def test_what_has_no_toml_is_refused() -> None:
    with pytest.raises(TypeError, match="no TOML for NoneType"):
        toml({"a": None})


def test_a_basic_config_has_one_target_per_provider(tmp_path: Path) -> None:
    urls = {"eu": "http://127.0.0.1:1/v1", "us": "http://127.0.0.1:2/v1"}
    path = write_config(tmp_path, basic_config(urls, labels={"eu": {"region": "eu"}}, more="\n[auth]\nmode = 'open'\n"))

    assert tomllib.loads(path.read_text(encoding="utf-8")) == {
        "providers": {name: {"kind": "openai_compatible", "base_url": url} for name, url in urls.items()},
        "targets": {
            "eu": {"provider": "eu", "model": "eu", "region": "eu"},
            "us": {"provider": "us", "model": "us"},
        },
        "routes": {"chat": {"targets": ["eu", "us"]}},
        "auth": {"mode": "open"},
    }


def test_a_document_can_be_written_under_another_name(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"server": {"port": 1}}, "policy.toml")
    assert (path.name, path.read_text(encoding="utf-8")) == ("policy.toml", "\n[server]\nport = 1\n")


def test_events_are_read_as_the_standard_says() -> None:
    stream = (
        b': comment\ndata: one\ndata:two\n\nevent: error\r\ndata: {"a": 1}\r\n\r\nevent: x\n\ndata\n\nid: 7\ndata: cut'
    )
    assert sse_events(stream) == [Event("one\ntwo"), Event('{"a": 1}', "error"), Event("")]
    assert sse_events(stream)[1].json == {"a": 1}
    assert sse_events(b"") == []
