"""The configuration behind the fixture `stage`."""

from __future__ import annotations

KEYS = {"E2E_KEY_ONE": "sk-canary-one-0f3c", "E2E_KEY_TWO": "sk-canary-two-77ab"}
"""The keys of the two accounts: found in a header of a call, and nowhere else."""

THREE = """
[providers.one]
kind = "openai_compatible"
base_url = "{url}"
api_key_env = "E2E_KEY_ONE"

[providers.two]
kind = "openai_compatible"
base_url = "{url}"
api_key_env = "E2E_KEY_TWO"

[providers.hasty]
kind = "openai_compatible"
base_url = "{url}"
timeout_secs = 0.15
max_retries = 0

[providers.small]
kind = "openai_compatible"
base_url = "{url}"
max_connections = 4
max_retries = 0

[providers.dead]
kind = "openai_compatible"
base_url = "http://127.0.0.1:{dead}/v1"

[targets.a]
provider = "one"
model = "a"
context_window = 8000

[targets.b]
provider = "one"
model = "b"
context_window = 8000

[targets.c]
provider = "two"
model = "c"
context_window = 16000

[targets.hasty_a]
provider = "hasty"
model = "a"

[targets.hasty_b]
provider = "hasty"
model = "b"

[targets.small]
provider = "small"
model = "small"

[targets.dead]
provider = "dead"
model = "dead"

[routes.chat]
targets = ["a", "b", "c"]

[routes.once]
targets = ["a", "b", "c"]
max_retries = 0

[routes.alone]
targets = ["a"]
max_retries = 0

[routes.off]
targets = ["a", "b", "c"]
failover_on = []

[routes.timeouts]
targets = ["a", "b", "c"]
failover_on = ["timeout"]

[routes.widest]
targets = ["a", "b", "c"]
failover_on = ["timeout", "rate_limited", "server_error", "endpoint_dead", "context_length"]

[routes.windows]
targets = ["a", "hasty_b", "c"]
failover_on = ["context_length"]

[routes.hasty]
targets = ["hasty_a", "hasty_b"]

[routes.short]
targets = ["a", "b"]
deadline_secs = 0.15

[routes.small]
targets = ["small"]

[routes.refused]
targets = ["dead"]

[routes.refused_first]
targets = ["dead", "b"]
"""
"""Provider, targets and routes by what is special about them. `one` and `two` are accounts with keys of their own."""
