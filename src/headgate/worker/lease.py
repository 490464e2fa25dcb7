"""The worker's lease, and what keeps it.

The store decides when a lease lapses; the worker must know no later. It counts from the moment *before* a renewal was
sent, on its own monotonic clock, and gives up a little early: whatever it runs is cancelled before the store may
hand the same jobs to somebody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from headgate.clock import SECOND
from headgate.engine import contract
from headgate.errors import LeaseLost
from headgate.worker.events import Events
from headgate.worker.options import Options
from headgate.worker.runner import Runner

log = logging.getLogger("headgate.worker")

MARGIN = 0.05
"""The part of a lease that is left for cancelling what runs."""


class Lease:
    """One registration after another, each under an id of its own; `lost` is called when one ends against our will."""

    def __init__(
        self,
        engine: contract.Engine,
        options: Options,
        tasks: frozenset[str],
        loop: asyncio.AbstractEventLoop,
        lost: Callable[[str], None],
    ) -> None:
        self.id = ""
        self.held = False
        self._engine = engine
        self._options = options
        self._tasks = tasks
        self._loop = loop
        self._lost = lost
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Register under a new id. An id is never used again: reports about its attempts could be mistaken for ours."""
        sent = self._loop.time()
        id = f"{self._options.name}-{os.urandom(4).hex()}"
        await self._engine.register(self._registration(id))
        self.id, self.held = id, True
        self._confirm(sent)

    async def renew(self) -> contract.Beat | None:
        """One heartbeat; None if the lease is not, or no longer, the one it was sent for."""
        if not self.held:
            return None
        id, sent = self.id, self._loop.time()
        try:
            beat = await self._engine.heartbeat(id)
        except LeaseLost:
            self.lose(id, "the engine says that it has lapsed")
            return None
        if not self.held or self.id != id:
            return None
        self._confirm(sent)
        return beat

    def lose(self, id: str, why: str) -> None:
        """End the lease with this id, once; nothing that ran under it is ours any more."""
        if self.held and self.id == id:
            self.held = False
            self._disarm()
            self._lost(why)

    async def end(self) -> None:
        """Retire in good order."""
        if self.held:
            self.held = False
            self._disarm()
            await self._engine.retire(self.id)

    def _confirm(self, sent: float) -> None:
        self._disarm()
        until = sent + self._options.lease / SECOND * (1 - MARGIN)
        self._timer = self._loop.call_at(until, self.lose, self.id, "it could not be renewed in time")

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
        )


class Heartbeat:
    """Renews the lease three times in its length: one write per worker, whatever it runs."""

    name = "heartbeat"

    def __init__(self, lease: Lease, runner: Runner, options: Options, events: Events) -> None:
        self._lease = lease
        self._runner = runner
        self._events = events
        self._interval = options.lease / SECOND / 3

    async def run_once(self) -> float:
        """Renew, and learn which of our jobs somebody wants cancelled."""
        if beat := await self._lease.renew():
            self._runner.cancel(beat.cancelling)
            self._events.emit("beat")
        return self._interval
