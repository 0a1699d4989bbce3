"""Finds credentials that stand in the file itself. Each is a problem that names the place and never the value.

Where a key is asked for by the name of its variable (`api_key_env`) or by its hash (`sha256`), everything else counts as
the key itself. Elsewhere the value's own shape decides (`secrecy`). Source: DESIGN section 11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from narrows.config import secrecy
from narrows.config.places import Path
from narrows.config.tree import Report
from narrows.config.words import nearest

CREDENTIAL_GROUPS: Final = ("providers", "keys", "operators", "auth", "authenticators", "server")
"""Where a key called `key` or `token` holds one, whatever its value looks like."""

HASHES: Final = ("sha256", "metrics_key_sha256")
GROUPS: Final = (*CREDENTIAL_GROUPS, "attributes", "constraints", "targets", "routes", "tenants", "plugins", "sinks")
FREE_KEYS: Final = ("model", "id", "base_url", "extra_body")
"""Whose values are the vendor's own words, long and random ones among them: only known shapes of keys are refused."""

_CREDENTIAL = re.compile(
    r"(api[-_]?)?key|(api|auth|access|bearer)?[-_]?token|secret|password|passwd|bearer|authorization"
)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_VARIABLE_REMEDY = "Put it into an environment variable and write that variable's name as api_key_env."
_HASH_REMEDY = "`narrows keygen` prints a key and its sha256: write the sha256 here, give the key to its user."
_ROTATE = "Replace it: a key that stood in a file is no secret any more."


def refuse_secrets(report: Report) -> None:
    """Report every credential in the tree. Values and names are both looked at."""
    for name, table in report.tree.data.items():
        group = nearest(name, GROUPS) or name  # `[kyes.ci]` holds keys too
        for path, word, is_name in _words({name: table}, ()):
            reason = _name_reason(word) if is_name else _reason(group, path, word)
            if reason is not None:
                report.secret(path, word, f"here stands {reason}; it is not repeated", _remedy(group))


def _name_reason(name: str) -> str | None:
    return "a name that looks like a key" if secrecy.is_secret(name) else None


def _reason(group: str, path: Path, value: str) -> str | None:
    key = _key(path)
    if key.endswith("sha256") and group in CREDENTIAL_GROUPS:
        return None if _SHA256.fullmatch(value) else "what is no SHA-256 of 64 hexadecimal digits, so perhaps the key"
    if key.endswith("_env"):
        return None if secrecy.is_variable(value) else "what is no name of an environment variable, so perhaps the key"
    if secrecy.is_vendor_key(value):
        return "what looks like a key"
    if secrecy.has_user(value):
        return "a URL with a user, and so perhaps a password, in it"
    if group in CREDENTIAL_GROUPS:
        if _CREDENTIAL.fullmatch(key.casefold()) and not secrecy.is_plain_variable(value):
            return "a credential"
        if _SHA256.fullmatch(value) and nearest(key, HASHES):
            return None  # a hash, at a misspelt key
    if not any(part in FREE_KEYS for part in path) and secrecy.is_random(value):
        return "what looks like a key"
    return None


def _remedy(group: str) -> str:
    if group in ("keys", "operators", "server"):
        return f"{_HASH_REMEDY} {_ROTATE}"
    return f"{_VARIABLE_REMEDY} {_ROTATE}" if group == "providers" else f"Take it out. {_ROTATE}"


def _key(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _words(value: Any, path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Every name and every text, with its path; True for a name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*path, key), key, True
            yield from _words(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _words(inner, (*path, place))
    elif isinstance(value, str):
        yield path, value, False
