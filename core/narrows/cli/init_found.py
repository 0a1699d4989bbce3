"""What `narrows init` finds on this machine: keys in the environment, by the names of their variables, and an Ollama.

No value of a variable leaves this module, and nothing but loopback is asked.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec


@dataclass(frozen=True, slots=True)
class Found:
    """One provider for the file. `said`: how it was found, for people. `models`: what it can be asked for."""

    name: str
    base_url: str
    said: str
    models: tuple[str, ...]
    variable: str | None = None
    local: bool = False


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor that speaks OpenAI's chat completions, with a model to begin with."""

    name: str
    variable: str
    base_url: str
    model: str


VENDORS: Final = (
    Vendor("openai", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-4o-mini"),
    Vendor("mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-small-latest"),
    Vendor("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"),
    Vendor("together", "TOGETHER_API_KEY", "https://api.together.xyz/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    Vendor("deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", "deepseek-chat"),
    Vendor("openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openai/gpt-4o-mini"),
    Vendor("xai", "XAI_API_KEY", "https://api.x.ai/v1", "grok-3-mini"),
    Vendor("fireworks", "FIREWORKS_API_KEY", "https://api.fireworks.ai/inference/v1",
           "accounts/fireworks/models/llama-v3p3-70b-instruct"),
    Vendor("cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1", "llama3.1-8b"),
    Vendor("gemini", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.0-flash"),
)  # fmt: skip

OLLAMA: Final = ("127.0.0.1", 11434)
CONNECT_SECS: Final = 0.5
ANSWER_SECS: Final = 2.0
MOST_BYTES: Final = 1_000_000
MOST_MODELS: Final = 3

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


def vendors(env: Mapping[str, str]) -> Iterator[Found]:
    """Each vendor whose variable holds what could be a key."""
    for one in VENDORS:
        if _KEY.fullmatch(env.get(one.variable, "").strip()):
            yield Found(one.name, one.base_url, f"{one.variable} is set", (one.model,), one.variable)


def ollama(address: tuple[str, int]) -> Found | None:
    """The Ollama that listens there, or None. Bounded in time and size, whatever listens."""
    host, port = address
    try:
        models = _models(_fetched(host, port, "/api/tags"))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    said = f"Ollama answers on {host}:{port}"
    if not models:
        said += ", without a model yet: `ollama pull llama3.2`"
    return Found("ollama", f"http://{host}:{port}/v1", said, models or ("llama3.2",), local=True)


def _fetched(host: str, port: int, path: str) -> bytes:
    """Raises OSError or HTTPException where nothing, or nothing sensible, answers in time."""
    connection = http.client.HTTPConnection(host, port, timeout=CONNECT_SECS)
    connection.connect()
    # The socket's own time-out is per read: what sends a byte now and then would never end.
    alarm = threading.Timer(ANSWER_SECS, _cut, (connection.sock,))
    alarm.start()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise http.client.HTTPException("not an Ollama")
        return answer.read(MOST_BYTES)
    finally:
        alarm.cancel()
        alarm.join()
        connection.close()


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _models(body: bytes) -> tuple[str, ...]:
    """The names of its models. Raises ValueError where the answer is not Ollama's."""
    answer: Any = msgspec.json.decode(body)  # DecodeError is a ValueError
    rows = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ValueError("not Ollama's list of models")
    names = [row.get("name") for row in rows if isinstance(row, dict)]
    # What listens there is not ours: only what looks like a model's name comes into the file.
    return tuple(name for name in names if isinstance(name, str) and _MODEL.fullmatch(name))[:MOST_MODELS]
