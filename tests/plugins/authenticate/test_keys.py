"""`keys`: who is recognised, who is refused, and that no key or hash is ever said."""

from __future__ import annotations

import hashlib
import hmac
import traceback

import pytest
from pydantic import ValidationError

from narrows import Denial, Identity, Inbound
from narrows_plugins.authenticate import keys
from narrows_plugins.authenticate.keys import Keys
from tests.plugins.narrow.ruling import block, hooks

CI, BATCH = "nrw_canary_ci", "nrw_canary_batch"


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


KNOWN = {"ci": sha256(CI), "batch": sha256(BATCH).upper()}
CANARIES = (CI, BATCH, *KNOWN.values(), sha256(BATCH), "nrw_canary", "dXNlcjpwYXNz")


def authenticator() -> Keys:
    return block(Keys, sha256=KNOWN)


def inbound(*headers: tuple[str, str]) -> Inbound:
    return Inbound("POST", "/v1/chat/completions", headers)


def denied(answer: object) -> Denial:
    assert isinstance(answer, Denial)
    assert answer.code == "unauthenticated"
    assert not any(canary in f"{answer!r}" for canary in CANARIES)
    return answer


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {CI}")],
        [("authorization", f"bearer   {CI} ")],
        [("x-api-key", CI)],
        [("x-api-key", f" {CI} "), ("authorization", f"BEARER {CI}")],
        [("authorization", f"Bearer {CI}"), ("authorization", f"Bearer {CI}")],
        [("content-type", "application/json"), ("x-api-key", CI)],
    ],
)
def test_a_known_key_is_its_name(headers: list[tuple[str, str]]) -> None:
    assert authenticator().authenticate(inbound(*headers)) == Identity("ci")


def test_a_hash_may_be_written_in_capitals() -> None:
    assert authenticator().authenticate(inbound(("x-api-key", BATCH))) == Identity("batch")


def test_no_credential_is_not_ours() -> None:
    assert authenticator().authenticate(inbound(("cookie", f"authorization={CI}"), ("x-region", "eu"))) is None


@pytest.mark.parametrize(
    "key", ["nrw_canary_no", f"{CI} ", f"{CI}, {CI}", CI.upper(), CI[:-1], KNOWN["ci"], "é", "€", "\udc80"]
)
def test_an_unknown_key_is_refused(key: str) -> None:
    answer = authenticator().authenticate(inbound(("x-api-key", f"-{key}"), ("authorization", f"Bearer -{key}")))
    assert "not known here" in denied(answer).why


def test_the_hash_is_no_key() -> None:
    denied(authenticator().authenticate(inbound(("authorization", f"Bearer {KNOWN['ci']}"))))


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {CI}"), ("x-api-key", BATCH)],
        [("x-api-key", CI), ("x-api-key", BATCH)],
        [("authorization", f"Bearer {CI}"), ("authorization", "Bearer nrw_canary_no")],
        [("authorization", "Bearer nrw_canary_no"), ("x-api-key", CI)],
        [("authorization", f"Bearer {CI}"), ("x-api-key", "")],
    ],
)
def test_two_different_keys_are_refused(headers: list[tuple[str, str]]) -> None:
    assert "two different keys" in denied(authenticator().authenticate(inbound(*headers))).why


@pytest.mark.parametrize("value", ["Basic dXNlcjpwYXNz", f"Token {CI}", CI, "", "Bearer", "Bearer "])
def test_another_scheme_is_refused_and_told_what_is_expected(value: str) -> None:
    for others in ((), (("x-api-key", CI),)):
        answer = authenticator().authenticate(inbound(("authorization", value), *others))
        if value.startswith("Bearer") and others:
            assert "two different keys" in denied(answer).why
        else:
            assert "'Authorization: Bearer KEY' or 'x-api-key: KEY'" in denied(answer).why


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_key_is_refused(value: str) -> None:
    assert "empty" in denied(authenticator().authenticate(inbound(("x-api-key", value)))).why


def test_a_key_of_any_letters_is_compared_as_its_bytes() -> None:
    made = block(Keys, sha256={"umlaut": sha256("schlüssel"), "euro": sha256("ключ€")})
    on_the_wire = "schlüssel".encode().decode("latin-1")
    assert made.authenticate(inbound(("x-api-key", on_the_wire))) == Identity("umlaut")
    assert made.authenticate(inbound(("x-api-key", "ключ€"))) == Identity("euro")


def test_every_digest_of_a_shelf_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that begin with the same two digest bytes stand on one shelf; none is skipped, not even after a hit."""
    made = block(Keys, sha256={"ci": sha256(CI), "near": sha256(CI)[:4] + "0" * 60, "far": "f" * 64})
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(keys, "hmac", type("spy", (), {"compare_digest": staticmethod(compare)}))
    assert made.authenticate(inbound(("x-api-key", CI))) == Identity("ci")
    assert len(compared) == 2
    compared.clear()
    denied(made.authenticate(inbound(("x-api-key", "nrw_canary_no"))))
    assert len(compared) == 1


def test_many_keys_are_each_found() -> None:
    many = {f"k{n}": sha256(f"key-{n}") for n in range(2000)}
    made = block(Keys, sha256=many)
    assert all(made.authenticate(inbound(("x-api-key", f"key-{n}"))) == Identity(f"k{n}") for n in range(2000))


def test_nobody_is_known_without_keys() -> None:
    denied(block(Keys, sha256={}).authenticate(inbound(("x-api-key", CI))))


# ---- secrets -----------------------------------------------------------------------------------------------------


def test_no_hash_is_in_a_text_of_the_block() -> None:
    made = authenticator()
    for text in (repr(made), str(made), f"{made}", repr([made]), repr(inbound(("x-api-key", CI)))):
        assert not any(canary.lower() in text.lower() for canary in CANARIES)


@pytest.mark.parametrize(
    ("sha", "text"),
    [
        ({"ci": CI}, "the sha256 of key ci is not 64 hexadecimal digits; `narrows keygen`"),
        ({"ci": KNOWN["ci"][:-1]}, "key ci is not 64 hexadecimal digits"),
        ({"ci": "g" + KNOWN["ci"][1:]}, "key ci is not 64 hexadecimal digits"),
        ({"ci": KNOWN["ci"], "twin": KNOWN["ci"].upper()}, "keys ci and twin have the same sha256"),
        ({"ci": 7}, "valid string"),
        (CI, "valid"),
    ],
)
def test_a_wrong_hash_is_refused_and_not_repeated(sha: object, text: str) -> None:
    with pytest.raises(ValidationError, match=text) as caught:
        block(Keys, sha256=sha)
    shown = [str(caught.value), repr(caught.value), *traceback.format_exception_only(caught.value)]
    shown += [error["msg"] for error in caught.value.errors()]
    for canary in (CI, KNOWN["ci"][:-1]):
        assert not any(canary in line for line in shown)


def test_the_registry_takes_it() -> None:
    assert hooks("authenticators.keys", authenticator()) == ("authenticate",)
