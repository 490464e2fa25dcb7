"""The worker's lease, and what keeps it.

The store decides when a lease lapses; the worker must know no later. It counts from the moment *before* a renewal was
sent, on its own monotonic clock, and gives up a little early: whatever it runs is cancelled before the store may
hand the same jobs to another worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence

from headgate.engine import contract
from headgate.engine.deadline import within
from headgate.errors import LeaseLost
from headgate.worker import registrations
from headgate.worker.events import Events
from headgate.worker.options import Options
from headgate.worker.run.runner import Runner
from headgate.worker.timing import Timing

log = logging.getLogger("headgate.worker")

LAPSED = "the engine says that it has lapsed"


class Lease:
    """One registration after another, each under an id of its own; `lost` is called when one ends against our will."""

    def __init__(
        self,
        part: contract.Part,
        options: Options,
        tasks: frozenset[str],
        threaded: frozenset[str],
        loop: asyncio.AbstractEventLoop,
        lost: Callable[[str], None],
    ) -> None:
        self.id = ""
        self.held = False
        self.timing = Timing(options.lease_seconds)
        self._part = part
        self._options = options
        self._tasks = tasks
        self._threaded = threaded
        self._loop = loop
        self._lost = lost
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Register under a new id. An id is never used again: reports about its attempts could be mistaken for ours."""
        sent = time.monotonic()
        id = f"{self._options.name}-{os.urandom(4).hex()}"
        registrations.note_begin(id)
        with within(self.timing.call):
            await self._part.register(self._registration(id))
        self.id, self.held = id, True
        self._until = sent + self.timing.fence
        self._arm()

    async def renew(self, done: Sequence[contract.Done] = ()) -> contract.Beat | None:
        """One heartbeat; None if the lease is not, or no longer, the one it was sent for."""
        if not self.held:
            return None
        id = self.id
        try:
            beat = await self.beat(id, done)
        except LeaseLost:
            self.lose(id, LAPSED)
            return None
        return beat if self.held and self.id == id else None

    async def beat(self, id: str, done: Sequence[contract.Done] = ()) -> contract.Beat:
        """Renew the lease with this id; also from another thread while the event loop is blocked."""
        sent = time.monotonic()
        with within(self.timing.beat):
            beat = await self._part.heartbeat(id, done=done)
        if self.held and self.id == id:
            self._until = max(self._until, sent + self.timing.fence)
        return beat

    @property
    def due(self) -> bool:
        """Whether it is time for a renewal."""
        return self.held and time.monotonic() > self._until - self.timing.fence + self.timing.renewal

    def lose(self, id: str, why: str) -> None:
        """End the lease with this id, once; nothing that ran under it is ours any more."""
        if self.held and self.id == id:
            self.held = False
            self._disarm()
            self._lost(why)

    async def end(self, seconds: float) -> None:
        """Retire in good order."""
        if self.held:
            self._forget()
            with within(seconds):
                await self._part.retire(self.id)
            registrations.note_end(self.id)

    def leave(self) -> None:
        """Let the lease lapse, unless the worker is retired when its process has ended."""
        if self.held:
            registrations.note_left(self.id)
        self._forget()

    def _forget(self) -> None:
        self.held = False
        self._disarm()

    def _arm(self) -> None:
        self._disarm()
        self._timer = self._loop.call_later(max(self._until - time.monotonic(), 0), self._check, self.id)

    def _check(self, id: str) -> None:
        """Renewals only move the time; whether it is over is seen when the timer rings."""
        if time.monotonic() < self._until:
            self._arm()
        else:
            self.lose(id, "it could not be renewed in time")

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _registration(self, id: str) -> contract.Worker:
        options = self._options
        return contract.Worker(
            id,
            self._tasks,
            options.queues.served,
            options.lease,
            socket.gethostname(),
            os.getpid(),
            options.concurrency,
            self._threaded,
        )


class Heartbeat:
    """Renews the lease three times in its length: one write per worker, whatever it runs.

    Only while exchanges get through: a worker whose reports do not arrive must not hold on to its slots.
    """

    name = "heartbeat"

    def __init__(self, lease: Lease, runner: Runner, stuck_for: Callable[[], float], events: Events) -> None:
        self._lease = lease
        self._runner = runner
        self._stuck_for = stuck_for
        self._events = events
        self.asked = False
        self._stopped = False

    async def run_once(self) -> float:
        """Renew, say what was done since the last time, and learn which of our jobs are to be cancelled."""
        timing = self._lease.timing
        self.asked = False
        if self._lease.held and (seconds := self._stuck_for()) > timing.stuck:
            self._stop(seconds)
            return timing.retry
        self._stopped = False
        self.asked = self._lease.held
        if beat := await self._lease.renew(self._runner.done() if self._lease.held else ()):
            self._runner.cancel(beat.cancelling)
            self._events.emit("beat")
        return timing.renewal

    def _stop(self, seconds: float) -> None:
        if not self._stopped:
            self._stopped = True
            text = "worker %s has had no answer to an exchange for %.1f s; its lease is no longer renewed"
            log.warning(text, self._lease.id, seconds)
