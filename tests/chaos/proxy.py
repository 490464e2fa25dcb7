"""A TCP proxy that mistreats what passes through it: resets, silence, delays, messages cut in half, messages that come
late, after their sender has given up."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable

RESET = struct.pack("ii", 1, 0)
"""Linger: closing sends a reset."""


class _Link:
    """One connection, in two halves."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.writers = (client, server)
        self.open = asyncio.Event()
        self.open.set()
        self.delay = 0.0
        self.cut = False

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes. What was held during a silence is passed on late, even when its sender has gone."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.open.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.cut and len(data) > 1:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    break
                writer.write(data)
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
    """Listens on a port of its own, in a thread of its own."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.port = port
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="proxy", daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, writer, out)
        if self._silent:
            link.open.clear()
        self._links.add(link)
        try:
            await asyncio.gather(link.pump(reader, out), link.pump(there, writer))
        finally:
            self._links.discard(link)

    def _each(self, act: Callable[[_Link], None], share: float, dice: random.Random) -> None:
        def run() -> None:
            for link in list(self._links):
                if dice.random() < share:
                    act(link)

        self._loop.call_soon_threadsafe(run)

    def reset(self, share: float, dice: random.Random) -> None:
        """Some connections are reset."""
        self._each(_Link.reset, share, dice)

    def silence(self, share: float, dice: random.Random) -> None:
        """Nothing passes on some connections, nor, if on all of them, on new ones."""
        self._silent = share >= 1
        self._each(lambda link: link.open.clear(), share, dice)

    def delay(self, seconds: float, share: float, dice: random.Random) -> None:
        """All that passes on some connections takes longer."""
        self._each(lambda link: setattr(link, "delay", seconds), share, dice)

    def cut(self, share: float, dice: random.Random) -> None:
        """The next message on some connections arrives by half, then they end."""
        self._each(lambda link: setattr(link, "cut", True), share, dice)

    def heal(self) -> None:
        """What was held passes, late; no more faults."""

        def run() -> None:
            self._silent = False
            for link in list(self._links):
                link.delay, link.cut = 0.0, False
                link.open.set()

        self._loop.call_soon_threadsafe(run)

    def close(self) -> None:
        """End it, and what is left of its connections."""

        def run() -> None:
            for link in list(self._links):
                link.reset()
            self._loop.stop()

        self._loop.call_soon_threadsafe(run)
        self._thread.join(5)
