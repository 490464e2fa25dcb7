"""Connections. A driver's connection belongs to one event loop, an engine to all of them: each loop has its own few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate.engine.postgres.trouble import translated
from headgate.errors import EngineUnavailable

MOST = 8
"""Connections per event loop and process. A worker uses two or three: exchange, heartbeat, sweep."""
CONNECT_TIMEOUT = 10

Connection = Any
"""An asyncpg connection; the driver is not typed."""


_connect = cast(Callable[..., Awaitable[Connection]], asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]


Loop = asyncio.AbstractEventLoop


class Lane:
    """The connections of one event loop: the one used last is used next."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.turn = asyncio.Semaphore(MOST)

    def take(self) -> Connection | None:
        while self.idle:
            connection = self.idle.pop()
            if not connection.is_closed():
                return connection
        return None


class Lanes:
    """The connections of one process."""

    def __init__(self, dsn: str, where: str, options: dict[str, Any]) -> None:
        self.dsn = dsn
        self.where = where
        self.options = options
        self._lanes: WeakKeyDictionary[Loop, Lane] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[Loop, AsyncGenerator[None]] = WeakKeyDictionary()

    async def connect(self) -> Connection:
        """One connection that nobody else gets."""
        with translated(self.where, connecting=True):
            return await _connect(self.dsn, timeout=CONNECT_TIMEOUT, **self.options)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection for one verb. One that was interrupted or in trouble is not used again: it may lead to a server
        that has become a standby."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            lane = self._lanes[loop] = Lane()
            self._ends[loop] = end = self._until_the_loop_ends(loop)
            await anext(end)
        async with lane.turn:
            connection = lane.take() or await self.connect()
            try:
                with translated(self.where):
                    yield connection
            except (asyncio.CancelledError, EngineUnavailable):
                connection.terminate()
                raise
            except BaseException:
                if not connection.is_closed() and connection.is_in_transaction():
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    lane.idle.append(connection)

    async def _until_the_loop_ends(self, loop: Loop) -> AsyncGenerator[None]:
        """Hangs up when the loop shuts down, even if nobody closes the engine: a loop finishes its generators."""
        try:
            yield
        finally:
            lane = self._lanes.pop(loop, None)
            for connection in lane.idle if lane is not None else ():
                connection.terminate()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Let go of every connection, also of those of other loops."""
        here = asyncio.get_running_loop()
        for loop, lane in list(self._lanes.items()):
            for connection in lane.idle:
                if loop is here:
                    await _close(connection)
                elif loop.is_running():
                    loop.call_soon_threadsafe(connection.terminate)
            lane.idle.clear()
        self._lanes.clear()
        if (end := self._ends.pop(here, None)) is not None:
            await end.aclose()


async def _close(connection: Connection) -> None:
    try:
        await asyncio.wait_for(connection.close(), 2)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
