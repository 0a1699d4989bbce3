"""Which kinds there are, and which implementations a configuration makes of them.

Kinds come from entry points of group `narrows` ("constraints.attribute_match") and from the host's `kinds=`. Metadata is
read for all, a class is imported only when a block asks for it. pluggy registers the blocks and checks their signatures;
one manager per snapshot. Discovery is ours: pluggy's silently keeps the first of two equal names. Source: DESIGN 3.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from narrows.calls import Impl
from narrows.constraints import API, Authenticator, Block, Constraint, Provider, Ranker, Sink, judging
from narrows.errors import ConfigError, Problem
from narrows.hookspecs import EVERY_HOOK, PROJECT, Hooks

OWN_DISTRIBUTION = "narrows"
HOST_DISTRIBUTION = "(host)"
BASES: Mapping[str, type[Block]] = {
    "constraints": Constraint,
    "providers": Provider,
    "rankers": Ranker,
    "authenticators": Authenticator,
    "sinks": Sink,
    "plugins": Block,
}
ASKED_AT: Mapping[str, type[Block]] = {"rank": Ranker, "dispatch": Provider}
"""Hooks that are asked of one block by name, a route's ranker or a target's provider. Elsewhere nobody would ask."""
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NEVER_AWAITED = frozenset({"classify_error", "check"})


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind that a block may name: `constraints.attribute_match`, and where it comes from."""

    name: str
    distribution: str
    version: str
    source: EntryPoint | type[Block]

    @property
    def group(self) -> str:
        """The table it stands in: "constraints"."""
        return self.name.partition(".")[0]

    @property
    def short(self) -> str:
        """The word after `kind =`: "attribute_match"."""
        return self.name.partition(".")[2]

    @property
    def prefix(self) -> str:
        """What exclusion codes of this kind begin with; ours stand alone."""
        return "" if self.distribution == OWN_DISTRIBUTION else self.short

    def load(self) -> type[Block]:
        """The class. Raises ConfigError naming kind and distribution: it cannot be imported, is no block of its group,
        or speaks a newer plugin interface."""
        try:
            found = self.source.load() if isinstance(self.source, EntryPoint) else self.source
        except ConfigError:
            raise  # in its own words: it knows what it lacks
        except Exception as error:
            raise self._refused(f"cannot be imported: {type(error).__name__}: {error}") from error
        base = BASES[self.group]
        if not isinstance(found, type) or not issubclass(found, base):
            raise self._refused(f"is no {base.__name__}; subclass narrows.{base.__name__}")
        for group, typed in BASES.items():
            if self.group == "plugins" and typed is not Block and issubclass(found, typed):
                # As a free plugin its own hook would never be asked: a rule that silently is none.
                raise self._refused(f"is a {typed.__name__}; name its entry point {group}.{self.short}")
        if found.api > API:
            raise self._refused(f"needs plugin interface {found.api}, this is {API}; upgrade narrows")
        return found

    def _refused(self, reason: str) -> ConfigError:
        return ConfigError(
            [Problem("bad_plugin", f"kind {self.name!r} of distribution {self.distribution!r} {reason}")]
        )


@dataclass(frozen=True, slots=True)
class Registered:
    """One configured block: the name people see, its path, its kind and itself."""

    name: str
    path: str
    kind: Kind
    block: Block


class Registry:
    """Every kind that is available here. Raises ConfigError at construction where two claim one name, or a name is no
    name of a kind."""

    def __init__(self, kinds: Mapping[str, type[Block]] | None = None) -> None:
        self._kinds: dict[str, Kind] = {}
        problems: list[Problem] = []
        for kind in (*_installed(), *_hosts(kinds or {})):
            if kind.group not in BASES or not kind.short:
                problems.append(
                    Problem(
                        "bad_plugin",
                        f"entry point {kind.name!r} of distribution {kind.distribution!r} names no kind",
                        remedy=f"Name it GROUP.KIND, where GROUP is one of {', '.join(BASES)}.",
                    )
                )
            elif (first := self._kinds.get(kind.name)) is not None:
                problems.append(
                    Problem(
                        "duplicate_kind",
                        f"two distributions claim kind {kind.name!r}: {first.distribution!r} and {kind.distribution!r}",
                        remedy="Uninstall one of them; which one wins must not depend on the order of a path.",
                    )
                )
            else:
                self._kinds[kind.name] = kind
        if problems:
            raise ConfigError(problems)

    def get(self, group: str, short: str) -> Kind | None:
        """The kind of that group and word, or None."""
        return self._kinds.get(f"{group}.{short}")

    def of(self, group: str) -> tuple[Kind, ...]:
        """Every kind of a group, by name."""
        return tuple(kind for name, kind in sorted(self._kinds.items()) if kind.group == group)

    def all(self) -> tuple[Kind, ...]:
        """Every kind, by name."""
        return tuple(kind for _, kind in sorted(self._kinds.items()))


class Implementations:
    """What the blocks of one snapshot implement, by hook, in the order of the configuration.

    Raises ConfigError with every start-up refusal: a wrapper, an unknown hook, an argument the specification does not
    have, a default, a method that bears a hook's name by accident, a free plugin without a hook.
    """

    def __init__(self, blocks: Iterable[Registered]) -> None:
        manager = _Manager(PROJECT)
        manager.add_hookspecs(Hooks)
        self.blocks: tuple[Registered, ...] = tuple(blocks)
        self._by_hook: dict[str, list[Impl]] = {hook: [] for hook in EVERY_HOOK}
        self._by_path: dict[tuple[str, str], Impl] = {}
        problems: list[Problem] = []
        for entry in self.blocks:
            found = list(_contract(entry))
            if not found:
                found = list(self._register(manager, entry))
            problems += found
        if problems:
            raise ConfigError(problems)

    def of(self, hook: str) -> tuple[Impl, ...]:
        """The implementations of a hook, in the order of the configuration."""
        return tuple(self._by_hook[hook])

    def at(self, path: str, hook: str) -> Impl:
        """The implementation of one block. Raises KeyError where it has none."""
        return self._by_path[path, hook]

    def hooks(self, path: str) -> tuple[str, ...]:
        """The hooks that a block implements."""
        return tuple(sorted(hook for at, hook in self._by_path if at == path))

    def _register(self, manager: _Manager, entry: Registered) -> Iterable[Problem]:
        try:
            manager.register(entry.block, name=entry.path)
        except (pluggy.PluginValidationError, ValueError) as error:
            yield _problem(entry, f"was refused: {str(error).splitlines()[-1].strip()}")
            return
        for caller in manager.get_hookcallers(entry.block) or ():
            for found in caller.get_hookimpls():
                if found.plugin is entry.block:
                    function, arguments = found.function, tuple(found.argnames)
                    if caller.name == "narrow" and isinstance(entry.block, Constraint):
                        function = judging(entry.name, entry.kind.prefix, entry.block)
                    impl = Impl(
                        entry.name, entry.path, caller.name, function, arguments,
                        entry.kind.distribution, entry.kind.prefix, entry.block,
                    )  # fmt: skip
                    self._by_hook[caller.name].append(impl)
                    self._by_path[entry.path, caller.name] = impl


class _Manager(pluggy.PluginManager):
    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        # pluggy looks at every attribute of a plugin; on a pydantic block that trips over deprecated ones.
        if name not in EVERY_HOOK:
            return None
        options = super().parse_hookimpl_opts(plugin, name)
        return options or ({} if _overrides_marked(type(plugin), name) else None)


def _contract(entry: Registered) -> Iterable[Problem]:
    """What pluggy does not refuse: each line is a way in which a rule silently would not be one."""
    cls = type(entry.block)
    marked = []
    for name in dir(cls):
        method = inspect.getattr_static(cls, name, None)
        if isinstance(method, staticmethod | classmethod):  # neither is seen by every check below; a rule needs to be
            method = method.__func__
            if name in EVERY_HOOK or hasattr(method, f"{PROJECT}_impl"):
                yield _problem(entry, f"has a hook {name!r} that is no method of the instance; give it `self`")
                continue
        options = getattr(method, f"{PROJECT}_impl", None)
        if options is None:
            if name in EVERY_HOOK and callable(method) and not _overrides_marked(cls, name):
                yield _problem(
                    entry, f"has a method {name!r} that bears a hook's name; mark it with @hookimpl or rename it"
                )
            elif name in EVERY_HOOK and callable(method):
                marked.append(name)
        elif name not in EVERY_HOOK:
            yield _problem(
                entry, f"marks {name!r} with @hookimpl, which is no hook; the hooks are {', '.join(sorted(EVERY_HOOK))}"
            )
        elif any(options.get(word) for word in ("wrapper", "hookwrapper", "tryfirst", "trylast", "specname")):
            yield _problem(
                entry, f"asks for options in {name!r}; wrappers could swallow a refusal, and order is the file's"
            )
        else:
            marked.append(name)
    for name in marked:
        parameters = inspect.signature(getattr(cls, name)).parameters.values()
        if any(one.default is not one.empty for one in parameters):
            yield _problem(entry, f"gives an argument of {name!r} a default; hook arguments have none")
        elif any(one.kind not in _BY_PLACE for one in parameters):
            yield _problem(entry, f"takes arguments of {name!r} by * or by name; they are given by position")
        if name in _NEVER_AWAITED and inspect.iscoroutinefunction(getattr(cls, name)):
            yield _problem(entry, f"makes {name!r} async; it is pure, and nobody awaits it")
        if name in ASKED_AT and not isinstance(entry.block, ASKED_AT[name]):
            base = ASKED_AT[name].__name__
            yield _problem(entry, f"has the hook {name!r}, which only a {base} is asked; subclass narrows.{base}")
    if isinstance(entry.block, Constraint):
        for name in ("demands", "excludes", "problems"):
            if inspect.iscoroutinefunction(getattr(cls, name)):
                yield _problem(
                    entry, f"has an async {name!r}; it is pure and judged at once, write it as a plain `def`"
                )
    if isinstance(entry.block, Constraint) and type(entry.block).narrow is not Constraint.narrow:
        yield _problem(
            entry, "overrides `narrow`; a constraint has `demands` and `excludes`, a free hook is a `plugins.*` block"
        )
    if not marked:
        yield _problem(entry, "implements no hook; mark its methods with @hookimpl")


def _overrides_marked(cls: type, name: str) -> bool:
    """Is this method the override of one that a base marked? Then it is an implementation too, marked or not."""
    return any(hasattr(vars(base).get(name), f"{PROJECT}_impl") for base in cls.__mro__)


def _problem(entry: Registered, reason: str) -> Problem:
    return Problem(
        "bad_plugin",
        f"plugin {entry.path!r} (kind {entry.kind.name!r} of distribution {entry.kind.distribution!r}) {reason}",
        path=entry.path,
    )


def _installed() -> Iterable[Kind]:
    for point in entry_points(group=PROJECT):
        distribution = point.dist
        name, version = ("(unknown)", "") if distribution is None else (distribution.name, distribution.version)
        yield Kind(point.name, name, version, point)


def _hosts(kinds: Mapping[str, type[Block]]) -> Iterable[Kind]:
    for name, cls in kinds.items():
        yield Kind(name, HOST_DISTRIBUTION, "", cls)
