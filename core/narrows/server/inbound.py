"""An ASGI scope as the frozen value that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.types import Inbound


def route_path(scope: Mapping[str, Any]) -> str:
    """The path below the mount: "/" or longer. Below a mount `scope["path"]` contains `root_path`."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return (below(path, root) or path) if root else path


def below(path: str, prefix: str) -> str | None:
    """The rest of `path` below `prefix`, at least "/"; None where it is not below. "/llmx" is not below "/llm"."""
    prefix = prefix.rstrip("/")
    if not path.startswith(prefix):
        return None
    rest = path[len(prefix) :]
    return rest if rest.startswith("/") else None if rest else "/"


def inbound(scope: Mapping[str, Any], path: str) -> Inbound:
    """The request of this scope. Header values are latin-1, as HTTP's are. A websocket's counts as GET."""
    client = scope.get("client")
    return Inbound(
        scope.get("method", "GET"),
        path,
        tuple([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]),
        client[0] if client else None,
        scope.get("user"),
        scope.get("query_string", b"").decode("latin-1"),
    )
