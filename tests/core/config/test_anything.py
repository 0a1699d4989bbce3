"""Whatever stands in a file: it loads, or there are problems with code, message and remedy. Nothing else, no secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import ConfigError
from narrows.config import loads
from narrows.config.fields import known_keys
from narrows.config.tables import Document
from narrows.config.unbuilt import TABLE
from tests.core.config.support import ENV, KINDS, registry
from tests.support.config import toml

CODES = {
    "bad_plugin",
    "contradiction",
    "empty_config",
    "missing_key",
    "not_built_yet",
    "not_toml",
    "plaintext_key",
    "policy_redefined",
    "reserved_name",
    "unknown_key",
    "unknown_kind",
    "unknown_reference",
    "variable_unset",
    "wrong_type",
}
SECRETS = ("nrw_0123456789abcdef", "sk-live-0123456789abcdef", "hunter2-is-my-dog")
GROUPS = known_keys(Document, ())
INNER = tuple({key for group in GROUPS for key in known_keys(Document, (group, "x"))})
OPTIONS = tuple({key for kind in KINDS.values() for key in known_keys(kind, ())})
WORDS = st.sampled_from(
    [
        *GROUPS,
        *INNER,
        *OPTIONS,
        *(row.path[-1] for row in TABLE),
        "kind",
        "a",
        "b",
        "x-region",
        "regoin",
        "",
        "é",
        "[key]",
    ]
)
TEXTS = st.one_of(
    WORDS,
    st.sampled_from(
        [*(kind.partition(".")[2] for kind in KINDS), *SECRETS[:2], "eu", "*", "http://h/v1", "MISSING_KEY"]
    ),
    st.sampled_from([word for row in TABLE for word in row.planned]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-1, 2), st.floats(-1, 1), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
)
TABLES = st.dictionaries(WORDS, VALUES, max_size=5)
DOCUMENTS = st.dictionaries(
    st.one_of(st.sampled_from(GROUPS), WORDS),
    st.one_of(VALUES, TABLES, st.dictionaries(WORDS, TABLES, max_size=2)),
    max_size=4,
)
KINDS_HERE = registry()


@given(DOCUMENTS)
def test_it_loads_or_says_what_is_wrong(document: dict[str, Any]) -> None:
    try:
        loads(toml(document), KINDS_HERE, ENV)
    except ConfigError as error:
        problems = error.problems
    else:
        return
    assert problems
    for problem in problems:
        assert problem.code in CODES
        assert problem.message
        assert problem.remedy
        assert problem.file == "<text>"
        assert problem.line or problem.code == "unknown_kind"
    assert not any(secret in repr(problems) for secret in SECRETS)


@given(st.sampled_from(GROUPS), WORDS, WORDS, st.sampled_from(SECRETS))
def test_a_secret_is_never_repeated(group: str, name: str, key: str, secret: str) -> None:
    """Beside a key that is known to hold one, at any place of the file."""
    document = {group: {name: {key: secret}}, "providers": {"p": {"kind": "echo", "api_key": secret}}}
    if group == "providers":
        document = {"providers": {name: {"kind": "echo", "api_key": secret, key: secret}}}
    with pytest.raises(ConfigError) as caught:
        loads(toml(document), KINDS_HERE, ENV)
    assert "plaintext_key" in {problem.code for problem in caught.value.problems}
    assert secret not in repr(caught.value.problems)
