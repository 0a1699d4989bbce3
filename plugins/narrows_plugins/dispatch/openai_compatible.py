"""`openai_compatible`: any server that speaks OpenAI's chat completions.

    [providers.acme]
    kind = "openai_compatible"
    base_url = "https://api.acme.example/v1"
    api_key_env = "ACME_API_KEY"          # the name of a variable, never the key; left out where none is needed

The key is read when the gateway starts and never leaves this block but in the header of a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr

from narrows import Attempt, NarrowsError, Provider, Reply, Services, hookimpl

PATH: Final = "/chat/completions"
HEADERS: Final = frozenset({"http-referer", "openai-organization", "openai-project", "x-title"})
"""What an operator may add to every call. Closed, so that no credential stands in a file."""

_URL = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # printable ASCII; no backslash, which some clients read as a slash
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def _origin(url: str) -> str:
    # None of these texts repeats the URL: it may hold a password or a key.
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is no URL; write one like https://api.example.com/v1") from None
    if parts.scheme not in ("http", "https") or not host or not _URL.fullmatch(url):
        raise ValueError("is no http or https URL with a host; write one like https://api.example.com/v1")
    if "@" in parts.netloc:
        raise ValueError("must not name a user; leave that out and name the key's variable in api_key_env")
    if "?" in url:
        raise ValueError("has a query; keys in a query end in logs, name the key's variable in api_key_env")
    if "#" in url:
        raise ValueError("has a fragment (#…); leave that out")
    bare = url.rstrip("/")
    if bare.endswith(PATH):
        raise ValueError(f"it ends in {PATH}, which is put behind it; leave that out")
    return bare


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("is no name of an environment variable; put the key into one and write its name here")
    return name


def _header(name: str) -> str:
    if name.lower() not in HEADERS:
        raise ValueError(f"is no header that can be set here; these can: {', '.join(sorted(HEADERS))}")
    return name.lower()


def _value(value: str) -> str:
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError("must be printable ASCII without space at its ends")
    return value


Url: TypeAlias = Annotated[str, AfterValidator(_origin)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]
Headers: TypeAlias = Mapping[Annotated[str, AfterValidator(_header)], Annotated[str, AfterValidator(_value)]]


class OpenAICompatible(Provider):
    """An account at a server that speaks OpenAI's chat completions.

    Options: `base_url`, where `/chat/completions` is put behind; `api_key_env`, the name of the environment variable
    with the key; `headers`, fixed headers of a short list (`openai-organization` and the like).
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    base_url: Url
    """Where `/chat/completions` is put behind. The only origin that it can reach."""
    api_key_env: Variable | None = None
    """The name of the environment variable that holds the key. Left out: no key is sent."""
    headers: Headers = Field(default_factory=dict)
    """Fixed headers of each call: `openai-organization`, `openai-project`, `http-referer`, `x-title`."""

    _key: str | None = PrivateAttr(None)

    def credential(self) -> str | None:
        """The variable's name."""
        return self.api_key_env

    @hookimpl
    def start(self, services: Services) -> None:
        """Read the key. Raises NarrowsError, naming the variable, where it holds none."""
        if self.api_key_env is None:
            return
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise NarrowsError(f"environment variable {self.api_key_env} is not set, and a provider needs its key")
        if not _HEADER_VALUE.fullmatch(key):
            raise NarrowsError(f"environment variable {self.api_key_env} holds no printable ASCII, so no key")
        self._key = key

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send the body as it is, with this account's key. Raises NarrowsError before `start`."""
        headers = {**attempt.headers, **self.headers, "content-type": "application/json"}
        if self.api_key_env is not None:
            if self._key is None:
                raise NarrowsError("this provider was not started, so it has no key; nothing was sent")
            headers["authorization"] = f"Bearer {self._key}"
        return await attempt.send(PATH, headers, attempt.body)
