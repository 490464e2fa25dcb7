"""Connections. A driver's connection belongs to one event loop, an engine to all of them: each loop has its own few.

Whatever is asked of the server goes through a `Borrowed` connection, which has a deadline (deadline.py): a connection
that gives no answer in time is cut, and never waited for. Sockets are told to notice a silent peer by themselves, too,
for connections that only listen.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate import cancels
from headgate.engine.contract import Settings
from headgate.engine.deadline import seconds
from headgate.engine.postgres.errors import translated, translation
from headgate.errors import EngineUnavailable

MOST = 8
"""Verbs at a time per event loop and process. A worker uses two connections or three: exchange, heartbeat, sweep."""
CONNECT_TIMEOUT = 10
IDLE = 60.0
"""Seconds after which a connection that no verb has needed is hung up: a server has a hundred for all its clients."""

CLOSE_TIMEOUT = 2.0
"""Seconds that a farewell may take."""
KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A peer that is silent for about ten seconds is gone. Options that a platform does not have are left out."""
SERVER_SETTINGS = {
    "client_connection_check_interval": "5000",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""The same for the server: a step that waits for a lock ends when its client is gone. Poolers refuse such settings."""
REFUSED_SETTINGS = ("08P01", "42704", "22023", "0A000")
"""What a pooler, or a server without one of them, answers to these settings."""

Connection = Any
"""An asyncpg connection; the driver is not typed."""


_connect = cast(Callable[..., Awaitable[Connection]], asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]


Loop = asyncio.AbstractEventLoop


class Pool:
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

    __slots__ = ("_cancels", "_connection", "_exchange", "_expired", "_pool", "_pools", "_seconds", "_timer")

    def __init__(self, pools: Pools, exchange: bool, seconds: float) -> None:
        self._pools = pools
        self._exchange = exchange
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> Connection:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        self._cancels = cancels.asked()
        pool = self._pool = await self._pools.pool()
        connection = None
        if not pool.turn.locked():
            await pool.turn.acquire()
            connection = pool.take(self._exchange)
            if connection is None:
                connection = await self._open(pool, until)
        else:
            connection = await self._wait(pool, until)
        self._connection = connection
        self._timer = loop.call_at(until, self._expire)
        return connection

    async def _wait(self, pool: Pool, until: float) -> Connection:
        try:
            async with asyncio.timeout_at(until):
                await pool.turn.acquire()
        except TimeoutError:
            raise EngineUnavailable(
                f"{self._pools.where}: all {MOST} connections of this event loop were busy for {self._seconds:.3g} s; "
                "nothing was sent"
            ) from None
        return pool.take(self._exchange) or await self._open(pool, until)

    async def _open(self, pool: Pool, until: float) -> Connection:
        try:
            return await self._pools.connect(until - asyncio.get_running_loop().time())
        except BaseException:
            pool.turn.release()
            raise

    def _expire(self) -> None:
        """Cutting the connection ends whatever waits for it, also a transaction that would be rolled back."""
        self._expired = True
        self._connection.terminate()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pool, connection = self._pool, self._connection
        self._timer.cancel()
        pool.turn.release()
        known = None if error is None else self._told(error)
        if isinstance(known or error, asyncio.CancelledError | EngineUnavailable) or (
            error is not None and not connection.is_closed() and connection.is_in_transaction()
        ):
            connection.terminate()
        if not connection.is_closed():
            pool.give_back(connection, self._exchange, time.monotonic())
        if known is not None:
            raise known from error

    def _told(self, error: BaseException) -> BaseException | None:
        """What the caller is told instead; None for the error itself."""
        if isinstance(error, asyncio.CancelledError):
            return None
        if cancels.asked() > self._cancels:
            return asyncio.CancelledError()
        if self._expired:
            return EngineUnavailable(
                f"{self._pools.where}: no answer within {self._seconds:.3g} s; "
                "it is not known whether the call took effect"
            )
        return translation(self._pools.where, error)


class Pools:
    """The connections of one process."""

    def __init__(self, dsn: str, where: str, options: dict[str, Any], settings: Settings) -> None:
        self.dsn = dsn
        self.where = where
        self.options = options
        self.settings = settings
        self._server_settings = {name: value for name, value in SERVER_SETTINGS.items() if name not in dsn}
        self._pools: WeakKeyDictionary[Loop, Pool] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[Loop, AsyncGenerator[None]] = WeakKeyDictionary()

    async def connect(self, within: float = CONNECT_TIMEOUT) -> Connection:
        """One connection that no other verb gets."""
        with translated(self.where, connecting=True):
            async with asyncio.timeout(min(within, CONNECT_TIMEOUT)):
                connection = await self._connect()
        _keep_alive(connection)
        return connection

    async def _connect(self) -> Connection:
        try:
            return await _connect(self.dsn, server_settings=self._server_settings or None, **self.options)
        except asyncpg.PostgresError as error:
            if not self._server_settings or getattr(error, "sqlstate", None) not in REFUSED_SETTINGS:
                raise
        connection = await _connect(self.dsn, **self.options)
        self._server_settings = {}
        return connection

    def connection(self, *, exchange: bool = False, within: float | None = None) -> Borrowed:
        """A connection for one verb, or a few in a row: `async with`. `within` replaces the usual deadline."""
        return Borrowed(self, exchange, seconds(self.settings) if within is None else within)

    async def pool(self) -> Pool:
        """The connections of the loop that runs this."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._forget_closed_loops()
            pool = self._pools[loop] = Pool()
            self._ends[loop] = end = self._until_the_loop_ends(loop)
            await anext(end)
        return pool

    def _forget_closed_loops(self) -> None:
        """A loop's connections refer to it, so that it would stay as long as they do."""
        for loop in [loop for loop in self._pools if loop.is_closed()]:
            self._ends.pop(loop, None)
            for connection in self._pools.pop(loop).clear():
                with suppress(RuntimeError):  # the loop is closed
                    connection.terminate()

    async def _until_the_loop_ends(self, loop: Loop) -> AsyncGenerator[None]:
        """Hangs up when the loop shuts down, even if the engine is not closed: a loop finishes its generators."""
        try:
            yield
        finally:
            self._ends.pop(loop, None)  # which refers to the loop
            pool = self._pools.pop(loop, None)
            for connection in pool.clear() if pool is not None else ():
                connection.terminate()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Let go of every connection, also of those of other loops."""
        here = asyncio.get_running_loop()
        ours: list[Connection] = []
        for loop, pool in list(self._pools.items()):
            for connection in pool.clear():
                if loop is here:
                    ours.append(connection)
                elif loop.is_running():
                    loop.call_soon_threadsafe(connection.terminate)
        self._pools.clear()
        await asyncio.gather(*map(_close, ours))
        if (end := self._ends.pop(here, None)) is not None:
            await end.aclose()


async def _close(connection: Connection) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await connection.close()
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


def _keep_alive(connection: Connection) -> None:
    sock = connection._transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
