"""A shift: one run of a worker, from its first registration to its retirement. Puts the parts together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.engine.contract import Engine
from headgate.errors import HeadgateError
from headgate.limits import FloatingRule
from headgate.worker.bell import Bell
from headgate.worker.duty import Duty, keep
from headgate.worker.events import Event, Events
from headgate.worker.floating import Floating
from headgate.worker.lease import Heartbeat, Lease
from headgate.worker.link import Backoff, Link
from headgate.worker.loop import ExchangeLoop
from headgate.worker.options import Options
from headgate.worker.outbox import Outbox
from headgate.worker.runnable import Runnable
from headgate.worker.runner import Runner
from headgate.worker.sweep import Sweep
from headgate.worker.threads import Threads
from headgate.worker.ticker import Ticker

log = logging.getLogger("headgate.worker")

LAST_CALL = 2.0
"""Seconds that attempts have to end after they were asked to, and outcomes to be sent, before the worker goes."""


class Shift:
    """Made inside a running event loop; `work()` is the whole of it. `drain` leaves the duties to whoever drains."""

    def __init__(
        self,
        engine: Engine,
        tasks: Mapping[str, Runnable],
        floating: Sequence[FloatingRule],
        options: Options,
        events: Events,
        *,
        drain: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.events = events
        self.ticker = Ticker(engine, tasks.values(), events)
        self.floating = Floating(engine, floating, events)
        known: dict[str, Runnable] = {**tasks, **self.floating.tasks}
        self._engine = engine
        self._options = options
        self._loop = loop
        self._drain = drain
        self._bell = Bell(loop)
        self._sweep_bell = Bell(loop)
        self._threads = Threads(options.threads, options.name)
        self._outbox = Outbox(loop, self._bell)
        self._link = Link(events)
        self.runner = Runner(loop, known, self._outbox, self._threads, events)
        self.lease = Lease(engine, options, frozenset(known), loop, self._fence)
        self.sweep = Sweep(engine, loop, self._sweep_bell, events)
        self.exchange = ExchangeLoop(
            engine,
            loop,
            self._bell,
            options,
            self.lease,
            self.runner,
            self._outbox,
            self.sweep,
            self._link,
            events,
        )
        self._hurry = asyncio.Event()
        self._winding_down: asyncio.Task[None] | None = None
        self._exchanging: asyncio.Task[None] | None = None

    @property
    def down(self) -> bool:
        """Whether the engine cannot be reached for now."""
        return self._link.down

    async def work(self) -> None:
        """Register, work until stopped, retire. Raises what a worker cannot work with, such as a newer schema."""
        unwatch = self._engine.watch_work(self.exchange.wake, self._options.queues.served)
        duties = [self._loop.create_task(self._keep(duty)) for duty in self._duties()]
        self._exchanging = self._loop.create_task(self.exchange.run())
        try:
            await self._exchanging
        except asyncio.CancelledError:
            if not self.exchange.ending:
                raise
        finally:
            unwatch()
            self.runner.abandon()
            await _end(duties if self._winding_down is None else [*duties, self._winding_down])
            await self._retire()
            self._threads.close()
            self.events.emit("stopped")

    def stop(self) -> None:
        """Stop in good order; a second time, without waiting for what runs."""
        if self._winding_down is None:
            self._winding_down = self._loop.create_task(self._wind_down())
        else:
            self._hurry.set()

    async def _wind_down(self) -> None:
        """Claim no more, wait, ask what still runs to end and give it back. The lease is renewed meanwhile."""
        self.exchange.claiming = False
        running = len(self.runner.running)
        log.info("stopping: waiting up to %g s for %d running jobs", self._options.grace, running)
        self.events.emit("stopping")
        await self._calm(self._options.grace)
        if self.runner.running:
            self.runner.release()
            self._hurry.clear()
            await self._calm(LAST_CALL)
        self._leave_behind()
        self.exchange.ending = True
        self._bell.ring()
        await asyncio.sleep(LAST_CALL)
        if self._exchanging is not None:  # the engine does not answer: go without
            self._exchanging.cancel()

    def _leave_behind(self) -> None:
        for run in self.runner.running.values():
            log.warning("job %s (%s) did not end; it is given back", run.attempt.job, run.attempt.task)

    async def _calm(self, seconds: float) -> None:
        """Wait until nothing runs and everything is reported, or until time or patience is over."""
        calm = asyncio.Event()

        def listen(_: Event) -> None:
            if not self.runner.running and self._outbox.empty:
                calm.set()

        self.events.listeners.append(listen)
        self._bell.ring()
        listen(Event("stopping"))
        waits = [self._loop.create_task(event.wait()) for event in (calm, self._hurry)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await _end(waits)
        self.events.listeners.remove(listen)

    def _fence(self, why: str) -> None:
        """The lease is gone: first cancel what runs, then forget what it had to say."""
        count = self.runner.abandon()
        self._outbox.clear()
        log.error("worker %s lost its lease (%s); %d running jobs were cancelled", self.lease.id, why, count)
        self.events.emit("fenced", worker=self.lease.id, why=why, abandoned=count)
        self._bell.ring()

    def _duties(self) -> list[Duty]:
        heartbeat = Heartbeat(self.lease, self.runner, self._options, self.events)
        if self._drain:
            return [heartbeat]
        optional: list[Ticker | Floating] = [self.ticker, self.floating]
        return [heartbeat, self.sweep, *(duty for duty in optional if duty.needed)]

    async def _keep(self, duty: Duty) -> None:
        bell = self._sweep_bell if duty is self.sweep else Bell(self._loop)
        await keep(duty, bell, self._link, Backoff(self._options.lease / 6_000_000))

    async def _retire(self) -> None:
        try:
            await asyncio.wait_for(self.lease.end(), LAST_CALL)
        except (HeadgateError, TimeoutError) as error:
            log.warning("worker %s could not retire, its lease will lapse: %r", self.lease.id, error)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
