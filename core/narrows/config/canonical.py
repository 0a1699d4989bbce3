"""The canonical form: what a configuration means, as one text, however it is written. Its digest names the policy.

Sorted JSON of the validated data: order of keys, space, comments, the split into files and other spellings make no
difference. Where the server listens is no policy. Source: DESIGN sections 1 and 11.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from pydantic import BaseModel

from narrows.config.blocks import OWN
from narrows.config.settings import Settings
from narrows.registry import Registered
from narrows.types import Json

NO_POLICY: Final = frozenset({"host", "port", "shutdown_grace_secs"})
"""Keys of [server] that change where and how long it runs, not who may what."""


def canonical_form(settings: Settings, blocks: Iterable[Registered]) -> str:
    """Sorted JSON. Hashes of keys are in it as hashes of themselves: the form is kept, and no key hash ever is."""
    document = _plain(settings)
    if not isinstance(document, dict):
        raise TypeError("settings are a dataclass")
    server = {key: value for key, value in _table(document["server"]) if key not in NO_POLICY}
    document["server"] = _hashed(server, "metrics_key_sha256")
    document["keys"] = {name: _hashed(key, "sha256") for name, key in _table(document["keys"])}
    document["blocks"] = {entry.path: _block(entry) for entry in blocks}
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def policy_digest(canonical: str, blocks: Iterable[Registered]) -> str:
    """64 hex digits: SHA-256 of the canonical form and of the plugin distributions in use, with their versions."""
    plugins = {f"{entry.kind.distribution}=={entry.kind.version}" for entry in blocks}
    return hashlib.sha256("\n".join([canonical, *sorted(plugins)]).encode()).hexdigest()


def _block(entry: Registered) -> Json:
    # What the core's own blocks hold follows from the settings; it would repeat them, key hashes included.
    options = {} if entry.path in OWN else _plain(entry.block)
    return {"kind": entry.kind.name, "options": options}


def _hashed(table: Json, key: str) -> Json:
    if not isinstance(table, dict) or not isinstance(table.get(key), str):
        return table
    return {**table, key: hashlib.sha256(str(table[key]).encode()).hexdigest()}


def _table(value: Json) -> Iterable[tuple[str, Json]]:
    return value.items() if isinstance(value, dict) else ()


def _plain(value: Any) -> Json:
    """Any value of a setting or an option as JSON that is the same for every run: sets are sorted."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(inner) for inner in value), key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value)
