"""Sessions of the shared PostgreSQL server that outlive the engines of a test.

A session plans every statement of every function when it first comes there, which takes ten times as long as the call:
an engine with connections of its own pays that for all its verbs. A connection made here gets a session of an earlier
test, reset to what it was at first, with its plans. Only one that says farewell leaves its session behind: whatever
ends otherwise takes it along.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import asyncpg
import pytest

READY = b"Z\x00\x00\x00\x05I"
FAREWELL = b"X\x00\x00\x00\x04"
STATEMENTS = (
    b"ROLLBACK; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; DEALLOCATE ALL; "
    b"SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP; SELECT 'headgate ' || 'is reset'\0"
)
"""What DISCARD ALL does, but for DISCARD PLANS."""
RESET = b"Q" + struct.pack("!i", 4 + len(STATEMENTS)) + STATEMENTS
IS_RESET = b"headgate is reset"
MOST = 20
PATIENCE = 5.0


class Session:
    """A connection of the server, and what it said when it began."""

    def __init__(self, sock: socket.socket, greeting: bytes) -> None:
        self.sock = sock
        self.greeting = greeting

    def reset(self) -> bool:
        """Begin to; whether the server is still there."""
        try:
            self.sock.settimeout(PATIENCE)
            self.sock.sendall(RESET)
        except OSError:
            return False
        return True

    def is_reset(self) -> bool:
        """Read what it still says about its last client, and that it has forgotten it."""
        said = b""
        try:
            while not (IS_RESET in said and said.endswith(READY)):
                read = self.sock.recv(65536)
                if not read:
                    return False
                said += read
        except OSError:
            return False
        self.sock.setblocking(False)
        return True

    def end(self) -> None:
        self.sock.close()


Wanted = tuple[str, int, bytes]
"""Host, port, and what a client says of itself."""
_stock: defaultdict[Wanted, list[Session]] = defaultdict(list)
"""All are being reset."""


def _take(wanted: Wanted) -> Session | None:
    stock = _stock[wanted]
    while stock:
        session = stock.pop()
        if session.is_reset():
            return session
        session.end()
    return None


def _leave(wanted: Wanted, session: Session) -> None:
    if len(_stock[wanted]) < MOST and session.reset():
        _stock[wanted].append(session)
    else:
        session.end()


def end_all() -> None:
    """Hang up. A forked process leaves the sessions to the one that has them."""
    for stock in _stock.values():
        while stock:
            stock.pop().end()


os.register_at_fork(after_in_child=end_all)
atexit.register(end_all)


def kept() -> pytest.MonkeyPatch:
    """Until it is undone, engines connect so."""
    patch = pytest.MonkeyPatch()
    patch.setattr("headgate.engine.postgres.pools._connect", connect)
    return patch


async def connect(dsn: str, **options: Any) -> Any:
    """As `asyncpg.connect` does."""
    loop = asyncio.get_running_loop()
    connection: Any = await asyncpg.connect(dsn, loop=cast(Any, _Opening(loop)), ssl=False, **options)
    connection._loop = loop
    return connection


class _Opening:
    """The event loop, but for how it connects."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[Any, asyncio.Protocol]:
        link = _Link(factory(), host, port)
        await link.open(self._loop)
        return link, link.client


async def _begin(loop: asyncio.AbstractEventLoop, host: str, port: int, startup: bytes) -> Session:
    sock = socket.create_connection((host, port))
    sock.setblocking(False)
    greeting = b""
    try:
        await loop.sock_sendall(sock, startup)
        while not greeting.endswith(READY) and (read := await loop.sock_recv(sock, 65536)):
            greeting += read
    except BaseException:
        sock.close()
        raise
    return Session(sock, greeting)


class _Link(asyncio.Protocol):
    """Between the driver and a session: to the driver it is its transport, to the transport its protocol.

    The transport has a duplicate of the session's socket, so that it can be closed alone.
    """

    def __init__(self, client: asyncio.Protocol, host: str, port: int) -> None:
        self.client = client
        self.wanted: Wanted = host, port, b""
        self.leaving = False
        self.session: Session
        self.transport: asyncio.Transport | None = None

    async def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self.client.connection_made(cast(Any, self))  # which writes how the session is to be started
        self.session = _take(self.wanted) or await _begin(loop, *self.wanted)
        await loop.create_connection(lambda: self, sock=self.session.sock.dup())
        self.client.data_received(self.session.greeting)

    # What the driver sees.

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self.transport is None else self.transport.get_extra_info(name, default)

    def write(self, data: Any) -> None:
        if self.transport is None:
            self.wanted = *self.wanted[:2], bytes(data)
        elif data == FAREWELL:
            self.leaving = True
            self.transport.close()
        else:
            self.transport.write(data)

    def abort(self) -> None:
        """Without waiting for what goes on."""
        self.leaving = False
        if self.transport is not None:
            self.transport.abort()

    # What the transport sees.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.client.data_received(data)

    def eof_received(self) -> bool | None:
        return self.client.eof_received()

    def pause_writing(self) -> None:
        self.client.pause_writing()

    def resume_writing(self) -> None:
        self.client.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.leaving and exc is None:
            _leave(self.wanted, self.session)
        else:
            self.session.end()
        self.client.connection_lost(exc)
