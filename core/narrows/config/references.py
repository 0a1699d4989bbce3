"""Names that one table uses of another: each must be there.

Works on the data as it was written, so that a problem elsewhere in the same table hides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from narrows.attributes import folded
from narrows.config.blocks import ALWAYS
from narrows.config.places import Path
from narrows.config.tree import Report
from narrows.config.values import header_problem
from narrows.config.words import listed, nearest
from narrows.constraints import Constraint, Ranker
from narrows.registry import Registered


def check_references(blocks: Iterable[Registered], report: Report) -> None:
    """Report every name that stands for nothing."""
    _References(report).all(blocks)


class _References:
    def __init__(self, report: Report) -> None:
        self.report, self.tree = report, report.tree
        groups = ("constraints", "providers", "targets", "routes", "tenants", "attributes")
        self.names = {group: self.known(group) for group in groups}

    def known(self, group: str) -> dict[str, None]:
        """Every name of a group, also of those that are not built yet."""
        aside = [str(path[1]) for path in self.tree.aside if len(path) == 2 and path[0] == group]
        return dict.fromkeys([*self.tree.table(group), *aside])

    def all(self, blocks: Iterable[Registered]) -> None:
        for name, table in self.tree.tables("targets"):
            self.one("providers", table, ("targets", name, "provider"))
        for name, table in self.tree.tables("routes"):
            self.each("targets", table, ("routes", name, "targets"))
            self.each("constraints", table, ("routes", name, "constraints"))
        for name, table in self.tree.tables("keys"):
            self.one("tenants", table, ("keys", name, "tenant"))
            for group in ("routes", "targets", "providers"):
                self.each(group, table, ("keys", name, group))
        for path, speaker in self.speakers():
            for key in ("attributes", "may_say"):
                self.values(speaker.get(key), (*path, key))
        for entry in blocks:
            self.read_by(entry)

    def speakers(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """The tables that say values of attributes."""
        yield from ((("keys", name), table) for name, table in self.tree.tables("keys"))
        yield from ((("tenants", name), table) for name, table in self.tree.tables("tenants"))
        yield ("auth",), self.tree.table("auth")

    def one(self, group: str, table: Mapping[str, Any], path: Path) -> None:
        """A key that holds one name."""
        name = table.get(str(path[-1]))
        if isinstance(name, str):
            self.name(group, name, path, path)

    def each(self, group: str, table: Mapping[str, Any], path: Path) -> None:
        """A key that holds a list of names."""
        names = table.get(str(path[-1]))
        seen: set[str] = set()
        for place, name in enumerate(names if isinstance(names, list) else ()):
            if not isinstance(name, str):
                continue
            at = (*path, place)
            if name in seen:
                self.report.add("contradiction", path, f"{name!r} is listed twice", remedy="List it once.", at=at)
            elif group == "constraints" and name in ALWAYS:
                self.report.add("reserved_name", path, f"{name!r} stands on every route without being listed",
                                remedy="Take it out of the list.", at=at)  # fmt: skip
            else:
                self.name(group, name, path, at)
            seen.add(name)

    def name(self, group: str, name: str, path: Path, at: Path) -> None:
        if name in self.names[group]:
            return
        known = self.names[group]
        self.report.add(
            "unknown_reference",
            path,
            f"there is no [{group}.{name}]",
            suggestion=nearest(name, known),
            remedy=f"Declare it, or name one of: {listed(known)}." if known else f"Declare [{group}.{name}].",
            at=at,
        )

    # ---- attributes ------------------------------------------------------------------------------------------------

    def values(self, said: object, path: Path) -> None:
        """A table of attribute values: `{ data-region = "eu" }`."""
        if not isinstance(said, dict):
            return
        declared = self.names["attributes"]
        for attribute, given in said.items():
            here = (*path, attribute)
            if attribute not in declared:
                self.report.add(
                    "unknown_reference",
                    here,
                    f"there is no [attributes.{attribute}]",
                    suggestion=nearest(attribute, declared),
                    remedy=f"Declare it with its values; declared: {listed(declared) or 'none'}.",
                )
                continue
            known = _folded(self.tree.table("attributes", attribute).get("values"))
            for place, value in enumerate(given if isinstance(given, list) else [given]):
                if isinstance(value, str) and known and value.strip().casefold() not in known:
                    self.report.add(
                        "unknown_reference",
                        here,
                        f"{value!r} is no value of attribute {attribute!r}",
                        suggestion=nearest(value, known),
                        remedy=f"Its values: {listed(known)}.",
                        at=(*here, place),
                    )

    def read_by(self, entry: Registered) -> None:
        """What a block's own code names: the attributes that a constraint reads, the judges that a ranker asks."""
        path: Path = tuple(entry.path.split(".", 1)) if isinstance(entry.block, Constraint) else (entry.path,)
        if isinstance(entry.block, Ranker):
            for judge in entry.block.judges():
                self.name("targets", judge, ("routes", *entry.path.split(".")[1:]), path)
        if isinstance(entry.block, Constraint):
            for attribute in sorted((entry.block.attributes_read() or frozenset()) & set(self.names["attributes"])):
                self.later(attribute, path)
            for attribute in sorted((entry.block.attributes_read() or frozenset()) - set(self.names["attributes"])):
                self.undeclared(attribute, self.option(path, attribute))

    def later(self, attribute: str, path: Path) -> None:
        """A later file cannot declare what an earlier file's rule reads: undeclared, it is the header of its name, and
        a declaration could take that header away."""
        rule, declared = self.tree.places.get(path), self.tree.places.get(("attributes", attribute))
        if rule is None or declared is None or rule.file == declared.file:
            return
        if self.tree.files.index(rule.file) < self.tree.files.index(declared.file):
            self.report.add(
                "policy_redefined",
                ("attributes", attribute),
                f"this file declares an attribute that [{'.'.join(map(str, path))}] of {rule.file} reads already",
                remedy="Declare it in the file of the rule, or in one before it.",
            )

    def option(self, block: Path, value: str) -> Path:
        """The option of a block that holds this value, or the block."""
        table: Mapping[str, Any] = self.tree.table(*(str(part) for part in block))
        return next(((*block, key) for key, given in table.items() if given == value), block)

    def undeclared(self, attribute: str, path: Path) -> None:
        """An attribute that nobody declared is the header of its name: it must be able to be one, and nobody else's."""
        # Not trimmed: no header has space in its name, so such a rule would bind nobody.
        spaced = "has space at its ends" if attribute != attribute.strip() else None
        reason = spaced or header_problem(attribute)
        if reason is not None:
            self.report.add("reserved_name", path, f"attribute {attribute!r} is declared nowhere, so it is a header, and"
                            f" {reason}", remedy="Declare it under [attributes], or read another.")  # fmt: skip
            return
        for declared in self.names["attributes"]:
            header = self.tree.table("attributes", declared).get("header")
            names = [declared, header] if isinstance(header, str) else [declared]
            if folded(attribute) in map(folded, names):
                self.report.add(
                    "unknown_reference",
                    path,
                    f"there is no [attributes.{attribute}], but [attributes.{declared}] has that header or nearly that name",
                    suggestion=declared,
                    remedy="Write the attribute's own name; as it stands the rule would not bind who is silent.",
                )
                return


def _folded(values: object) -> Collection[str]:
    given = [values] if isinstance(values, str) else values if isinstance(values, list) else []
    return [value.strip().casefold() for value in given if isinstance(value, str)]
