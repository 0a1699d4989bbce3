"""`narrows keygen`: a new client key and its hash. The file gets the hash, the caller the key; nobody keeps the key."""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Final

import typer

from narrows.cli.output import document, say, tell

KEY_BYTES: Final = 32
PREFIX: Final = "nrw_"


def keygen(
    as_json: Annotated[bool, typer.Option("--json", help="Print {key, sha256} as JSON.")] = False,
) -> None:
    """Make a client key.

    The key is for its user, the hash for the configuration.
    """
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    digest = hashlib.sha256(key.encode()).hexdigest()
    if as_json:
        document({"key": key, "sha256": digest})
        return
    say(key)
    tell("Give that key to its user; it is not shown again. Put its hash into the configuration:")
    tell()
    say(f'[keys.NAME]\nsha256 = "{digest}"')
