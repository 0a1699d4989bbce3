"""From a loaded configuration to a snapshot, with every check that needs the compiled whole.

A mistake here fails the load instead of leaking later: a target without the label a rule reads, a route that no request
could satisfy, a rule whose `demands` raises. All problems at once. Source: DESIGN sections 4 and 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec

from narrows.advice import advice
from narrows.attributes import Attribute, Reader
from narrows.calls import Impl
from narrows.candidates import Pool
from narrows.config import Loaded, RouteConf, TargetConf
from narrows.constraints import CheckedConfig, Constraint, Provider, Ranker
from narrows.demands import Rule, RuleFailed, attribute_rules, left
from narrows.errors import ConfigError, Problem
from narrows.failover import FailoverRule
from narrows.registry import Implementations, Registered
from narrows.request import Request, Sizes
from narrows.satisfiable import satisfiable, values_read
from narrows.snapshot import Caller, Route, Snapshot, Vendor
from narrows.types import ANONYMOUS, EMPTY, Principal, Target
from narrows.upstream import Origin

_HEADER_ONLY = frozenset({"header"})
ALWAYS_LAST = ("capability", "context_window")
SMALLEST = Request("", Principal(ANONYMOUS), EMPTY, frozenset(), Sizes(max_output=0))
"""What a rule is asked about at load: the body that needs least, so what it excludes even here it always excludes."""


def compiled(loaded: Loaded) -> Snapshot:
    """The snapshot of a loaded configuration. Raises ConfigError with all problems, each with its place."""
    return _Compiler(loaded).snapshot()


class _Compiler:
    def __init__(self, loaded: Loaded) -> None:
        self.loaded, self.settings = loaded, loaded.settings
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.implementations = Implementations(loaded.blocks)
        kinds = {entry.name: entry.kind.short for entry in loaded.blocks if isinstance(entry.block, Provider)}
        self.targets = {name: _target(conf, kinds[conf.provider]) for name, conf in self.settings.targets.items()}
        self.rules = {entry.name: _rule(entry) for entry in loaded.blocks if isinstance(entry.block, Constraint)}
        self.reader = Reader(self._attributes())

    def snapshot(self) -> Snapshot:
        routes = {name: self._route(conf) for name, conf in self.settings.routes.items()}
        for name, route in routes.items():
            self._check_route(name, route)
        self.warnings += advice(routes.values(), self.rules.values(), self.reader)
        self._check_judges()
        self._check_hooks()
        if self.problems:
            raise ConfigError([self._placed(problem) for problem in self.problems])
        windows = [t.context_window for t in self.targets.values() if t.context_window is not None]
        auth = self.settings.auth
        return Snapshot(
            policy=self.loaded.policy,
            canonical=self.loaded.canonical,
            reader=self.reader,
            targets=self.targets,
            extra_body={name: _extra(conf.extra_body) for name, conf in self.settings.targets.items()},
            vendors={
                entry.name: self._vendor(entry, entry.block)
                for entry in self.loaded.blocks
                if isinstance(entry.block, Provider)
            },
            routes=routes,
            callers={name: self._caller(name) for name in self.settings.keys},
            auth_mode=auth.mode or ("keys" if self.settings.keys else None),
            stranger=Caller(Principal(ANONYMOUS, may_say=MappingProxyType(auth.may_say))),
            implementations=self.implementations,
            max_body_bytes=self.settings.server.max_body_bytes,
            smallest_window=min(windows, default=None),
            metrics_key=self.settings.server.metrics_key_sha256,
            warnings=(*self.loaded.warnings, *(self._placed(warning) for warning in self.warnings)),
        )

    # ---- attributes and callers --------------------------------------------------------------------------------

    def _attributes(self) -> Iterable[Attribute]:
        for name, conf in self.settings.attributes.items():
            yield Attribute(name, frozenset(conf.values), conf.header or name.casefold(), frozenset(conf.sources),
                            conf.missing)  # fmt: skip
        undeclared: dict[str, str] = {}
        for rule in self.rules.values():
            for name in sorted(rule.attributes or ()):
                if name not in self.settings.attributes:
                    undeclared.setdefault(name, rule.name)
        for name, constraint in undeclared.items():
            self.warnings.append(
                Problem(
                    "binds_only_who_says",
                    f"nobody declares the attribute {name!r}: the constraint binds only requests that send that header",
                    path=f"constraints.{constraint}",
                    remedy=f"Declare [attributes.{name}] with its values, so that silence is bound too.",
                    severity="warning",
                )
            )
            yield Attribute(name, None, name.casefold(), _HEADER_ONLY, "unrestricted")

    def _caller(self, name: str) -> Caller:
        key = self.settings.keys[name]
        tenant = self.settings.tenants.get(key.tenant) if key.tenant is not None else None
        bound: dict[str, dict[str, frozenset[str]]] = {}
        may_say: dict[str, frozenset[str]] = {}
        for source, conf in (("tenant", tenant), ("key", key)):
            if conf is None:
                continue
            for attribute, values in conf.attributes.items():
                bound.setdefault(attribute, {})[source] = values
            for attribute, values in conf.may_say.items():
                may_say[attribute] = may_say.get(attribute, frozenset()) | values
        merged = {a: frozenset[str]().union(*sources.values()) for a, sources in bound.items()}
        principal = Principal(
            name, key.tenant, key.tags, key.routes, key.targets, key.providers,
            attributes=MappingProxyType(merged), may_say=MappingProxyType(may_say),
        )  # fmt: skip
        return Caller(principal, bound)

    # ---- routes --------------------------------------------------------------------------------------------------

    def _route(self, conf: RouteConf) -> Route:
        pool = Pool([self.targets[name] for name in conf.targets])
        named = [self.rules[name] for name in conf.constraints]
        added = [rule for rule in self.rules.values() if rule.block.always and rule not in named]
        added = [rule for rule in added if rule.name not in ALWAYS_LAST]
        last = [self.rules[name] for name in ALWAYS_LAST]
        rules = (*named, *added, *last)
        narrow = {impl.path: impl for impl in self.implementations.of("narrow")}
        free = [impl for impl in narrow.values() if not isinstance(impl.owner, Constraint)]
        narrowers = (
            *(narrow[f"constraints.{rule.name}"] for rule in (*named, *added)),
            *free,
            *(narrow[f"constraints.{rule.name}"] for rule in last),
        )
        return Route(
            name=conf.name,
            pool=pool,
            rules=rules,
            narrowers=narrowers,
            ranker=self.implementations.at(f"routes.{conf.name}.{conf.algorithm}", "rank"),
            algorithm=conf.algorithm,
            failover=FailoverRule.from_option(conf.failover_on),
            max_retries=conf.max_retries,
            deadline_secs=conf.deadline_secs,
            silence_refused=self._silence_refused(pool, rules),
        )

    def _silence_refused(self, pool: Pool, rules: tuple[Rule, ...]) -> frozenset[str]:
        """`refuse` where a rule of the route reads the attribute, and a floor that is empty for the smallest body too."""
        refused = set()
        for attribute in self.reader.attributes.values():
            readers = attribute_rules(rules, attribute.name)
            if not readers or not attribute.declared or attribute.missing == "unrestricted":
                continue
            everything = {attribute.name: attribute.values or frozenset()}
            if attribute.missing == "refuse" or not self._left(pool, readers, everything):
                refused.add(attribute.name)
        return frozenset(refused)

    def _left(self, pool: Pool, rules: tuple[Rule, ...], attributes: Mapping[str, frozenset[str]]) -> int:
        try:
            return left(pool, rules, SMALLEST, attributes)
        except RuleFailed as failed:
            self._raises(failed.rule, failed.error, "when it is asked what it demands and excludes")
            return pool.full

    def _satisfiable(self, route: Route) -> bool:
        readable = tuple(rule for rule in route.rules if not rule.reads_body)
        try:
            return satisfiable(route.pool, readable, self.reader.attributes.values())
        except RuleFailed as failed:
            self._raises(failed.rule, failed.error, "when it is asked what it demands and excludes")
            return True

    def _removals(self, route: Route) -> str:
        """Which constraint removes which targets of a route that no request could be served on."""
        told = []
        for rule in route.rules:
            names: list[str] = []
            for value in values_read(rule, self.reader.attributes.values()):
                gone = route.pool.full & ~self._left(route.pool, (rule,), value)
                said = " and ".join(f"{a} = {', '.join(sorted(v))}" for a, v in value.items())
                removed = ", ".join(target.name for target in route.pool.members(gone))
                if removed:
                    names.append(f"{removed}{f' (for {said})' if said else ''}")
            if names:
                told.append(f"[{rule.name}] removes {'; '.join(names)}")
        return ". ".join(told) or "its constraints together leave none of its targets"

    def _unmet(self, rule: Rule, route: Route) -> tuple[str, ...]:
        try:
            return tuple(rule.block.problems(route.pool.targets))
        except Exception as error:  # noqa: BLE001 - a third party's code, run at load
            self._raises(rule.name, error, "when it is asked for its problems")
            return ()

    def _raises(self, rule: str, error: Exception, when: str) -> None:
        text = f"this constraint raises {type(error).__name__} {when}: {error}"
        problem = Problem("bad_plugin", text, path=f"constraints.{rule}")
        if problem not in self.problems:
            self.problems.append(problem)

    def _check_route(self, name: str, route: Route) -> None:
        before = len(self.problems)
        for rule in route.rules:
            self._left(route.pool, (rule,), {})
            for text in self._unmet(rule, route):
                self.problems.append(Problem("unmet_constraint", f"on route {name!r}: {text}",
                                             path=f"constraints.{rule.name}"))  # fmt: skip
        if len(self.problems) > before:
            return  # what it leaves follows from them
        if not self._satisfiable(route):
            self.problems.append(
                Problem(
                    "route_unsatisfiable",
                    f"no request could be served on route {name!r}: {self._removals(route)}",
                    path=f"routes.{name}",
                    remedy="Add a target that its constraints permit, or take a constraint out.",
                )
            )

    # ---- the rest --------------------------------------------------------------------------------------------------

    def _vendor(self, entry: Registered, block: Provider) -> Vendor:
        origin = None
        if block.base_url is not None:
            origin = Origin(
                base_url=block.base_url,
                timeout_secs=block.timeout_secs,
                max_connections=block.max_connections,
                proxy=block.proxy,
            )
        dispatch: Impl = self.implementations.at(entry.path, "dispatch")
        return Vendor(entry.name, entry.kind.short, block, dispatch, origin, block.max_retries)

    def _check_judges(self) -> None:
        for entry in self.loaded.blocks:
            if isinstance(entry.block, Ranker) and entry.block.judges():
                self.problems.append(
                    Problem(
                        "not_built_yet",
                        f"the ranker {entry.name!r} asks judge models, which this version cannot narrow yet",
                        path=entry.path,
                        remedy="Use a ranker that asks none; judges come with the part Sessions.",
                    )
                )

    def _check_hooks(self) -> None:
        values = {n: a.values for n, a in self.reader.attributes.items() if a.values is not None}
        routes = {name: conf.targets for name, conf in self.settings.routes.items()}
        whose = {f"routes.{name}.{conf.algorithm}": name for name, conf in self.settings.routes.items()}
        for impl in self.implementations.of("check"):
            config = CheckedConfig(self.targets, routes, values, whose.get(impl.path))
            try:
                found = tuple(impl.function(*[config for _ in impl.arguments]) or ())
            except Exception as error:  # noqa: BLE001 - a third party's code, run at load
                found = (Problem("bad_plugin", f"its check raises {type(error).__name__}: {error}"),)
            for problem in found:
                placed = replace(problem, path=f"{impl.path}.{problem.path}".rstrip("."))
                (self.warnings if problem.severity == "warning" else self.problems).append(placed)

    def _placed(self, problem: Problem) -> Problem:
        file, line = self.loaded.place(problem.path)
        return replace(problem, file=problem.file or file, line=problem.line or line)


def _rule(entry: Registered) -> Rule:
    block: Constraint[Any] = entry.block  # type: ignore[assignment]  # the caller asked isinstance
    reads = block.attributes_read() if "attributes" in block.reads else frozenset[str]()
    return Rule(entry.name, block, entry.kind.prefix, reads, frozenset(block.reads))


def _target(conf: TargetConf, kind: str) -> Target:
    return Target(
        name=conf.name,
        provider=conf.provider,
        kind=kind,
        model=conf.model,
        labels=MappingProxyType(conf.labels),
        capabilities=MappingProxyType(conf.capabilities),
        context_window=conf.context_window,
        max_output_tokens=conf.max_output_tokens,
        price=conf.price,
    )


def _extra(extra_body: Mapping[str, Any] | None) -> Mapping[str, bytes]:
    return {key: msgspec.json.encode(value) for key, value in (extra_body or {}).items()}
