"""Three ways in: alone, mounted in a host, around a host; and in-process, for the host's own clients.

All of them ask one `Gateway.answer`. This package knows ASGI and httpx, and nothing of policy. Source: DESIGN section 9.
"""

from __future__ import annotations

from narrows.server.app import Application
from narrows.server.attach import attach
from narrows.server.handle import Handle
from narrows.server.middleware import NarrowsMiddleware
from narrows.server.transport import transport

__all__ = ["Application", "Handle", "NarrowsMiddleware", "attach", "transport"]
