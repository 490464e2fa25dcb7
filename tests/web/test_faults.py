"""What clients, networks and stores do wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate import App
from headgate.testing.plugin import AppFactory
from headgate.web import asgi
from headgate.web import events as web_events
from headgate.web.problems import Refusal
from headgate.web.serve import ImpatientProtocol
from headgate.web.settings import WebSettings
from headgate.web.streams import Streams
from tests.support.proxy import Proxy
from tests.support.redis_servers import binary, fresh_prefix, shared
from tests.support.waiting import PATIENCE
from tests.support.web_server import web_server
from tests.web.serving import serving

ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)
STREAMS = 500


@pytest.fixture
def shop(tmp_path: Path, headgate_app: AppFactory) -> App:
    app = headgate_app(url=f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def sync(customer: int) -> None: ...

    return app


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Impatient(ImpatientProtocol):
    patience = 0.2


def _said_before_the_end(port: int, *sent: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        for part in sent:
            connection.sendall(part)
        said = b""
        while more := connection.recv(65536):
            said += more
    return said


def test_a_request_whose_head_does_not_come_is_cut(shop: App):
    with serving(shop, _Impatient) as port:
        assert _said_before_the_end(port) == b""
        assert (
            _said_before_the_end(port, b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") == b""
        )
        whole = b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = _said_before_the_end(port, whole, b"GET /api/v1/queues HTTP/1.1\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), "the first is answered, the second never comes"


def test_an_answer_may_take_longer_than_a_head(shop: App):
    job = shop.tasks["sync"].enqueue_sync(1)
    with serving(shop, _Impatient) as port:
        answer = httpx.get(
            f"http://localhost:{port}/api/v1/jobs/{job.id}", params={"wait": 0.6}, timeout=PATIENCE
        )
    assert answer.json()["state"] == "ready"


@ON_MEMORY
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/login", "/logout"])
async def test_a_body_that_never_ends_is_refused_wherever_it_is_sent(app: App, path: str):
    from headgate.web import Tokens

    transport = httpx.ASGITransport(asgi(app, auth=Tokens(["o:operate:0123456789abcdef-o"], "the test")))
    headers = {"Authorization": "Bearer 0123456789abcdef-o", "Content-Type": "application/json"}
    sent = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal sent
        while True:
            sent += 65536
            yield b" " * 65536

    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        assert (await client.post(path, content=endless())).status_code == 413
    assert sent < 5 * 1024 * 1024


@ON_MEMORY
async def test_a_body_that_comes_too_slowly_is_refused(app: App, monkeypatch):
    room = sys.modules["headgate.web.asgi"]
    monkeypatch.setattr(room, "WebSettings", lambda **more: WebSettings(**more, body_timeout=0.1))

    async def slow() -> AsyncGenerator[bytes]:
        yield b"{"
        await asyncio.sleep(PATIENCE)

    transport = httpx.ASGITransport(asgi(app), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(
            "/api/v1/jobs", content=slow(), headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, answer.json()["type"]) == (408, "/problems/too-slow")


WRONG = [None, True, 1, -1, 2**70, 1.5, "", "x", "\u0000", [], [[]], {}, {"": {}}]


@pytest.mark.parametrize(
    "field", ["task", "args", "id", "priority", "delay", "at", "limits", "retry", "headers"]
)
async def test_no_value_of_a_wrong_type_is_a_defect(asked, field: str):
    for value in WRONG:
        answer = await asked.client.post("/jobs", json={"task": "t", "raw": True, field: value})
        assert answer.status_code in (201, 409, 422), f"{field}={value!r}: {answer.text}"
    for body in WRONG:
        for path in ("/jobs/batch", "/jobs/cancel", "/work", "/import"):
            answer = await asked.client.post(path, json=body)
            assert answer.status_code == 422, f"{path} {body!r}: {answer.text}"


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_hundreds_of_streams_share_one_reading_of_the_store(shop: App, monkeypatch):
    readings = 0

    async def counted(app: App) -> Any:
        nonlocal readings
        readings += 1
        return await app.queues()

    monkeypatch.setitem(web_events.READINGS, "queues", counted)
    await shop.open()
    with serving(shop) as port:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE), streams(port, STREAMS) as open_streams:
            for reader in open_streams:
                await until(reader, "event: queues")
            begun, before = loop.time(), readings
            await shop.tasks["sync"].enqueue(1)
            for reader in open_streams:
                await until(reader, '"ready":1')
            seconds = loop.time() - begun
            assert readings - before <= seconds / web_events.EVERY + 2


@asynccontextmanager
async def streams(port: int, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in made:
            writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield [reader for reader, _ in made]
    finally:
        for _, writer in made:
            writer.close()


async def until(reader: asyncio.StreamReader, text: str) -> None:
    """Read on until a line has this text."""
    while True:
        line = await reader.readline()
        assert line, f"the stream ended before {text!r}"
        if text in line.decode():
            return


@ON_MEMORY
async def test_a_server_allows_so_many_streams(app: App):
    streams = Streams(app, 1)

    async def nothing() -> AsyncGenerator[bytes]:
        yield b"x"

    body = streams.counted(nothing())
    assert await anext(body) == b"x"
    with pytest.raises(Refusal, match="1 event streams are open"):
        streams.refuse_if_full()
    await body.aclose()
    streams.refuse_if_full()


@ON_MEMORY
async def test_a_stream_ends_after_a_while_to_be_opened_again(app: App, monkeypatch):
    monkeypatch.setattr("headgate.web.streams.LASTS", 0.0)
    transport = httpx.ASGITransport(asgi(app), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as client:
        assert "event: " in (await client.get("/events")).text
        assert (await client.head("/events")).headers["content-type"].startswith("text/event-stream")


# ── stores ───────────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = [kind for kind in ("valkey", "redis7") if binary(kind)][:1]


@pytest.mark.slow(12)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_is_away_is_said_and_missed_until_it_is_back(kind: str, tmp_path: Path):
    process, prefix = shared(kind), fresh_prefix()
    proxy = Proxy(process.port)
    url = f"redis://127.0.0.1:{proxy.port}/0?prefix={prefix}"
    App(url).migrate_sync()
    with (
        web_server(tmp_path, url) as server,
        httpx.Client(base_url=server.origin, timeout=PATIENCE) as client,
    ):
        assert client.get("/api/v1/queues").status_code == 200
        with client.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            seen(lines, "event: queues")
            proxy.close()
            seen(lines, "event: unavailable")
            for path in ("/api/v1/queues", "/", "/queues"):
                answer = client.get(path)
                assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
            assert json.loads(client.get("/api/v1/queues").text)["type"] == "/problems/unavailable"
            with Proxy(process.port, proxy.port):
                seen(lines, "event: available")
                assert client.get("/api/v1/queues").status_code == 200
                assert client.get("/").status_code == 200
                assert server.stop() == 0


def seen(lines: Any, text: str) -> None:
    assert any(text in line for line in lines), f"the stream ended before {text!r}"
