"""Loads a configuration: everything that is wrong with it at once, or all of it. Opens nothing but the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from narrows.config.blocks import build_blocks
from narrows.config.canonical import canonical_form, policy_digest
from narrows.config.checks import check_tables, check_variables
from narrows.config.conversion import settings_of
from narrows.config.credentials import refuse_secrets
from narrows.config.problems import More, validated
from narrows.config.reading import merge, odd_values, parse, read_files
from narrows.config.references import check_references
from narrows.config.settings import Settings
from narrows.config.tables import Document
from narrows.config.tree import Place, Report, Tree, dotted
from narrows.config.unbuilt import ANY, planned_words, refuse_unbuilt
from narrows.errors import ConfigError, Problem
from narrows.registry import Registered, Registry

_NEEDS_EVERY_FILE = ("missing_key", "unknown_reference", "empty_config")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that holds. `blocks`: constraints, providers, one ranker a route, authenticators, free plugins,
    sinks, each in the order of the files; the core's own come last among theirs. `canonical`: what it means, as sorted
    JSON. `policy`: 64 hex digits."""

    settings: Settings
    blocks: tuple[Registered, ...]
    warnings: tuple[Problem, ...]
    canonical: str = field(repr=False)
    policy: str
    _places: Mapping[str, Place] = field(repr=False, compare=False)
    _file: str

    def place(self, path: str) -> tuple[str, int]:
        """(file, line) of a dotted path ("targets.us.region"), or of its nearest ancestor that was written."""
        while path:
            if path in self._places:
                return self._places[path]
            path = path.rpartition(".")[0]
        return self._file, 1


def load(paths: Sequence[str | FilePath], registry: Registry, env: Mapping[str, str]) -> Loaded:
    """Load these files together, the first first. `env`: the environment variables that providers may name.

    Raises ConfigError with every problem, each with its path, file and line.
    """
    report = Report(Tree())
    if paths:
        read_files(paths, report)
    else:
        report.append(Problem("no_such_file", "no file is given", remedy="Name at least one configuration file."))
        report.partial = True
    return _loaded(registry, env, report)


def loads(text: str, registry: Registry, env: Mapping[str, str], file: str = "<text>") -> Loaded:
    """Load a configuration from a text. `file`: what problems call it. Raises ConfigError as `load` does."""
    report = Report(Tree(files=(file,)))
    source = parse(text, file, report)
    if source is None:
        report.partial = True
    else:
        merge(source, report)
    return _loaded(registry, env, report)


def _loaded(registry: Registry, env: Mapping[str, str], report: Report) -> Loaded:
    tree = report.tree
    refuse_secrets(report)
    odd_values(tree, report)
    refuse_unbuilt(registry, report)
    document = validated(Document, tree.data, (), report, _more_keys(registry))
    blocks = build_blocks(registry, report)
    check_tables(report)
    check_references(blocks, report)
    check_variables(blocks, env, report)
    problems = [one for one in report.problems() if not (report.partial and one.code in _NEEDS_EVERY_FILE and one.path)]
    if problems or document is None:
        raise ConfigError(problems)
    settings = settings_of(document)
    canonical = canonical_form(settings, blocks)
    return Loaded(
        settings=settings,
        blocks=blocks,
        warnings=report.problems("warning"),
        canonical=canonical,
        policy=policy_digest(canonical, blocks),
        _places={dotted(path): place for path, place in reversed(tree.places.items())},
        _file=tree.files[0],
    )


def _more_keys(registry: Registry) -> More:
    """The keys that tables may have beside those of their models: a route's, of its ranker's options."""
    algorithms = (*(kind.short for kind in registry.of("rankers")), *planned_words("routes", ANY, "algorithm"))
    return lambda path: algorithms if len(path) == 2 and path[0] == "routes" else ()
