"""A TCP proxy between a client and a server that can misbehave as networks do. Runs in a thread of its own.

with Proxy("127.0.0.1", server.port) as proxy:
    ...                     # connect to 127.0.0.1:proxy.port
    proxy.silence()         # nothing passes any more, in either direction, and no connection is reset
    proxy.forward()         # what was held back passes, and everything after it
    proxy.cut()             # every connection is reset
    proxy.delay(0.05)       # each piece of data is that much late
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

PIECE = 65536


class Proxy:
    """Forwards every connection to one server, as long as it is not told otherwise."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._pause = 0.0
        self._loop = asyncio.new_event_loop()
        self._passing = asyncio.Event()
        self._passing.set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(10)

    # ── what it is told, from any thread ─────────────────────────────────────────────────────────────────────────

    def forward(self) -> None:
        """Pass everything on, also what was held back."""
        self._tell(self._passing.set)

    def silence(self) -> None:
        """Pass nothing on. Connections are still accepted, and then as silent as the others."""
        self._tell(self._passing.clear)

    def delay(self, seconds: float) -> None:
        """Pass each piece of data on so much later; 0 ends it."""
        self._tell(lambda: setattr(self, "_pause", seconds))

    def cut(self) -> None:
        """Reset every connection there is."""
        self._tell(self._reset)

    def _tell(self, action: object) -> None:
        done = threading.Event()

        def run() -> None:
            action()  # type: ignore[operator]
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)

    # ── in its thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        self._reset()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _end(self) -> None:
        self._stop.set()

    def _reset(self) -> None:
        for writer in list(self._open):
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._passing.wait()
            there, back = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(back)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, back))
                group.create_task(self._pass_on(there, writer))
        finally:
            for end in (writer, back):
                self._open.discard(end)
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                if self._pause:
                    await asyncio.sleep(self._pause)
                await self._passing.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()
