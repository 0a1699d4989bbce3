"""Narrows as one more contestant: five constraints over twenty targets, keys, everything of this version on.

UPSTREAM=http://127.0.0.1:PORT [NARROWS_FAST=0] [NARROWS_LEDGER=FILE] [NARROWS_BARE=1] uvicorn benchmarks.gateway_app:app

NARROWS_LEDGER: decisions are kept in that file. NARROWS_BARE: they are neither offered to anybody nor counted.
"""

from __future__ import annotations

import os

from narrows import Gateway
from narrows.server import Application
from narrows.upstream import Clients

UPSTREAM = os.environ.get("UPSTREAM", "http://127.0.0.1:19900")
TARGETS = 20


def configuration(model: str) -> str:
    """One route of that name; every target asks the upstream for the same model."""
    lines = [
        '[attributes.data-region]\nvalues = ["eu", "any"]\nmissing = "unrestricted"',
        '[attributes.team]\nvalues = ["a", "b"]\nmissing = "unrestricted"',
        (
            '[constraints.residency]\nkind = "attribute_match"\nrequest_attribute = "data-region"\n'
            'target_attribute = "region"\naccept = { eu = ["eu"], any = "*" }'
        ),
        '[constraints.teams]\nkind = "attribute_match"\nrequest_attribute = "team"\ntarget_attribute = "team"',
        '[constraints.price]\nkind = "cost_ceiling"\nmax_cost_per_mtok_out = 15',
        '[constraints.input-price]\nkind = "cost_ceiling"\nmax_cost_per_mtok_in = 15',
        '[constraints.classes]\nkind = "allowed_classes"\nclasses = ["private", "public"]',
        f'[providers.p]\nkind = "openai_compatible"\nbase_url = "{UPSTREAM}/v1"',
        f'[keys.bench]\nsha256 = "{_key()}"',
    ]
    lines.extend(
        f'[targets.t{n}]\nprovider = "p"\nmodel = "{model}"\nregion = "{"eu" if n % 2 else "us"}"\nclass = "private"\n'
        f'labels = {{ team = "a" }}\ncontext_window = 128000\nprice = {{ input = 1.0, output = {1 + n} }}'
        for n in range(TARGETS)
    )
    names = ", ".join(f'"t{n}"' for n in range(TARGETS))
    rules = '["residency", "teams", "price", "input-price", "classes"]'
    lines.append(f'[routes."{model}"]\ntargets = [{names}]\nconstraints = {rules}')
    return "\n".join(lines)


def _key() -> str:
    from hashlib import sha256

    return sha256(b"sk-bench").hexdigest()


def ledger() -> str:
    """The block of the ledger, where there is to be one."""
    file = os.environ.get("NARROWS_LEDGER")
    return f'\n[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{file}"\n' if file else ""


def bare(built: Gateway) -> None:
    """The same gateway without its record and its metrics."""
    type(built.engine.recorders).offer = lambda *_: None  # type: ignore[method-assign]
    type(built.engine.metrics).decided = lambda *_: None  # type: ignore[method-assign]


gateway = Gateway.from_text(configuration(os.environ.get("BENCH_MODEL", "bench")) + ledger())
if os.environ.get("NARROWS_BARE") == "1":
    bare(gateway)
if os.environ.get("NARROWS_FAST") == "0":  # the same HTTP client as the floor, so that the ratio is about us alone
    object.__setattr__(gateway.engine, "clients", Clients(fast=False))
app = Application(gateway)
