"""`tox -e licences`: every distribution that `narrows[all]` installs here has a licence that we allow.

Read offline from the installed metadata, in this order: `License-Expression`; the field `License` where it is an SPDX
expression and nothing else; one classifier that names one licence. Where the metadata is vaguer than that, `VAGUE` says
what the distribution's own files say, and why we had to look. An unknown licence, a licence that nobody allowed, and a
row of `VAGUE` that is not needed any more all fail.

Run: `python -m tools.licences` (`--list` shows each) where `narrows[all]` is installed. Exit 0 when all are allowed,
else 1 with a line for each finding. What this platform and this Python do not install is not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Final, TypeAlias

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ALLOWED: Final[Mapping[str, str]] = {
    "0BSD": "permissive",
    "Apache-2.0": "ours; permissive, with a grant of patents",
    "BSD-2-Clause": "permissive",
    "BSD-3-Clause": "permissive",
    "ISC": "permissive",
    "MIT": "permissive",
    "MPL-2.0": "binds changes of its own files alone; we install them unchanged",
    "PSF-2.0": "permissive",
}
"""SPDX identifier -> why it is allowed for what users install with us."""

VAGUE: Final[Mapping[str, tuple[str, str]]] = {
    "aiosignal": ("Apache-2.0", "metadata says 'Apache 2.0', which is no identifier; its LICENSE is the Apache License 2.0"),
    "httpx-aiohttp": ("BSD-3-Clause", "metadata holds the whole text and no name; the text is that of BSD-3-Clause"),
    "protobuf": ("BSD-3-Clause", "metadata says '3-Clause BSD License', which is no identifier; its LICENSE has the three clauses"),
    "sortedcontainers": ("Apache-2.0", "metadata says 'Apache 2.0', which is no identifier; its LICENSE is the same"),
    "uvloop": ("MIT OR Apache-2.0", "two classifiers, no word on both or either; LICENSE-MIT and LICENSE-APACHE: either"),
}  # fmt: skip
"""Distribution -> its licence by its own files, and why the metadata does not do."""

CLASSIFIERS: Final[Mapping[str, str]] = {
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "License :: OSI Approved :: GNU Affero General Public License v3": "AGPL-3.0-only",
}
"""Classifiers that name one licence exactly. "BSD License" and "Apache Software License" do not say which."""

_TOKEN: Final = re.compile(r"\s*(\(|\)|[A-Za-z0-9.+-]+)")
Find: TypeAlias = Callable[[str], Distribution]


@dataclass(frozen=True, slots=True)
class Finding:
    """One distribution, or one row of `VAGUE`, that is not as it should be."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"licences: {self.name}: {self.what}"


def licence_of(metadata: Message) -> str | None:
    """The SPDX expression that the metadata states, or None where it is vague."""
    expression = str(metadata.get("License-Expression", "")).strip()
    if expression:
        return expression
    field = str(metadata.get("License", "")).strip()
    if _is_expression(field):
        return field
    named = [line for line in metadata.get_all("Classifier", []) if line.startswith("License ::")]
    return CLASSIFIERS.get(named[0]) if len(named) == 1 else None


def is_allowed(expression: str, allowed: Mapping[str, str] = ALLOWED) -> bool:
    """Does the expression leave a choice that is allowed? AND needs both sides, OR one of them. Raises ValueError for
    what is no expression."""
    tokens = _tokens(expression)
    answer = _either(tokens, allowed)
    if tokens:
        raise ValueError(f"{expression!r} goes on after its end")
    return answer


def installed(root: str = "narrows[all]", find: Find = distribution) -> dict[str, Distribution]:
    """Everything that the requirement installs here, by name: what it requires, and what that requires, with extras."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [root]
    while left:
        wanted = Requirement(left.pop())
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            found[name] = find(name)
            requires = [Requirement(line) for line in found[name].requires or ()]
            left += [str(one) for one in requires if one.marker is None or one.marker.evaluate({"extra": extra})]
    return found


def findings(found: Mapping[str, Distribution], vague: Mapping[str, tuple[str, str]] = VAGUE) -> Iterator[Finding]:
    """What is wrong, by name."""
    for name, one in sorted(found.items()):
        stated, row = licence_of(_metadata(one)), vague.get(name)
        if row is not None and stated is not None:
            yield Finding(name, f"its metadata says {stated} now; take its row out of VAGUE")
        expression = stated or (row[0] if row is not None else None)
        if expression is None:
            yield Finding(
                name, "its metadata names no licence; look into its files and add a row to VAGUE with the reason"
            )
            continue
        try:
            if not is_allowed(expression):
                yield Finding(name, f"{expression} is not allowed; drop the dependency, or decide it in ALLOWED")
        except ValueError as error:
            yield Finding(name, f"cannot be read: {error}")
    for name in sorted(set(vague) - set(found)):
        yield Finding(name, "is not installed by narrows[all] any more; take its row out of VAGUE")


def main(arguments: Sequence[str]) -> int:
    """Check what is installed here."""
    try:
        found = installed()
    except PackageNotFoundError as missing:
        print(f"licences: {missing.name} is not installed; install narrows[all] first", flush=True)
        return 1
    wrong = list(findings(found))
    if "--list" in arguments:
        for name, one in sorted(found.items()):
            print(f"{name} {one.version}: {licence_of(_metadata(one)) or VAGUE.get(name, ('unknown',))[0]}")
    for finding in wrong:
        print(finding)
    refused = {finding.name for finding in wrong} & set(found)
    print(f"licences: {len(found) - len(refused)} of {len(found)} are allowed", flush=True)
    return 1 if wrong else 0


def _metadata(one: Distribution) -> Message:
    # importlib.metadata's own type leaves out `get`, which its only implementation has.
    metadata = one.metadata
    if not isinstance(metadata, Message):
        raise TypeError(f"metadata of {one.name} is a {type(metadata).__name__}")
    return metadata


# ---- SPDX expressions ---------------------------------------------------------------------------------------------


def _is_expression(text: str) -> bool:
    try:
        words = [word for word in _tokens(text) if word not in ("AND", "OR", "(", ")")]
        is_allowed(text)
    except ValueError:
        return False
    return all(word in ALLOWED or "-" in word for word in words)  # "BSD" and "GPLv3" are words, not identifiers


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    while place < len(text.rstrip()):
        token = _TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"{text!r} is no SPDX expression")
        found.append(token[1])
        place = token.end()
    return found


def _either(tokens: list[str], allowed: Mapping[str, str]) -> bool:
    answer = _both(tokens, allowed)
    while tokens[:1] == ["OR"]:
        del tokens[0]
        answer = _both(tokens, allowed) or answer
    return answer


def _both(tokens: list[str], allowed: Mapping[str, str]) -> bool:
    answer = _one(tokens, allowed)
    while tokens[:1] == ["AND"]:
        del tokens[0]
        answer = _one(tokens, allowed) and answer
    return answer


def _one(tokens: list[str], allowed: Mapping[str, str]) -> bool:
    if not tokens or tokens[0] in ("AND", "OR", "WITH", ")"):
        raise ValueError("an SPDX expression lacks an identifier")
    word = tokens.pop(0)
    if word == "(":
        answer = _either(tokens, allowed)
        if tokens[:1] != [")"]:
            raise ValueError("an SPDX expression lacks a closing parenthesis")
        del tokens[0]
        return answer
    if tokens[:1] == ["WITH"]:  # an exception makes another licence of it: only allowed where it is named so
        word = " ".join([word, *tokens[:2]])
        del tokens[:2]
    return word in allowed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
