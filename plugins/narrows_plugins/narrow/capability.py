"""`capability`: a target that declares `false` for something the request needs cannot answer it. On every route.

Undeclared means capable: only certainty excludes. The exception is a tool that the vendor runs (`server_tool.NAME`): it
searches or fetches where no rule looks, so a target must declare it. Source: DESIGN sections 4 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from narrows import Constraint, Exclusion, Request, Target

CODE_PREFIX: Final = "capability."
SERVER_TOOL: Final = "server_tool."

_LACKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio": "has no audio input",
        "json_schema": "cannot answer in a JSON schema",
        "parallel_tools": "cannot call several tools at once",
        "streaming": "cannot stream",
        "tools": "cannot call tools",
        "vision": "has no image input",
    }
)


def lacks(target: Target, feature: str) -> bool:
    """Does the target declare that it cannot do this, or not declare a tool that its vendor would run?"""
    declared = target.capabilities.get(feature)
    return not declared if feature.startswith(SERVER_TOOL) else declared is False


class Capability(Constraint[str]):
    """Only targets that can do what the request asks for: tools, images, JSON schema and the like."""

    reads = frozenset({"features"})

    def demands(self, request: Request) -> Iterable[str]:
        """One demand for each feature of the request."""
        return request.features

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        """`capability.<name>` where the target declares it false."""
        if not lacks(target, demand):
            return None
        return Exclusion(CODE_PREFIX + demand, _LACKS.get(demand, f"has no {demand}"))
