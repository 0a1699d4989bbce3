"""One loaded configuration, compiled: what a request lives on from start to finish.

A reload builds a whole new snapshot or changes nothing; nothing here changes after it is built, but for caches of pure
answers. Source: DESIGN sections 1 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from narrows.attributes import CALLER_SOURCES, Reader, Said
from narrows.calls import Impl
from narrows.candidates import Pool
from narrows.constraints import Provider
from narrows.decision import Facts
from narrows.demands import Rule, attribute_rules, is_free
from narrows.errors import Problem
from narrows.failover import FailoverRule
from narrows.registry import Implementations
from narrows.request import Request
from narrows.types import LabelValue, Principal, Target
from narrows.upstream import Origin

_FREE_CACHED = 10_000
Described: TypeAlias = tuple[Mapping[str, Mapping[str, LabelValue]], Mapping[str, Facts]]
"""Labels and facts of targets, by their names."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal and what its key and tenant say for it: attribute -> source -> values."""

    principal: Principal
    bound: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vendor:
    """One provider block, ready to be asked. `origin` None: it answers in this process."""

    name: str
    kind: str
    block: Provider
    dispatch: Impl
    origin: Origin | None
    max_retries: int

    @property
    def credential(self) -> str:
        """What tells two credentials apart: the variable's name, else the provider's."""
        return self.block.credential() or f"provider {self.name}"


@dataclass(frozen=True, slots=True)
class Route:
    """A public model name. `narrowers`: the plugins that narrow it, in their order; `rules`: those that are constraints.
    `silence_refused`: attributes that a request must say here."""

    name: str
    pool: Pool
    rules: tuple[Rule, ...]
    narrowers: tuple[Impl, ...]
    ranker: Impl
    algorithm: str
    failover: FailoverRule
    max_retries: int | None
    deadline_secs: float
    silence_refused: frozenset[str]
    _granted: dict[str, int] = field(default_factory=dict)
    _free: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    _described: dict[int, Described] = field(default_factory=dict)

    def granted(self, principal: Principal) -> int:
        """The mask of the targets that this caller may use."""
        if principal.targets is None and principal.providers is None:
            return self.pool.full
        mask = self._granted.get(principal.name)
        if mask is None:
            mask = self.pool.mask_of(lambda target: may_use(principal, target))
            self._granted[principal.name] = mask
        return mask

    def described(self, granted: int) -> Described:
        """What the granted targets declare, as every decision tells it. Built once for each set of grants."""
        known = self._described.get(granted)
        if known is None:
            targets = tuple(self.pool.members(granted))
            labels = MappingProxyType({target.name: target.labels for target in targets})
            known = self._described[granted] = (labels, MappingProxyType({t.name: _facts(t) for t in targets}))
        return known

    def forbidden(self, reader: Reader, caller: Caller, request: Request, said: Said) -> tuple[str, str] | None:
        """The first (attribute, value) that this caller says and may not: neither free nor granted. Raises RuleFailed."""
        principal = caller.principal
        for name, sources in said.items():
            attribute = reader.attributes[name]
            if name in caller.bound or attribute.missing == "unrestricted":
                continue
            leave = principal.may_say.get(name, frozenset())
            for source in CALLER_SOURCES:
                for value in sorted(sources.get(source, frozenset()) - leave):
                    if not self._is_free(reader, request, name, value):
                        return name, value
        return None

    def _is_free(self, reader: Reader, request: Request, name: str, value: str) -> bool:
        key = (request.principal.name, name, value)
        known = self._free.get(key)
        if known is None:
            silent = None if name in self.silence_refused else reader.attributes[name].values
            readers = attribute_rules(self.rules, name)
            known = is_free(self.pool, self.granted(request.principal), readers, request, name, value, silent)
            if any(rule.reads_body for rule in readers):
                return known  # of this body; another one may make the value a privilege
            if len(self._free) >= _FREE_CACHED:
                self._free.clear()
            self._free[key] = known
        return known


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a request needs of its configuration. `policy`: SHA-256 (64 hex) of its canonical form, with the plugin
    distributions and versions."""

    policy: str
    canonical: str
    reader: Reader
    targets: Mapping[str, Target]
    extra_body: Mapping[str, Mapping[str, bytes]]
    vendors: Mapping[str, Vendor]
    routes: Mapping[str, Route]
    callers: Mapping[str, Caller]
    auth_mode: str | None
    stranger: Caller
    implementations: Implementations
    max_body_bytes: int
    smallest_window: int | None
    metrics_key: str | None = field(default=None, repr=False)
    warnings: tuple[Problem, ...] = ()

    def caller(self, name: str) -> Caller | None:
        """The caller of that configured name; in host mode any other is a caller without a key's grants."""
        known = self.callers.get(name)
        if known is not None or self.auth_mode != "host":
            return known
        return Caller(Principal(name, may_say=self.stranger.principal.may_say))


def may_name(principal: Principal, route: str) -> bool:
    """Is the caller granted the route of that name?"""
    return principal.routes is None or route in principal.routes


def may_use(principal: Principal, target: Target) -> bool:
    """Is the caller granted this target?"""
    if principal.targets is not None and target.name not in principal.targets:
        return False
    return principal.providers is None or target.provider in principal.providers


def _facts(target: Target) -> Facts:
    return Facts(target.capabilities, target.context_window, target.max_output_tokens, target.price)
