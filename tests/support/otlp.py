"""A collector that somebody else wrote (`rotel`, a wheel with a program in it), and a sink of our own behind it."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.servers import HOST, free_port

PATIENCE = 10.0
POLL = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """One span as it arrived. Ids are hexadecimal; `parent` is "" where it has none. `events`: name and attributes."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    error: bool
    message: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class Sink:
    """Takes OTLP over HTTP, and keeps every span."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"
        self._changed = threading.Condition()
        self._spans: list[Seen] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def take(self, headers: dict[str, str], body: bytes) -> None:
        """One export. Raises what protobuf raises for what is none."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        found = [
            _seen(span, _values(of.resource.attributes), scoped.scope.name)
            for of in request.resource_spans
            for scoped in of.scope_spans
            for span in scoped.spans
        ]
        with self._changed:
            self.headers.append(headers)
            self.bodies.append(body)
            self._spans += found
            self._changed.notify_all()

    def wait(self, enough: Callable[[list[Seen]], bool]) -> list[Seen]:
        """All spans so far, as soon as they are enough. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self._spans), PATIENCE):
                raise TimeoutError(f"not enough spans within {PATIENCE:g} s: {[span.name for span in self._spans]}")
            return list(self._spans)


@contextmanager
def sink(status: int = 200) -> Iterator[Sink]:
    """A sink that listens until the block ends, and answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept.take(headers, gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    kept = Sink(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def no_rotel() -> str | None:
    """Why rotel cannot run here, or None. Its wheels are for Linux, and its program loads this Python's shared library."""
    program = _program()
    if program is None:
        return "there is no wheel of rotel for this platform"
    ran = subprocess.run([program, "version"], env=_environment(), capture_output=True, check=False)
    return None if ran.returncode == 0 else f"rotel does not run: {ran.stderr.decode(errors='replace')[:200]}"


@contextmanager
def rotel(behind: Sink) -> Iterator[str]:
    """A collector that passes everything on to the sink. Its URL."""
    program, port = _program(), free_port()
    if program is None:
        raise RuntimeError("ask `no_rotel` first")
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "pid-file": f"{folder}/pid",
            "log-file": f"{folder}/log",
            "otlp-http-endpoint": f"{HOST}:{port}",
            "otlp-grpc-endpoint": f"{HOST}:{free_port()}",
            "exporter": "otlp",
            "otlp-exporter-protocol": "http",
            "otlp-exporter-endpoint": behind.url,
            "batch-timeout": "20ms",
        }
        command = [program, "start", *(part for key, value in options.items() for part in (f"--{key}", value))]
        with (Path(folder) / "out").open("wb") as out:
            process = subprocess.Popen(command, env=_environment(), stdout=out, stderr=out)
            try:
                _wait_listening(process, port)
                yield f"http://{HOST}:{port}"
            finally:
                process.terminate()
                process.wait(PATIENCE)


def _program() -> str | None:
    found = find_spec("rotel")
    places = found.submodule_search_locations if found is not None else None
    return str(Path(next(iter(places))) / "rotel-agent") if places else None


def _environment() -> dict[str, str]:
    """Where the shared library of this Python is, which no wheel can know."""
    places = (str(sysconfig.get_config_var("LIBDIR")), os.environ.get("LD_LIBRARY_PATH", ""))
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(place for place in places if place)}


def _wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            time.sleep(POLL)  # nothing can be awaited: it is another process
        else:
            return
    raise RuntimeError(f"rotel does not listen; it ended with {process.poll()}")


def _seen(span: Span, resource: dict[str, Any], scope: str) -> Seen:
    return Seen(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        error=span.status.code == 2,
        message=span.status.message,
        attributes=_values(span.attributes),
        resource=resource,
        scope=scope,
        events=[(event.name, _values(event.attributes)) for event in span.events],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)
