"""`host`: the user that the host application put into the request, and nobody else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from starlette.authentication import BaseUser, SimpleUser, UnauthenticatedUser

from narrows import Denial, Identity, Inbound
from narrows_plugins.authenticate.host import Host
from tests.plugins.narrow.ruling import block, hooks


class OnlyDisplay(BaseUser):
    """As Starlette's documentation shows: `identity` is left out, so it raises NotImplementedError."""

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def display_name(self) -> str:
        return "alice"


class Broken(OnlyDisplay):
    @property
    def display_name(self) -> str:
        raise RuntimeError("the host's own mistake")


def ask(user: object) -> object:
    headers = (("authorization", "Bearer nrw_canary"), ("x-forwarded-user", "mallory"))
    return block(Host).authenticate(Inbound("POST", "/v1/chat/completions", headers, user=user))


@pytest.mark.parametrize(
    "user",
    [
        SimpleUser("alice"),
        OnlyDisplay(),
        "alice",
        " alice ",
        SimpleNamespace(is_authenticated=True, display_name="alice"),
        SimpleNamespace(is_authenticated=True, identity="alice", display_name="Alice B."),
        SimpleNamespace(is_authenticated=True, identity="", display_name="alice"),
    ],
)
def test_an_authenticated_user_is_its_name(user: object) -> None:
    assert ask(user) == Identity("alice")


@pytest.mark.parametrize(
    "user",
    [
        UnauthenticatedUser(),
        "",
        " ",
        object(),
        {"name": "alice"},
        SimpleNamespace(is_authenticated=False, identity="alice", display_name="alice"),
        SimpleNamespace(is_authenticated=lambda: False, display_name="alice"),
        SimpleNamespace(is_authenticated="no", display_name="alice"),
        SimpleNamespace(display_name="alice"),
        SimpleNamespace(is_authenticated=True, display_name=""),
        SimpleNamespace(is_authenticated=True, identity=7),
    ],
)
def test_anybody_else_is_refused(user: object) -> None:
    answer = ask(user)
    assert isinstance(answer, Denial)
    assert answer.code == "unauthenticated"
    assert "alice" not in answer.why


def test_without_a_user_the_remedy_is_told() -> None:
    answer = ask(None)
    assert isinstance(answer, Denial)
    assert answer.code == "unauthenticated"
    assert "add its authentication middleware" in answer.why


def test_a_host_that_breaks_is_not_swallowed() -> None:
    """An exception of this hook is 401, closed; the loop names the plugin."""
    with pytest.raises(RuntimeError, match="own mistake"):
        ask(Broken())


def test_the_registry_takes_it() -> None:
    assert hooks("authenticators.host", block(Host)) == ("authenticate",)
