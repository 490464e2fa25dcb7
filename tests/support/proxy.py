"""A TCP proxy between clients and a server that misbehaves as networks do. It runs in a thread of its own.

with Proxy(server.port) as proxy:
    ...                     # connect to 127.0.0.1:proxy.port
    proxy.silence()         # nothing passes any more, in either direction, and no connection is reset
    proxy.forward()         # what was held back passes, late, and everything after it
    proxy.reset()           # every connection is reset
    proxy.delay(0.05)       # each piece of data is that much late
    proxy.halve()           # the next message arrives by half, then its connection ends

Each of these takes a share of the connections that there are: `proxy.reset(0.3, random.Random(1))`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

PIECE = 65536
RESET = struct.pack("ii", 1, 0)
"""Linger: closing sends a reset."""
PATIENCE = 10


class _Connection:
    """One connection, in two halves."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.writers = (client, server)
        self.passing = asyncio.Event()
        self.passing.set()
        self.delay = 0.0
        self.halved = False

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes. What a silence held back is passed on late, even when its sender has gone."""
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                await self.passing.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.halved and len(piece) > 1:
                    writer.write(piece[: len(piece) // 2])
                    await writer.drain()
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()

    def reset(self) -> None:
        """Both ends see a reset."""
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()


class Proxy:
    """Listens on a port of its own, and forwards to one server on this machine as long as it is not told otherwise."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.port = port
        self._connections: set[_Connection] = set()
        self._silent = False
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="proxy", daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ── what it is told, from any thread ─────────────────────────────────────────────────────────────────────────

    def forward(self) -> None:
        """Pass everything on, also what was held back; no more faults."""

        def mend(connection: _Connection) -> None:
            connection.delay, connection.halved = 0.0, False
            connection.passing.set()

        self._silent = False
        self._each(mend)

    def silence(self, share: float = 1, dice: random.Random | None = None) -> None:
        """Pass nothing on. If all connections are silent, new ones are accepted and are as silent."""
        self._silent = share >= 1
        self._each(lambda connection: connection.passing.clear(), share, dice)

    def delay(self, seconds: float, share: float = 1, dice: random.Random | None = None) -> None:
        """Pass each piece of data on so much later."""
        self._each(lambda connection: setattr(connection, "delay", seconds), share, dice)

    def reset(self, share: float = 1, dice: random.Random | None = None) -> None:
        """Reset connections."""
        self._each(_Connection.reset, share, dice)

    def halve(self, share: float = 1, dice: random.Random | None = None) -> None:
        """Let the next message on a connection arrive by half, then end the connection."""
        self._each(lambda connection: setattr(connection, "halved", True), share, dice)

    def close(self) -> None:
        """End it, and what is left of its connections."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    def _each(
        self, act: Callable[[_Connection], None], share: float = 1, dice: random.Random | None = None
    ) -> None:
        done = threading.Event()

        def run() -> None:
            for connection in list(self._connections):
                if dice is None or dice.random() < share:
                    act(connection)
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(PATIENCE)

    # ── in its thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(ready))
        finally:
            self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        """Accepts by hand: a server of asyncio may still make a connection of what it accepted before it was closed."""
        with socket.create_server(("127.0.0.1", self.port), backlog=100) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            tasks: dict[asyncio.Task[None], socket.socket] = {}
            self._loop.add_reader(listener, self._accept, listener, tasks)
            ready.set()
            await self._stop.wait()
            self._loop.remove_reader(listener)
        for connection in list(self._connections):
            connection.reset()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close their sockets a turn later

    def _accept(self, listener: socket.socket, tasks: dict[asyncio.Task[None], socket.socket]) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            client.setblocking(False)
            task = self._loop.create_task(self._pass_on(client))
            tasks[task] = client
            task.add_done_callback(lambda task: tasks.pop(task).close())

    async def _pass_on(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            back, out = await asyncio.open_connection("127.0.0.1", self.target)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        connection = _Connection(writer, out)
        if self._silent:
            connection.passing.clear()
        self._connections.add(connection)
        try:
            await asyncio.gather(connection.pump(reader, out), connection.pump(back, writer))
        finally:
            self._connections.discard(connection)
            for each in connection.writers:
                each.transport.abort()
