"""Loading a large configuration is fast, wrong or right: `check` of 1,000 targets has 2 s for everything."""

from __future__ import annotations

import time

from tests.core.config.support import BASE, loaded, refused

MANY = 1000
TARGET = """
[targets.t{n}]
provider = "acme"
model = "large-{n}"
region = ["eu-west", "eu-central"]
jurisdiction = "eu"
class = "private"
capabilities = {{ tools = true, vision = false }}
context_window = {n}
labels = {{ quantisation = "fp8" }}
price = {{ input = 1.0, output = 8.0 }}
"""
LARGE = BASE + "".join(TARGET.format(n=n) for n in range(1, MANY + 1)) + "[routes.all]\ntargets = [" + (
    ", ".join(f'"t{n}"' for n in range(1, MANY + 1)) + "]\n"
)  # fmt: skip
MOST_SECS = 2.0  # measured: 0.25; the machine may be busy


def test_a_thousand_targets() -> None:
    started = time.perf_counter()
    found = loaded(LARGE)
    assert time.perf_counter() - started < MOST_SECS
    assert len(found.settings.routes["all"].targets) == MANY


def test_a_thousand_mistakes() -> None:
    started = time.perf_counter()
    problems = refused(LARGE.replace("jurisdiction", "jurisdicton").replace('"acme"\nmodel', '"acmee"\nmodel'))
    assert time.perf_counter() - started < MOST_SECS
    assert len(problems) == 2 * MANY + 1
