"""A small HTTP endpoint of a process: for probes and scrapers, not for the internet.

It runs in a thread with an event loop of its own, so that it answers whatever the process does meanwhile, and no client
takes time of the worker's loop. It knows GET and HEAD of a few paths, one request a connection. A request that is slow,
large or no HTTP at all costs one of few connections for a few seconds, and no more; when there are too many, the oldest
one goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from headgate.errors import ConfigError

log = logging.getLogger("headgate.worker")

Answer = tuple[int, str, str | bytes]
"""Status, content type, body."""
Route = Callable[[], Answer | Awaitable[Answer]]
"""Called in the endpoint's thread."""

PATIENCE = 5.0
"""Seconds for one request and its answer."""
LARGEST_REQUEST = 8192
MOST_CONNECTIONS = 64
PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class Refused(Exception):
    """A request that gets no page."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpEndpoint:
    """`GET` of each path of `routes`, on a socket that listens already. Closed by `close()`, or with the process."""

    def __init__(self, listener: socket.socket, routes: Mapping[str, Route]) -> None:
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._routes = routes
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        with contextlib.suppress(RuntimeError):  # closed already
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=LARGEST_REQUEST)
        try:
            await self._closing.wait()
        finally:
            server.close()
            for writer in list(self._open):
                self._drop(writer)
            await asyncio.sleep(0)  # until they are closed

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = self._loop.create_task(self._talk(reader, writer))
        if len(self._open) > MOST_CONNECTIONS:
            self._drop(next(iter(self._open)))

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        """End a connection whatever it is doing; its task may not have begun."""
        writer.transport.abort()
        self._open.pop(writer).cancel()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (OSError, EOFError, TimeoutError):
            writer.transport.abort()
        finally:
            writer.close()
            self._open.pop(writer, None)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        method = "GET"
        try:
            method, path = _read(await reader.readuntil(b"\r\n\r\n"))
            page = await self._page(path)
        except asyncio.LimitOverrunError:
            page = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except Refused as refused:
            page = _refusal(refused.status)
        return _response(page, with_body=method != "HEAD")

    async def _page(self, path: str) -> Answer:
        route = self._routes.get(path)
        if route is None:
            return 404, PLAIN, f"there is {', '.join(sorted(self._routes))}\n"
        try:
            page = route()
            return await page if inspect.isawaitable(page) else page
        except Exception:
            log.exception("the page %s failed", path)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


def serve(host: str, port: int, routes: Mapping[str, Route]) -> HttpEndpoint:
    """Listen on an address and answer there from now on; port 0 takes a free one."""
    return HttpEndpoint(listen(host, port), routes)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; raises ConfigError where that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)  # pyright: ignore[reportArgumentType]
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error}; choose another port, or an address of this machine"
        ) from None


def _read(head: bytes) -> tuple[str, str]:
    """Method and path of a request, without its query."""
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(HTTPStatus.BAD_REQUEST)
    if words[0] not in ("GET", "HEAD"):
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    return words[0], words[1].partition("?")[0]


def _refusal(status: HTTPStatus) -> Answer:
    return status, PLAIN, f"{status.phrase}\n"


def _response(page: Answer, *, with_body: bool) -> bytes:
    status, content_type, text = page
    body = text.encode() if isinstance(text, str) else text
    lines = (
        f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + body if with_body else head
