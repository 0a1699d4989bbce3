"""The configuration of the hostile gateway: every act has a block of its own, and is named after it."""

from __future__ import annotations

from pathlib import Path

from narrows.testing import RecordingProvider
from tests.contract.hostile import budgets, callers, constraints, narrowers, rankers, upstreams
from tests.support.config import Table, toml

DEADLINE_SECS = 0.3
SLOW_SECS = 0.35
SINKS = ("record_raises", "record_hangs", "record_rewrites")
REMEMBERING = ("remembers", "widens_what_it_was_offered", "widens_what_it_answered")


def config(upstream: RecordingProvider, elsewhere: RecordingProvider, kept: Path) -> str:
    """Two targets in the EU and one in the US, which stands first; a route for each way to be hostile."""
    base, other = upstream.base_url, elsewhere.base_url
    acts = (
        *narrowers.ACTS,
        *constraints.ACTS,
        *rankers.ACTS,
        *callers.IDENTITIES,
        *callers.OBJECTIONS,
        *budgets.ALLOWANCES,
        *upstreams.SENDINGS,
        *REMEMBERING,
        *SINKS,
    )
    sending = {
        act: {"kind": "hostile_sends", "act": act, "base_url": base, "elsewhere": other} for act in upstreams.SENDINGS
    }
    answering = {act: {"kind": "hostile_answers", "act": act} for act in upstreams.ANSWERS}
    classified = dict.fromkeys(upstreams.VERDICTS, "wire")
    own = {**dict.fromkeys((*sending, *answering)), **classified}
    document: Table = {
        "auth": {"mode": "open"},
        "hooks": {"deadline_secs": DEADLINE_SECS, "slow_secs": SLOW_SECS},
        "attributes": {
            "region": {"values": ["eu", "us", "ch"], "header": "x-region"},
            "act": {"values": sorted(acts), "header": "x-act", "missing": "unrestricted"},
        },
        "keys": {"ci": {"targets": ["eu2"]}},
        "constraints": {
            "residency": {"kind": "attribute_match", "request_attribute": "region", "target_attribute": "region"},
            **{act: {"kind": "hostile_rules", "act": act} for act in constraints.ACTS},
        },
        "authenticators": {
            **{act: {"kind": "hostile_recognises", "act": act} for act in callers.IDENTITIES},
            "believes": {"kind": "hostile_believes"},
        },
        "plugins": {
            **{act: {"kind": "hostile_authorizes", "act": act} for act in callers.OBJECTIONS},
            **{act: {"kind": "hostile_allows", "act": act} for act in budgets.ALLOWANCES},
            **{act: {"kind": "hostile_narrows", "act": act} for act in narrowers.ACTS},
            "remembers": {"kind": "hostile_remembers", "act": "remembers"},
            "widens_what_it_was_offered": {
                "kind": "hostile_widens_later",
                "act": "widens_what_it_was_offered",
                "answers": False,
            },
            "widens_what_it_answered": {
                "kind": "hostile_widens_later",
                "act": "widens_what_it_answered",
                "answers": True,
            },
            **{act: {"kind": "hostile_classifies", "act": act} for act in upstreams.VERDICTS},
        },
        "sinks": {
            **{act: {"kind": "hostile_records", "act": act} for act in SINKS},
            "keeps": {"kind": "hostile_keeps", "path": str(kept)},
        },
        "providers": {
            "wire": {"kind": "openai_compatible", "base_url": base, "max_retries": 0},
            **{name: {**block, "max_retries": 0} for name, block in {**sending, **answering}.items()},
        },
        "targets": {
            "us": target("wire", "us", "us"),
            "eu": target("wire", "eu"),
            "eu2": target("wire", "eu2"),
            "spare": target("wire", "spare"),
            **{name: target(provider or name, name) for name, provider in own.items()},
        },
        "routes": {
            "chat": {"targets": ["us", "eu", "eu2"], "constraints": ["residency"]},
            "ranked": {"targets": ["us", "eu", "eu2"], "constraints": ["residency"], "algorithm": "hostile_ranks"},
            "ruled": {"targets": ["us", "eu", "eu2"], "constraints": [*constraints.ACTS, "residency"]},
            "nobody_left": {"targets": ["us"], "constraints": ["residency", *constraints.ACTS]},
            **{name: {"targets": [name, "spare"], "constraints": ["residency"]} for name in own},
            "dispatch_hangs": {"targets": ["dispatch_hangs"], "constraints": ["residency"], "deadline_secs": 0.5},
        },
    }
    return toml(document)


def target(provider: str, model: str, region: str = "eu") -> Table:
    """A target of that region; it has a price, so that a budget can be held."""
    price = {"input": 1.0, "output": 1.0}
    return {"provider": provider, "model": model, "region": region, "max_output_tokens": 100, "price": price}
