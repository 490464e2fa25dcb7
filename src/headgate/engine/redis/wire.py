"""A connection to a server, shared by all callers in one event loop.

Calls are written in the order in which they are made and answered in that order, so that a hundred concurrent calls are
one packet and no call waits for a connection of its own. Parsing and packing are hiredis; there is no task, no lock and
no timer per call: one timer looks after the call that is to be answered first.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from headgate.engine.redis.tls import untrusted
from headgate.engine.redis.url import Address, Target
from headgate.errors import EngineUnavailable

Argument = str | bytes | int
_pack: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # pyright: ignore[reportAssignmentType, reportUnknownMemberType, reportUnknownVariableType]
Reply = asyncio.Future[Any]


PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""The kernel gives up a connection whose other end is gone without a word after about half a minute."""


def probes() -> dict[int, int]:
    """The same by the numbers that this system has for them."""
    return {getattr(socket, name): value for name, value in PROBES.items() if hasattr(socket, name)}


class Wire(asyncio.Protocol):
    """One connection. Each call says how many seconds its answer may take; when it has not come by then, the connection
    is given up, since answers come in order: nothing behind it would come either."""

    def __init__(self, loop: asyncio.AbstractEventLoop, where: str) -> None:
        self._loop = loop
        self._where = where
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[float, Reply]] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._check: asyncio.TimerHandle | None = None
        self._check_at = 0.0
        self._heard: Callable[[Any], None] | None = None
        self.lost: asyncio.Future[None] = loop.create_future()
        self.closed = False
        self.has_functions = False

    # ── calling ──────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, *arguments: Argument, seconds: float) -> Reply:
        """The future answer to a command; an error of the server is an answer, too (hiredis.ReplyError)."""
        reply: Reply = self._loop.create_future()
        if self.closed:
            reply.set_exception(self._gone(None))
            return reply
        if not self._waiting and self._transport is not None:
            # Nothing is under way that it could share a packet with.
            self._transport.write(_pack(arguments))
        else:
            if not self._out:
                self._loop.call_soon(self._flush)
            self._out.append(_pack(arguments))
        until = self._loop.time() + seconds
        self._waiting.append((until, reply))
        if self._check is None or until < self._check_at:
            self._look_at(until)
        return reply

    def _look_at(self, at: float) -> None:
        if self._check is not None:
            self._check.cancel()
        self._check_at = at
        self._check = self._loop.call_at(at, self._look)

    def hear(self, heard: Callable[[Any], None]) -> None:
        """From now on this is a connection to listen on: whatever comes goes to `heard`."""
        self._heard = heard

    def say(self, *arguments: Argument) -> None:
        """Send a command on such a connection."""
        if self._transport is not None and not self.closed:
            self._transport.write(_pack(arguments))

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            out, self._out = self._out, []
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _look(self) -> None:
        """An answer that does not come in time is no answer: its caller should know."""
        self._check = None
        if not self._waiting:
            return
        first = min(until for until, _ in self._waiting)
        if first <= self._loop.time():
            self.close(TimeoutError("no answer in time"))
        else:
            self._look_at(first)

    # ── the protocol ─────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by name
        if (made := transport.get_extra_info("socket")) is not None and made.family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in probes().items():
                made.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                if self._heard is not None:
                    self._heard(reply)
                    continue
                _, future = self._waiting.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.close(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(exc)

    def close(self, error: BaseException | None = None) -> None:
        """Hang up; what was not answered yet will not be."""
        self.closed = True
        if not self.lost.done():
            self.lost.set_result(None)
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(self._gone(error))

    def _gone(self, error: BaseException | None) -> EngineUnavailable:
        why = f": {error}" if error is not None and str(error) else ""
        return EngineUnavailable(
            f"the connection to {self._where} was lost{why}; it is not known whether what was asked took effect"
        )


async def connect(target: Target, address: Address | None, seconds: float) -> Wire:
    """A wire that is ready for commands: authenticated, in its database."""
    loop = asyncio.get_running_loop()
    where = target.path if address is None else f"{address[0]}:{address[1]}"
    wire = Wire(loop, where)
    seconds = min(seconds, 10)
    try:
        async with asyncio.timeout(seconds):
            if address is None:
                await loop.create_unix_connection(lambda: wire, target.path)
            else:
                tls = target.tls.context() if target.tls else None
                await loop.create_connection(lambda: wire, *address, ssl=tls)
    except TimeoutError:
        raise EngineUnavailable(f"{where} cannot be reached: no connection within {seconds:.1f} s") from None
    except OSError as error:
        raise EngineUnavailable(f"{where} cannot be reached: {untrusted(error) or error}") from None
    return wire
