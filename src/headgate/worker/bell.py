"""A bell: what a sleeping coroutine is woken with."""

from __future__ import annotations

import asyncio
import threading


class Bell:
    """Wakes its one sleeper. A ring without a sleeper is kept for the next sleep, so none is missed."""

    __slots__ = ("_loop", "_posted", "_rung", "_sleeper", "_thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._rung = False
        self._posted = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the sleeper; from the event loop's thread."""
        self._rung = True
        if self._sleeper is not None:
            _wake(self._sleeper)

    def ring_from_thread(self) -> None:
        """Wake the sleeper; from any thread. Many rings before the loop turns cost one hop, those from its own none."""
        if threading.get_ident() == self._thread:
            self.ring()
            return
        if self._posted:
            return
        self._posted = True
        try:
            self._loop.call_soon_threadsafe(self._arrive)
        except RuntimeError:  # the loop is closed: there is no sleeper any more
            self._posted = False

    async def sleep(self, seconds: float | None) -> None:
        """Return at the next ring, at once if there was one, or when the time is over."""
        if not self._rung and (seconds is None or seconds > 0):
            await self._sleep(seconds)
        self._rung = False

    async def _sleep(self, seconds: float | None) -> None:
        sleeper = self._sleeper = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, _wake, sleeper)
        try:
            await sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()

    def _arrive(self) -> None:
        self._posted = False
        self.ring()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
