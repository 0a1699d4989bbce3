"""Who may call out: a client per origin, made when it is first needed, owned by the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from narrows.upstream.client import Client
from narrows.upstream.headers import outgoing
from narrows.upstream.origin import Key, Origin
from narrows.upstream.reply import Upstream

if TYPE_CHECKING:
    import ssl

    from narrows.upstream.wire import Wrap


class Clients:
    """Sends calls, each bound to its origin. Belongs to one gateway and one event loop, and survives snapshots.

    Making one opens nothing (so a process may fork after it) and imports no HTTP library.
    """

    def __init__(self, *, fast: bool | None = None, wrap: Wrap | None = None) -> None:
        """`fast`: over aiohttp, on asyncio and where no proxy is configured; None = if the `fast` extra is installed,
        True = fail without it. `wrap`: put around every transport, for tracing."""
        self._fast = fast
        self._wrap = wrap
        self._clients: dict[Key, Client] = {}
        self._known: dict[Origin, Client] = {}
        self._contexts: dict[str | None, ssl.SSLContext] = {}
        self._closed = False

    async def send(
        self,
        origin: Origin,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - of each wait for bytes, not of the whole call
    ) -> Upstream:
        """Call `path` (with its query) below the origin's `base_url`; return when the headers are there.

        `timeout`: seconds for the headers and between two chunks; None = the origin's. Any status is an answer: a
        redirect too, which is not followed. Raises UpstreamFault where there is no answer; ValueError, before anything
        is sent, for a path that could leave the origin and for headers that are not a caller's to set; RuntimeError
        after `aclose`.
        """
        url = origin.url(path)
        fields = outgoing(headers)
        client = self._client(origin)
        seconds = origin.timeout_secs if timeout is None else timeout
        request = client.wire.request(method, url, fields, body, connect=origin.connect_secs, timeout=seconds)
        return await client.send(request, origin.connect_secs, seconds)

    async def keep(self, origins: Iterable[Origin]) -> None:
        """Close the clients of all other origins, each as soon as its last reply is done. For after a reload."""
        wanted = {origin.key for origin in origins}
        leaving = {key: client for key, client in self._clients.items() if key not in wanted}
        self._known.clear()
        for key, client in leaving.items():
            del self._clients[key]
            await client.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use; then nothing is sent any more. May be called again."""
        self._closed = True
        clients = list(self._clients.values())
        self._clients.clear()
        self._known.clear()
        for client in clients:
            await client.aclose()

    def warm(self, origins: Iterable[Origin] = ()) -> None:
        """Import the HTTP library (0.1 s and more) and load certificates now, so that no caller waits for them.

        To be called inside the event loop. It connects nowhere. Raises what `send` would: OSError or ssl.SSLError for
        a `ca_file` that cannot be read, ImportError where `fast=True` lacks its extra.
        """
        import narrows.upstream.wire  # noqa: F401 - also where there is no origin yet

        for origin in origins:
            self._client(origin)

    def _client(self, origin: Origin) -> Client:
        client = self._known.get(origin)
        if client is None:
            if self._closed:
                raise RuntimeError("the gateway's clients are closed: nothing is sent after shutdown")
            client = self._clients.get(origin.key)
            if client is None:
                client = self._clients[origin.key] = self._open(origin)
            self._known[origin] = client
        return client

    def _open(self, origin: Origin) -> Client:
        from narrows.upstream.wire import Wire, plain_context, tls_context

        if origin.secure and origin.ca_file not in self._contexts:
            self._contexts[origin.ca_file] = tls_context(origin.ca_file)
        context = self._contexts[origin.ca_file] if origin.secure else plain_context()
        fast = origin.proxy is None and self._over_aiohttp()  # aiohttp has its own ideas of a proxy's credentials
        return Client(Wire(origin, context, fast=fast, wrap=self._wrap), origin.max_connections)

    def _over_aiohttp(self) -> bool:
        """Whether to use the `fast` extra. Only aiohttp's own loop can drive it."""
        if self._fast is False or not anyio.get_cancelled_exc_class().__module__.startswith("asyncio"):
            return False
        return self._fast is True or find_spec("httpx_aiohttp") is not None
