"""The duty to sweep: time passes in the store only because some worker says so."""

from __future__ import annotations

import asyncio

from headgate.clock import SECOND
from headgate.engine.contract import Part
from headgate.worker.bell import Bell
from headgate.worker.duties.duty import jittered
from headgate.worker.events import Events
from headgate.worker.lost_jobs import log_lost

LONGEST_PAUSE = 1.0
"""Seconds between sweeps when nothing is known to be due: leases of other workers may lapse at any time."""
SHORTEST_PAUSE = 0.002


class Sweep:
    """Sweeps when the store's next due time comes, and every second or so in any case.

    Not at the very start, where it would only be in the way of the first exchange: its answer tells what is due.
    """

    name = "sweep"

    def __init__(self, part: Part, loop: asyncio.AbstractEventLoop, bell: Bell, events: Events) -> None:
        self.found = False
        self.asked = False
        self._part = part
        self._loop = loop
        self._bell = bell
        self._events = events
        self._at = 0.0
        self._next = loop.time() + jittered(LONGEST_PAUSE)

    def expect(self, next_due: int | None, now: int) -> None:
        """An answer told when a sweep will next have work: be there in time."""
        if next_due is not None:
            at = self._loop.time() + (next_due - now) / SECOND
            if at < self._next:
                self._next = at
                self._bell.ring()

    async def run_once(self) -> float:
        """Sweep if it is time."""
        # Rung before its time: the due time came nearer, but may still lie ahead.
        early = max(self._next, self._at + SHORTEST_PAUSE) - self._loop.time()
        self.asked = early <= 0
        return await self.sweep() if self.asked else early

    async def sweep(self) -> float:
        """Sweep now; returns the seconds until the next one."""
        pause = jittered(LONGEST_PAUSE)
        self._at = self._loop.time()
        self._next = self._at + pause
        swept = await self._part.sweep()
        self.found = bool(swept.due or swept.lost or swept.offered or swept.more)
        log_lost(swept.failed)
        self._events.jobs.failed_by_loss(swept.failed)
        self._events.emit("swept", found=self.found, lost=swept.lost)
        if swept.more:
            self._next = 0.0
            return SHORTEST_PAUSE
        if swept.next_due is not None:
            pause = min(pause, max((swept.next_due - swept.now) / SECOND, SHORTEST_PAUSE))
        self._next = min(self._next, self._loop.time() + pause)
        return self._next - self._loop.time()
