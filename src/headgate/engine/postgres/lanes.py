"""Connections. A driver's connection belongs to one event loop, an engine to all of them: each loop has its own few."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate.engine.postgres.trouble import translated, translation
from headgate.errors import EngineUnavailable

MOST = 8
"""Verbs at a time per event loop and process. A worker uses two connections or three: exchange, heartbeat, sweep."""
CONNECT_TIMEOUT = 10
IDLE = 60.0
"""Seconds after which a connection that nobody has needed is hung up: a server has a hundred for everybody."""

Connection = Any
"""An asyncpg connection; the driver is not typed."""


_connect = cast(Callable[..., Awaitable[Connection]], asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]


Loop = asyncio.AbstractEventLoop


class Lane:
    """The connections of one event loop: the one used last is used next.

    Those that have exchanged are kept for that. A server plans a step anew on each connection, which takes ten times as
    long as the step: a sweep that takes the connection of the exchange makes the next job wait for it.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(MOST)
        self._idle: list[tuple[Connection, float]] = []
        self._exchanging: list[tuple[Connection, float]] = []

    def take(self, exchange: bool) -> Connection | None:
        for idle in (self._exchanging, self._idle) if exchange else (self._idle,):
            while idle:
                connection, _ = idle.pop()
                if not connection.is_closed():
                    return connection
        return None

    def give_back(self, connection: Connection, exchange: bool, now: float) -> None:
        (self._exchanging if exchange else self._idle).append((connection, now))
        for idle in (self._exchanging, self._idle):
            while idle and idle[0][1] < now - IDLE:
                idle.pop(0)[0].terminate()

    def clear(self) -> list[Connection]:
        found = [connection for connection, _ in self._idle + self._exchanging]
        self._idle.clear()
        self._exchanging.clear()
        return found


class Borrowed:
    """A connection while it is in use. The driver's errors leave it as Headgate's.

    One that was interrupted or in trouble is not used again: it may lead to a server that has become a standby.
    """

    __slots__ = ("_connection", "_exchange", "_lane", "_lanes")

    def __init__(self, lanes: Lanes, exchange: bool) -> None:
        self._lanes = lanes
        self._exchange = exchange

    async def __aenter__(self) -> Connection:
        lane = self._lane = await self._lanes.lane()
        await lane.turn.acquire()
        try:
            connection = self._connection = lane.take(self._exchange) or await self._lanes.connect()
        except BaseException:
            lane.turn.release()
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lane, connection = self._lane, self._connection
        lane.turn.release()
        known = error and translation(self._lanes.where, error)
        if isinstance(known or error, asyncio.CancelledError | EngineUnavailable) or (
            error is not None and not connection.is_closed() and connection.is_in_transaction()
        ):
            connection.terminate()
        if not connection.is_closed():
            lane.give_back(connection, self._exchange, time.monotonic())
        if known:
            raise known from error


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

    def connection(self, *, exchange: bool = False) -> Borrowed:
        """A connection for one verb, or a few in a row: `async with`."""
        return Borrowed(self, exchange)

    async def lane(self) -> Lane:
        """The connections of the loop that runs this."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            lane = self._lanes[loop] = Lane()
            self._ends[loop] = end = self._until_the_loop_ends(loop)
            await anext(end)
        return lane

    async def _until_the_loop_ends(self, loop: Loop) -> AsyncGenerator[None]:
        """Hangs up when the loop shuts down, even if nobody closes the engine: a loop finishes its generators."""
        try:
            yield
        finally:
            lane = self._lanes.pop(loop, None)
            for connection in lane.clear() if lane is not None else ():
                connection.terminate()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Let go of every connection, also of those of other loops."""
        here = asyncio.get_running_loop()
        for loop, lane in list(self._lanes.items()):
            for connection in lane.clear():
                if loop is here:
                    await _close(connection)
                elif loop.is_running():
                    loop.call_soon_threadsafe(connection.terminate)
        self._lanes.clear()
        if (end := self._ends.pop(here, None)) is not None:
            await end.aclose()


async def _close(connection: Connection) -> None:
    try:
        await asyncio.wait_for(connection.close(), 2)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
