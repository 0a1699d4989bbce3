"""A13 (maximhq/bifrost#2873): a pass-through endpoint ignored the key's budget.

An exhausted key calls any path that could reach a provider: refused on every one, zero upstream calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from narrows import Block, Request, Usage, hookimpl
from tests.surface.keyring import KEYRING, bearer
from tests.surface.support import CHAT, EXPLAIN, JSON, PROMPT, WAYS, Site, assert_refused, chat, opened

PRICED = KEYRING.replace(
    "[targets.paris]", "[targets.paris]\nprice = { input = 1.0, output = 2.0 }\nmax_output_tokens = 50"
)

PATHS = [
    "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/completions",
    "/v1/images/generations", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/moderations", "/v1/files",
    "/v1/batches", "/v1/realtime", "/v1/rerank", "/v1/models/chat", "/v1/threads", "/v1/assistants",
    "/v1/chat/completions/", "/v1/chat/completions/stream", "//v1/chat/completions", "/V1/chat/completions",
    "/chat/completions", "/completions", "/openai/v1/chat/completions", "/openai/deployments/x/chat/completions",
    "/anthropic/v1/messages", "/vendor/chat/completions", "/passthrough/v1/chat/completions", "/proxy",
    "/api/v1/chat/completions", "/v1beta/models/x:generateContent", "/engines/x/completions", "/",
]  # fmt: skip
"""Where other gateways have a way through."""


class Spent(Block):
    """The caller `narrow` has nothing left. It holds where money is asked for, and nowhere else."""

    @hookimpl
    def budget(self, request: Request) -> Empty | None:
        return Empty() if request.principal.name == "narrow" else None


class Empty:
    """Nothing left."""

    def room(self) -> int:
        return 0

    def hold(self, amount: int) -> int:
        return 0

    def settle(self, usage: Usage) -> None:
        return

    def release(self) -> None:
        return


@pytest.fixture(scope="module", params=WAYS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    text = PRICED.replace('targets = ["paris", "ohio"]', 'targets = ["paris"]') + '\n[plugins.spent]\nkind = "spent"\n'
    with opened(request.param, text, kinds={"plugins.spent": Spent}, open_access=False) as site:
        yield site


def test_a13_an_exhausted_key_is_refused_where_money_is_asked_for(site: Site) -> None:
    site.clear()
    for stream in (False, True):
        assert_refused(site.send(chat(stream=stream), (JSON, bearer("narrow"))), "budget_exhausted")
    explained = site.send(chat(), (JSON, bearer("narrow")), path=EXPLAIN).json()
    assert (explained["outcome"], explained["code"]) == ("refused", "budget_exhausted")
    assert site.provider.calls == []
    assert site.send(chat(), (JSON, bearer("all"))).status_code == 200  # the same request, of a key with money
    assert site.provider.count() == 1


def test_a13_no_other_path_reaches_a_provider(site: Site) -> None:
    site.clear()
    for path in PATHS:
        status, headers = site.at(path)
        assert (status, headers["x-narrows-code"]) == (404, "not_found"), path
        for who in ("narrow", "all"):  # nor with money
            assert_refused(site.send(chat(), (JSON, bearer(who)), path=path.replace("//", "/x/")), "not_found")
        assert_refused(site.get(path.replace("//", "/x/"), [bearer("narrow")]), "not_found")
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert_refused(site.send(b"", (JSON, bearer("narrow")), method=method, path=CHAT), "method_not_allowed")
    assert site.provider.calls == []
    assert PROMPT not in "".join(site.log.lines)
