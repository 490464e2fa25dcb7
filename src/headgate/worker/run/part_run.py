"""A worker's work for one part of the store: its lease, its exchanges, its sweeps. Most stores have one part.

Parts share nothing but the places of the worker and the turn for suspects: what is wrong with one leaves the others
alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headgate.engine.contract import Part
from headgate.errors import HeadgateError
from headgate.worker.bell import Bell
from headgate.worker.duties.duty import Duty, keep
from headgate.worker.duties.learning import Learning
from headgate.worker.duties.recheck import Recheck
from headgate.worker.duties.sweep import Sweep
from headgate.worker.engine_status import Backoff, EngineStatus
from headgate.worker.events import Events
from headgate.worker.options import Options
from headgate.worker.pool.pool import Pool
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.exchange_loop import ExchangeLoop
from headgate.worker.run.lease import Heartbeat, Lease
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.runner import Runner
from headgate.worker.run.surroundings import Surroundings
from headgate.worker.run.suspects import SuspectsTurn
from headgate.worker.run.threads import Threads
from headgate.worker.runnable import Runnable

log = logging.getLogger("headgate.worker")

LATELY = 3.0
"""Seconds without an answer to an exchange that are no trouble however short the lease is: idle workers ask rarely."""


class PartRun:
    """Made inside a running event loop. `run()` exchanges until told to end; `keep()` does the duties beside it."""

    def __init__(
        self,
        part: Part,
        tasks: Mapping[str, Runnable],
        options: Options,
        threads: Threads,
        capacity: Capacity,
        suspects: SuspectsTurn,
        surroundings: Surroundings,
        events: Events,
        *,
        cheap_steps: bool,
        elsewhere: Collection[str] = (),
        pool: Pool | None = None,
        learning: Learning | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.events = events
        self.bell = Bell(loop)
        self.outbox = Outbox(loop, self.bell)
        self.engine_status = EngineStatus(events, f"{part.name} of the engine" if part.name else "the engine")
        self.runner = Runner(
            loop, tasks, self.outbox, threads, capacity, surroundings, events, pool, learning
        )
        threaded = self.runner.threaded_tasks
        self.lease = Lease(part, options, frozenset(tasks), threaded, loop, self._fence)
        self.exchange = ExchangeLoop(
            part,
            loop,
            self.bell,
            options,
            self.lease,
            self.runner,
            self.outbox,
            sweep := Sweep(part, loop, sweep_bell := Bell(loop), events),
            self.engine_status,
            capacity.share(self._wake, pool, threads if threaded else None),
            suspects,
            events,
            cheap_steps=cheap_steps,
            elsewhere=elsewhere,
        )
        self.sweep = sweep
        self._heartbeat = Heartbeat(self.lease, self.runner, self.exchange.messages.stuck_for, events)
        self._recheck = Recheck(part, events)
        self._bells: dict[Duty, Bell] = {sweep: sweep_bell, self._heartbeat: (beat_bell := Bell(loop))}
        # The lease may be near its end after an outage: renew it as soon as the store answers again.
        self.exchange.recovered = beat_bell.ring
        self._loop = loop
        self._part = part
        self._options = options

    @property
    def calm(self) -> bool:
        """Whether nothing runs and everything is reported."""
        return not self.runner.running and self.outbox.empty

    @property
    def still(self) -> bool:
        """Whether it is calm, and was told that there is nothing to be had."""
        return self.calm and self.exchange.idle

    @property
    def last_exchange(self) -> float | None:
        """Seconds since the store last answered an exchange; from any thread."""
        answered_at = self.exchange.messages.answered_at
        return None if answered_at is None else time.monotonic() - answered_at

    @property
    def ready(self) -> bool:
        """Whether the lease is held, and exchanges have got through lately; from any thread."""
        lately = max(self.lease.timing.stuck, LATELY)
        since = self.last_exchange
        return self.lease.held and since is not None and since < lately

    async def run(self) -> None:
        """Exchange until told to end."""
        unwatch = self._part.watch_work(self.exchange.wake, self._options.queues.served)
        try:
            await self.exchange.run()
        finally:
            unwatch()

    def _wake(self) -> None:
        self.exchange.wake()

    def keep(self, *others: Duty, lease_only: bool) -> list[asyncio.Task[None]]:
        """Start the duties of this part, and `others` that concern the whole store; or keep no more than the lease."""
        if lease_only:
            others = ()
        own: Sequence[Duty] = (
            [self._heartbeat] if lease_only else [self._heartbeat, self.sweep, self._recheck]
        )
        kept = [self._keep(duty, self.engine_status) for duty in own]
        kept += [self._keep(duty, self._status_of_store(duty)) for duty in others]
        return [self._loop.create_task(one) for one in kept]

    def _status_of_store(self, duty: Duty) -> EngineStatus:
        """A duty of the whole store asks other parts, too: what it meets there says nothing about this one."""
        if not self._part.name:
            return self.engine_status
        return EngineStatus(self.events, f"what the {duty.name} needs of the engine")

    async def _keep(self, duty: Duty, status: EngineStatus) -> None:
        timing = self.lease.timing
        bell = self._bells.get(duty) or Bell(self._loop)
        if isinstance(duty, Learning):
            duty.bell = bell
        await keep(duty, bell, status, Backoff(timing.retry), timing.call)

    def _fence(self, why: str) -> None:
        """The lease is gone: first cancel what runs, then forget what it had to say."""
        count = self.runner.abandon()
        self.outbox.clear()
        self.events.jobs.in_doubt()
        log.error("worker %s lost its lease (%s); %d running jobs were cancelled", self.lease.id, why, count)
        self.events.emit("fenced", worker=self.lease.id, why=why, abandoned=count)
        self.bell.ring()

    async def retire(self, seconds: float) -> None:
        """End the lease, with a last beat that says what was done. What still runs keeps its slots: the lease is left
        to lapse when the process is gone."""
        if self.runner.running:
            self.lease.leave()
            return
        try:
            async with asyncio.timeout(seconds):
                if done := self.runner.done():
                    await self.lease.renew(done)
                await self.lease.end(seconds)
        except (HeadgateError, TimeoutError) as error:
            log.warning("worker %s could not retire, its lease will lapse: %r", self.lease.id, error)


async def end_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
