"""Narrows: the LLM gateway whose policy can be proved. Eligibility before preference."""

from __future__ import annotations

if __name__ != "narrows":  # a second import under another name would make a second Target class
    raise ImportError(f"import this package as 'narrows', not as {__name__!r}; its root is core/, not the repository")

import logging

from narrows.candidates import Candidates
from narrows.classifying import classify
from narrows.constraints import (
    Attempt,
    Authenticator,
    Block,
    CheckedConfig,
    Constraint,
    Consult,
    Provider,
    Ranker,
    Services,
    Sink,
)
from narrows.decision import Decision
from narrows.errors import (
    ConfigError,
    ContractViolation,
    NarrowsError,
    PluginError,
    Problem,
    RouteExhausted,
)
from narrows.gateway import Gateway
from narrows.hookspecs import hookimpl
from narrows.ledger import Gap, LedgerUnavailable, Page, Query, Reader
from narrows.money import expected_cost, micro_from_pico, micro_usd, usd, worst_case
from narrows.ranking import Ranked
from narrows.request import Reads, Request, Sizes
from narrows.server import NarrowsMiddleware, attach, transport
from narrows.types import (
    Allowance,
    Body,
    Chunks,
    Classified,
    Denial,
    Exclusion,
    Failure,
    FailureClass,
    Identity,
    Inbound,
    Maybe,
    Price,
    Principal,
    Reply,
    Target,
    Usage,
)

__all__ = [
    "Allowance",
    "Attempt",
    "Authenticator",
    "Block",
    "Body",
    "Candidates",
    "CheckedConfig",
    "Chunks",
    "Classified",
    "ConfigError",
    "Constraint",
    "Consult",
    "ContractViolation",
    "Decision",
    "Denial",
    "Exclusion",
    "Failure",
    "FailureClass",
    "Gap",
    "Gateway",
    "Identity",
    "Inbound",
    "LedgerUnavailable",
    "Maybe",
    "NarrowsError",
    "NarrowsMiddleware",
    "Page",
    "PluginError",
    "Price",
    "Principal",
    "Problem",
    "Provider",
    "Query",
    "Ranked",
    "Ranker",
    "Reader",
    "Reads",
    "Reply",
    "Request",
    "RouteExhausted",
    "Services",
    "Sink",
    "Sizes",
    "Target",
    "Usage",
    "attach",
    "classify",
    "expected_cost",
    "hookimpl",
    "micro_from_pico",
    "micro_usd",
    "transport",
    "usd",
    "worst_case",
]

# A library does not write to stderr by itself. Whoever runs us says where our lines go; the command line does.
logging.getLogger(__name__).addHandler(logging.NullHandler())
