"""Keys that are right one by one and contradict each other, and variables that are not set.

Works on the data as it was written, so that a problem elsewhere in the same table hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from narrows.attributes import folded
from narrows.config.places import Path
from narrows.config.problems import bad_value, missing
from narrows.config.secrecy import is_plain_variable, is_variable
from narrows.config.settings import EVERY_SOURCE
from narrows.config.tree import Report
from narrows.config.values import header_problem
from narrows.constraints import Provider
from narrows.registry import Registered
from narrows.types import ANONYMOUS

LABELS: Final = (
    "region",
    "processing_region",
    "jurisdiction",
    "class",
    "zero_retention",
    "no_training",
    "output_uses",
    "tier",
)
"""Labels with a key of their own in a target; others stand under `labels`."""

YES_OR_NO: Final = ("zero_retention", "no_training")
JUDGED: Final = (
    "model",
    "messages",
    "stream",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "functions",
    "parallel_tool_calls",
    "response_format",
    "modalities",
    "reasoning_effort",
    "metadata",
)
"""Members of a body that `extra_body` cannot set: features, sizes and caps were judged by them."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def check_tables(report: Report) -> None:
    """Report every contradiction."""
    for name, table in report.tree.tables("targets"):
        _target(("targets", name), table, report)
    _attributes(report)
    _keys(report)
    _auth(report)
    if not report.tree.table("routes") and not report.partial:
        routes = "routes" in report.tree.data
        report.add(
            "empty_config",
            ("routes",) if routes else (),
            "there is no route: no request could be answered",
            remedy='Add one: [routes.chat] with targets = ["…"].',
        )


def check_variables(blocks: Iterable[Registered], env: Mapping[str, str], report: Report) -> None:
    """Report each credential whose environment variable holds nothing that could be sent."""
    for entry in blocks:
        name = entry.block.credential() if isinstance(entry.block, Provider) else None
        if name is None or not is_variable(name):
            continue
        value = env.get(name)
        if value is not None and _HEADER_VALUE.fullmatch(value.strip()):
            continue
        table = report.tree.table("providers", entry.name)
        key = next((key for key, given in table.items() if given == name), None)
        path: Path = ("providers", entry.name) if key is None else ("providers", entry.name, key)
        variable = f"environment variable {name}" if is_plain_variable(name) else "the environment variable named here"
        what = "is not set" if value is None else "holds no key" if not value.strip() else "holds what cannot be a key"
        remedy = "Set it to the provider's key before starting; a key is printable ASCII in one line."
        report.add("variable_unset", path, f"{variable} {what}", remedy=remedy)


def _target(path: Path, table: Mapping[str, Any], report: Report) -> None:
    if "model" in table and "id" in table:
        _contradiction(report, (*path, "id"), "`id` is another spelling of `model`, and both stand here", "Keep one.")
    elif "model" not in table and "id" not in table:
        missing(report, (*path, "model"))
    if "price" in table:
        for key in ("cost_per_mtok_in", "cost_per_mtok_out"):
            if key in table:
                _contradiction(report, (*path, key), f"{key!r} is short for a price, and `price` stands here too",
                               "Keep one of them.")  # fmt: skip
    labels = table.get("labels")
    for name, value in labels.items() if isinstance(labels, dict) else ():
        if name in table and name in LABELS:
            _contradiction(report, (*path, "labels", name), f"label {name!r} is declared twice in this target",
                           f"Keep {name} = … in the target itself.")  # fmt: skip
        elif name in YES_OR_NO and not isinstance(value, bool):
            bad_value(report, (*path, "labels", name), f"{name!r} must be true or false", "Write true or false.")
    extra = table.get("extra_body")
    for name in extra if isinstance(extra, dict) else ():
        if name in JUDGED:
            _contradiction(report, (*path, "extra_body", name), f"{name!r} of the body is the caller's or the target's",
                           "Take it out; a target's model is its key `model`.")  # fmt: skip


def _attributes(report: Report) -> None:
    """Names, headers and metadata keys of attributes: each may mean one attribute only."""
    owners: dict[str, tuple[str, str]] = {}
    for name, table in report.tree.tables("attributes"):
        path: Path = ("attributes", name)
        values = table.get("values")
        folds = [v.strip().casefold() for v in values if isinstance(v, str)] if isinstance(values, list) else []
        for place, value in enumerate(folds):
            if value in folds[:place]:
                _contradiction(report, (*path, "values"), f"value {value!r} is listed twice; case makes no difference",
                               "Keep one.", (*path, "values", place))  # fmt: skip
        header, sources = table.get("header"), table.get("sources", EVERY_SOURCE)
        callers = isinstance(sources, list | tuple) and bool({"header", "metadata"} & {*map(str, sources)})
        if isinstance(header, str) and not callers:
            _contradiction(report, (*path, "header"), "a header is named, and `sources` has neither header nor metadata",
                           'Add "header" to sources, or take the header out.')  # fmt: skip
        if header is None and callers and "header" in sources and (reason := header_problem(name)):
            report.add("reserved_name", path, f"its header would be its name, which {reason}",
                       remedy='Give it a header of its own: header = "x-…".')  # fmt: skip
        for key, word in _means(path, name, header):
            other, what = owners.setdefault(folded(word), (name, word))
            if other != name:
                _contradiction(report, key, f"{word!r} and {what!r} of [attributes.{other}] are the same header or"
                               " metadata key; case, `-` and `_` make no difference", "Rename one.")  # fmt: skip


def _means(path: Path, name: str, header: object) -> Iterator[tuple[Path, str]]:
    yield path, name
    if isinstance(header, str):
        yield (*path, "header"), header


def _keys(report: Report) -> None:
    owners: dict[str, str] = {}
    for name, table in report.tree.tables("keys"):
        path: Path = ("keys", name)
        if name == ANONYMOUS:
            report.add("reserved_name", path, f"{name!r} is the name of a caller without a key",
                       remedy="Give this key another name.")  # fmt: skip
        value = table.get("sha256")
        if isinstance(value, str):
            other = owners.setdefault(value.lower(), name)
            if other != name:
                _contradiction(report, (*path, "sha256"), f"this is the hash of key {other!r} too",
                               "Give each caller a key of its own: `narrows keygen`.")  # fmt: skip
    value = report.tree.table("server").get("metrics_key_sha256")
    owner = owners.get(value.lower()) if isinstance(value, str) else None
    if owner is not None:
        _contradiction(report, ("server", "metrics_key_sha256"), f"this is the hash of key {owner!r} too",
                       "Give whoever scrapes a key that opens nothing else: `narrows keygen`.")  # fmt: skip


def _auth(report: Report) -> None:
    tree = report.tree
    hashes = any("sha256" in table for _, table in tree.tables("keys"))
    if tree.table("auth").get("mode") == "keys" and not hashes and not tree.table("authenticators"):
        report.add("nobody_may_call", ("auth", "mode"), "only keys may call, and no key has a hash", severity="warning",
                   remedy="Add one: `narrows keygen` prints a key and its sha256 for [keys.NAME].")  # fmt: skip


def _contradiction(report: Report, path: Path, message: str, remedy: str, at: Path | None = None) -> None:
    report.add("contradiction", path, message, remedy=remedy, at=at)
