"""A14 (BerriAI/litellm PR#33736): a client dropped a stream, and there was no spend row at all."""

from __future__ import annotations

import pytest

from narrows.testing import Hold, Stream, stream_events
from tests.support.purse import Purse
from tests.surface.support import CHAT, Socket, Way, chat, opened

CONFIG = """
[plugins.purse]
kind = "purse"

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[targets.p]
provider = "vendor"
model = "p"
price = { input = 2.0, output = 10.0 }

[routes.chat]
targets = ["p"]
"""
ROLE, *TOKENS, FINISH, DONE = stream_events("p", " ".join(f"token-{number:02}" for number in range(60)))
TEN = b"".join((ROLE, *TOKENS[:10]))


@pytest.mark.parametrize("way", ["uvicorn", "hypercorn"])
def test_a14_a_client_that_closes_after_10_of_60_chunks_leaves_a_row_with_tokens_and_a_charged_budget(way: Way) -> None:
    purse = Purse()
    with opened(way, CONFIG, kinds={"plugins.purse": purse.kind()}) as site:
        assert isinstance(site, Socket)
        site.provider.script("p", Stream((ROLE, *TOKENS[:10], Hold("the rest"), *TOKENS[10:], FINISH, DONE)))
        with site.client.stream("POST", CHAT, content=chat(stream=True)) as response:
            received = b""
            for chunk in response.iter_raw():
                received += chunk
                if len(received) >= len(TEN):
                    break
            assert received == TEN
        charged = purse.wait()
        decision = site.decision(response)
        assert (decision.outcome, decision.status) == ("client_disconnected", 200)
        (row,) = decision.attempts
        ten = sum(len(f"token-{number:02} ") for number in range(10)) - 1
        assert (row.failure_class, row.usage, row.output_tokens) == ("ok", "estimated", -(-ten // 4))
        assert row.input_tokens > 0
        assert row.cost_micro_usd == row.input_tokens * 2 + row.output_tokens * 10
        assert (charged.input, charged.output, charged.reported) == (row.input_tokens, row.output_tokens, False)
        assert charged.cost_micro_usd == row.cost_micro_usd
        listed = site.get("/v1/decisions").json()["data"]
        assert [(one["id"], one["outcome"], one["cost_micro_usd"]) for one in listed] == [
            (decision.id, "client_disconnected", charged.cost_micro_usd)
        ]

        site.provider.script("p", Stream((ROLE, *TOKENS, FINISH, DONE)))  # the control: who stays pays for all of it
        whole = site.decision(site.ask(stream=True))
        assert (whole.outcome, whole.attempts[0].output_tokens) == ("answered", -(-(60 * 9 - 1) // 4))
        assert purse.wait(2).cost_micro_usd > charged.cost_micro_usd
