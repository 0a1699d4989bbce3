"""uvicorn's fast HTTP protocol, with two things closed that it leaves open.

A head of any size is read and buffered, on one core, before an application is asked. And what stands behind a chunked
body (trailers) is added to the headers, but only where it came in the same packet: a proxy in front that filters headers
would be passed by, sometimes.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""The largest request line with its headers."""


class BoundedHead(HttpToolsProtocol):
    """Refuses a head that is too large (400, connection closed), and does not take trailers for headers."""

    _head_bytes = 0
    _head_complete = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._head_complete:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("Request header fields too large")

    def on_message_begin(self) -> None:
        self._head_bytes, self._head_complete = 0, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_complete = True
        super().on_headers_complete()
