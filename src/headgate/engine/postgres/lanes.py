"""Connections. A driver's connection belongs to one event loop, an engine to all of them: each loop has its own few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast
from weakref import WeakKeyDictionary

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate.engine.postgres.trouble import translated

MOST = 8
"""Connections per event loop and process. A worker uses two or three: exchange, heartbeat, sweep."""
CONNECT_TIMEOUT = 10

Connection = Any
"""An asyncpg connection; the driver is not typed."""


_connect = cast(Callable[..., Awaitable[Connection]], asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]


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
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, Lane] = WeakKeyDictionary()

    async def connect(self) -> Connection:
        """One connection that nobody else gets."""
        with translated(self.where):
            return await _connect(self.dsn, timeout=CONNECT_TIMEOUT, **self.options)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection for one verb. One that was interrupted in the middle is not used again."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            lane = self._lanes[loop] = Lane()
        async with lane.turn:
            connection = lane.take() or await self.connect()
            try:
                with translated(self.where):
                    yield connection
            except asyncio.CancelledError:
                connection.terminate()
                raise
            except BaseException:
                if not connection.is_closed() and connection.is_in_transaction():
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    lane.idle.append(connection)

    async def close(self) -> None:
        """Let go of every connection, also of loops that are gone."""
        here = asyncio.get_running_loop()
        for loop, lane in list(self._lanes.items()):
            for connection in lane.idle:
                if loop is here:
                    await _close(connection)
                elif loop.is_closed():
                    _abandon(connection)
                else:
                    loop.call_soon_threadsafe(connection.terminate)
            lane.idle.clear()
        self._lanes.clear()


async def _close(connection: Connection) -> None:
    try:
        await asyncio.wait_for(connection.close(), 2)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


def _abandon(connection: Connection) -> None:
    """Its loop is closed: only the socket is left to be closed."""
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    with suppress(OSError, AttributeError):
        cast(Any, sock)._sock.close()
