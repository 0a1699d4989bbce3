"""Where a provider is. Checked once; every call is a path below it and cannot leave it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT_SECS = 120.0
CONNECT_SECS = 10.0
MAX_CONNECTIONS = 1000

PRINTABLE = re.compile(r"[!$-\[\]-~]+")  # no space, control character, quote, "#", "\" or text beyond ASCII
ORIGIN = re.compile(r"[^\x00-\x20\x7f\"#\\?]+")  # the same, but a host may be an international name

Key: TypeAlias = tuple[str, str, int | None, str | None, int | None, str | None]


@dataclass(frozen=True, slots=True)
class Origin:
    """One provider block's place on the network.

    `base_url`: http or https, host, optional port and path; no credentials, query or fragment. `timeout_secs` bounds
    the wait for headers and between two chunks, `connect_secs` TCP and TLS together with the wait for a free
    connection. `max_connections`: None = as many as come. `proxy`: http or https URL, may hold credentials. `ca_file`:
    PEM bundle in place of the built-in one. Raises ValueError, without repeating what it was given.
    """

    base_url: str
    timeout_secs: float = TIMEOUT_SECS
    connect_secs: float = CONNECT_SECS
    max_connections: int | None = MAX_CONNECTIONS
    proxy: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        parts = _split(self.base_url, "base_url")
        if "@" in parts.netloc:
            raise ValueError("base_url holds credentials; name an environment variable for them instead")
        if parts.path:
            _check_path(parts.path.rstrip("/") or "/", "base_url's path")
        if self.proxy is not None:
            _split(self.proxy, "proxy")
        if self.timeout_secs <= 0 or self.connect_secs <= 0:
            raise ValueError("timeout_secs and connect_secs are seconds above 0")
        if self.max_connections is not None and self.max_connections < 1:
            raise ValueError("max_connections is a number above 0, or nothing for no limit")

    @property
    def secure(self) -> bool:
        """Whether calls go over TLS."""
        return self.base_url.lower().startswith("https:")

    @property
    def key(self) -> Key:
        """What connections are shared by: the same host, proxy, limit and certificates. Paths and timeouts are not."""
        parts = urlsplit(self.base_url)
        return parts.scheme, parts.hostname or "", parts.port, self.proxy, self.max_connections, self.ca_file

    def url(self, path: str) -> str:
        """The URL of a call. `path` begins with one "/" and may have a query.

        Raises ValueError for anything that could lead elsewhere: another scheme or host, "//", ".", "..", also encoded.
        """
        _check_path(path, "the path of an upstream call")
        return self.base_url.rstrip("/") + path


def _split(url: str, what: str) -> SplitResult:
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"{what} must begin with http:// or https://")
    if not ORIGIN.fullmatch(url):
        raise ValueError(f"{what} may hold no space, quote, query, fragment or backslash")
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{what} names no host")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{what} has a port that is no number between 1 and 65535")
    return parts


def _check_path(path: str, what: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f'{what} must begin with "/": it is put behind base_url and cannot name a host')
    if not PRINTABLE.fullmatch(path):
        raise ValueError(
            f"{what} may hold printable ASCII only, no space, quote, fragment or backslash; encode the rest"
        )
    decoded, raw = "", path.partition("?")[0]
    while decoded != raw:  # a proxy on the way may decode once more than we do
        decoded, raw = raw, unquote(raw)
    if "//" in raw or "\\" in raw or any(ord(letter) < 32 for letter in raw):
        raise ValueError(f'{what} may not hold "//", "\\" or control characters, encoded or not')
    if any(segment in {".", ".."} for segment in raw.split("/")):
        raise ValueError(f'{what} may not hold the segments "." and "..", encoded or not')
