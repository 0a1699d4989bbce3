"""Making a gateway opens nothing, so a server may make it before it forks its workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from narrows.testing import RecordingProvider
from tests.support.config import basic_config, write_config

SCRIPT = """
import json, os, sys, threading

import anyio, anyio.to_thread, httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from narrows import Gateway, NarrowsMiddleware, attach, transport
from narrows.server import Application

def descriptors():
    return sorted(os.listdir("/dev/fd"))

events = []
watching = False
def watch(event, arguments):
    if watching and event.partition(".")[0] in ("socket", "subprocess", "os") and event not in ("os.listdir", "os.scandir"):
        events.append(event)
    if watching and event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        events.append("open for writing")
sys.addaudithook(watch)

before, watching = descriptors(), True
gateway = Gateway.from_file(sys.argv[1])
for app in (Starlette(), FastAPI()):
    attach(app, "/llm", gateway)
    app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/v2")
Application(gateway)
inside = transport(gateway, principal="ci")
opened = {"descriptors": len(descriptors()) - len(before), "threads": threading.active_count() - 1, "events": events[:]}
watching = False

async def serve():
    body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
    async with gateway, httpx.AsyncClient(transport=inside) as client:
        answers = [await client.post("http://narrows/v1/chat/completions", json=body) for _ in range(2)]
    return [answer.status_code for answer in answers]

workers = []
for backend in ("asyncio", "trio"):
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.write(writing, json.dumps(anyio.run(serve, backend=backend)).encode())
        os._exit(0)
    os.close(writing)
    workers.append((worker, reading))
served = []
for worker, reading in workers:
    os.waitpid(worker, 0)
    served.append(json.loads(os.read(reading, 1000) or b"null"))
watching = True
parent = anyio.run(serve)
print(json.dumps({"opened": opened, "served": served, "parent": parent, "then": sorted(set(events))}))
"""
KEY = '\n[keys.ci]\nsha256 = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"\n'


def test_a_gateway_made_before_a_fork_serves_in_every_worker(tmp_path: Path, provider: RecordingProvider) -> None:
    file = write_config(tmp_path, basic_config({"a": provider.base_url}, more=KEY))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["opened"] == {"descriptors": 0, "threads": 0, "events": []}
    assert told["served"] == [[200, 200], [200, 200]]
    assert told["parent"] == [200, 200]
    assert "socket.connect" in told["then"]  # the control: what would have been opened would have been seen
    assert provider.count() == 6
    assert provider.connections == 3  # one of each process's own: a shared one would mix up their answers
