"""What changes in a store, for many browsers, by one reading of it.

While anybody listens, one loop reads queues and workers once in a while and tells its listeners what differs. Nothing
is read while there is no listener. A listener that does not keep up misses what was overtaken: each event says how
things stand, not what happened.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from headgate.app.app import App
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.web")

EVERY = 1.0
"""Seconds between two readings."""
SHARE = 20
"""A reading is followed by a rest so many times as long as it took: a slow store is not read all the time."""
LONGEST_REST = 15.0
COUNTED = 10_000
"""Jobs of one state that are counted; of more it is said that there are more."""
KEEP_ALIVE = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the stream and the end of a client is seen."""

Reading = Callable[[App], Awaitable[Any]]


class Event(msgspec.Struct, frozen=True):
    """How something stands now. `data` is JSON."""

    name: str
    data: bytes

    @property
    def wire(self) -> bytes:
        """As server-sent events travel."""
        return b"event: " + self.name.encode() + b"\ndata: " + self.data + b"\n\n"


async def _totals(app: App) -> Any:
    return await app.totals(most=COUNTED)


async def _queues(app: App) -> Any:
    return await app.queues(most=COUNTED)


async def _limits(app: App) -> Any:
    return await app.tightest()


async def _workers(app: App) -> Any:
    return [
        {"id": one.id, "running": one.running, "concurrency": one.concurrency} for one in await app.workers()
    ]


READINGS: dict[str, Reading] = {
    "totals": _totals, "queues": _queues, "limits": _limits, "workers": _workers,
}  # fmt: skip


class Broadcaster:
    """One reading for all listeners of one app."""

    def __init__(self, app: App, every: float = EVERY, readings: dict[str, Reading] = READINGS) -> None:
        self._app = app
        self._every = every
        self._readings = readings
        self._latest: dict[str, Event] = {}
        self._listeners: set[Listener] = set()
        self._loop: asyncio.Task[None] | None = None

    @property
    def listening(self) -> int:
        """How many listen."""
        return len(self._listeners)

    async def listen(self) -> AsyncGenerator[Event | None]:
        """How everything stands, then what differs; None after a silence."""
        listener = Listener(self._latest)
        self._listeners.add(listener)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._read_on())
        try:
            while True:
                for event in await listener.news():
                    yield event
        finally:
            self._listeners.discard(listener)

    async def _read_on(self) -> None:
        while self._listeners:
            rest = await self._read_once()
            await asyncio.sleep(rest)
        self._latest.clear()

    async def _read_once(self) -> float:
        """Read, and tell; returns how long to rest."""
        begun = time.monotonic()
        try:
            await self._read()
        except HeadgateError as error:
            self._tell(Event("unavailable", msgspec.json.encode({"detail": str(error)})))
            return self._every
        except Exception:
            log.exception("reading the store for event streams failed")
        return max(self._every, min(LONGEST_REST, SHARE * (time.monotonic() - begun)))

    async def _read(self) -> None:
        for name, read in self._readings.items():
            self._tell(Event(name, msgspec.json.encode(await read(self._app))))
        if self._latest.pop("unavailable", None):
            self._tell(Event("available", b"{}"))

    def _tell(self, event: Event) -> None:
        if self._latest.get(event.name) != event:
            self._latest[event.name] = event
            for listener in self._listeners:
                listener.tell(event)


class Listener:
    """What one client has not been sent yet: the newest of each name only."""

    def __init__(self, latest: dict[str, Event]) -> None:
        self._pending = dict(latest)
        self._bell = asyncio.Event()
        if self._pending:
            self._bell.set()

    def tell(self, event: Event) -> None:
        """It is to be sent."""
        self._pending[event.name] = event
        self._bell.set()

    async def news(self) -> list[Event | None]:
        """What is new, or None alone after a silence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE):
                await self._bell.wait()
        self._bell.clear()
        pending, self._pending = self._pending, {}
        return list(pending.values()) or [None]
