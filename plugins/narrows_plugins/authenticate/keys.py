"""`keys`: callers who carry one of the configured keys, in `Authorization: Bearer` or `x-api-key`.

The configuration builds this block from `[keys.NAME] sha256`. It knows hashes only; neither they nor a credential ever
appear in a text, an error or a `repr`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from narrows import Authenticator, Denial, Identity, Inbound, hookimpl

UNAUTHENTICATED: Final = "unauthenticated"

_AUTHORIZATION: Final = "authorization"
_API_KEY: Final = "x-api-key"
_EXPECTED: Final = "send the key as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SHELF_BYTES: Final = 2
_NOBODY: Final = (("", bytes(32)),)


def credential(inbound: Inbound) -> str | Denial | None:
    """The one key that a caller sends, a `Denial` for what is none, or None where it sends nothing."""
    found = set()
    for header, value in inbound.headers:
        if header == _API_KEY:
            found.add(value.strip())
        elif header == _AUTHORIZATION:
            scheme, _, rest = value.strip().partition(" ")
            if scheme.lower() != "bearer":
                return Denial(UNAUTHENTICATED, f"Authorization is not a bearer key; {_EXPECTED}", _AUTHORIZATION)
            found.add(rest.strip())
    if len(found) > 1:
        return Denial(UNAUTHENTICATED, f"two different keys were sent; {_EXPECTED}, one key only", _AUTHORIZATION)
    if "" in found:
        return Denial(UNAUTHENTICATED, f"the key is empty; {_EXPECTED}", _AUTHORIZATION)
    return found.pop() if found else None


class Keys(Authenticator):
    """Recognises callers by the SHA-256 of their key.

    Options: `sha256`, from the name of a key to its hash, 64 hexadecimal digits.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    sha256: Mapping[str, str] = Field(repr=False)
    """From the name of each key to its hash, 64 hexadecimal digits."""

    _shelves: dict[bytes, tuple[tuple[str, bytes], ...]] = PrivateAttr(default_factory=dict)

    @field_validator("sha256")
    @classmethod
    def _hashes(cls, sha256: Mapping[str, str]) -> Mapping[str, str]:
        lowered = {name: value.strip().lower() for name, value in sha256.items()}
        owners: dict[str, str] = {}
        for name, value in lowered.items():
            if not _SHA256.fullmatch(value):
                raise ValueError(
                    f"the sha256 of key {name} is not 64 hexadecimal digits; `narrows keygen` prints a key and its hash"
                )
            if value in owners:
                raise ValueError(f"keys {owners[value]} and {name} have the same sha256; each key has one name")
            owners[value] = name
        return lowered

    def model_post_init(self, context: Any, /) -> None:
        """Shelve the digests by their first bytes, so that many keys cost a request no more than few."""
        for name, value in self.sha256.items():
            digest = bytes.fromhex(value)
            shelf = digest[:_SHELF_BYTES]
            self._shelves[shelf] = (*self._shelves.get(shelf, ()), (name, digest))

    @hookimpl
    def authenticate(self, inbound: Inbound) -> Identity | Denial | None:
        """The name of the key; a `Denial` for an unknown one, two different ones, or another scheme; None without."""
        sent = credential(inbound)
        if not isinstance(sent, str):
            return sent
        name = self._owner(hashlib.sha256(_wire(sent)).digest())
        if name is None:
            return Denial(UNAUTHENTICATED, "this key is not known here; ask the operator for one", _AUTHORIZATION)
        return Identity(name)

    def _owner(self, digest: bytes) -> str | None:
        # Which shelf is looked at tells at most the first bytes of the digest of what the caller itself sent, and an
        # empty shelf compares too. On a shelf every digest is compared whole, in constant time, without stopping early.
        owner = None
        for name, known in self._shelves.get(digest[:_SHELF_BYTES], _NOBODY):
            if hmac.compare_digest(digest, known) and name:
                owner = name
        return owner


def _wire(key: str) -> bytes:
    """The bytes that came in. Header values are read as Latin-1; a caller in this process may send any text."""
    try:
        return key.encode("latin-1")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")
