"""A large configuration loads, wrong or right. How fast is measured by benchmarks/loading.py, not asserted here."""

from __future__ import annotations

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


def test_a_thousand_targets() -> None:
    found = loaded(LARGE)
    assert len(found.settings.routes["all"].targets) == MANY


def test_a_thousand_mistakes() -> None:
    problems = refused(LARGE.replace("jurisdiction", "jurisdicton").replace('"acme"\nmodel', '"acmee"\nmodel'))
    assert len(problems) == 2 * MANY + 1
