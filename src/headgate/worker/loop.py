"""The exchange loop: the heart of a worker.

One exchange is in flight at a time. It carries the outcomes of everything that ended since the last one, asks for as
many jobs as could start at once, and brings the jobs that the slots just given back are for. What ends meanwhile
waits for the next exchange, which goes out as soon as the answer is in: batches form by themselves, no timer makes
them.

When there is nothing to report and nothing to be had, the loop sleeps until the engine rings, an attempt ends, or the
slow poll is due, by which even a lost ring would be noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from headgate.engine.contract import Engine, Exchanged, Released, Report
from headgate.errors import EngineUnavailable, LeaseLost
from headgate.worker.bell import Bell
from headgate.worker.duty import jittered
from headgate.worker.events import Events
from headgate.worker.lease import Lease
from headgate.worker.link import Backoff, Link
from headgate.worker.options import Options
from headgate.worker.outbox import Outbox
from headgate.worker.runner import Runner
from headgate.worker.strays import find_strays
from headgate.worker.sweep import Sweep

log = logging.getLogger("headgate.worker")

POLL = 1.0
"""Seconds between polls of an idle worker; in practice they find nothing."""
HANDFUL = 16
"""Outcomes per exchange, or half of those that wait, while other attempts run. Those whose slots come back first start
first, instead of waiting until the last of a large batch is settled; the event loop starts them while the next exchange
is under way."""
BRIEF = 0.01
"""Seconds since the last answer: what ended so soon was short work, which is done soonest in large batches."""
FULL_PAUSE = 0.25
"""Seconds between exchanges that a worker without free capacity makes because it was rung: it may be a cancel."""


class ExchangeLoop:
    """Settles, claims, starts; again and again until it is told to end."""

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        bell: Bell,
        options: Options,
        lease: Lease,
        runner: Runner,
        outbox: Outbox,
        sweep: Sweep,
        link: Link,
        events: Events,
    ) -> None:
        self.claiming = True
        self.ending = False
        self.quiet: Callable[[], Awaitable[bool]] | None = None
        self._engine = engine
        self._time = loop.time
        self._bell = bell
        self._options = options
        self._lease = lease
        self._runner = runner
        self._outbox = outbox
        self._sweep = sweep
        self._link = link
        self._events = events
        self._backoff = Backoff()
        self._rung = True
        self._last = 0.0
        self._poll_at = 0.0
        self._unsure = False
        self._aside: set[str] = set()

    def wake(self) -> None:
        """The engine says that there may be work, or a cancel; from any thread."""
        self._rung = True
        self._bell.ring_from_thread()

    async def run(self) -> None:
        """Work until `ending`; survives the engine's absence and the loss of the lease."""
        while not self.ending:
            try:
                await self._turn()
            except EngineUnavailable as error:
                self._link.failed(error, "exchange")
                await asyncio.sleep(self._backoff.wait())
            except LeaseLost:
                self._lease.lose(self._lease.id, "the engine says that it has lapsed")

    async def _turn(self) -> None:
        if not self._lease.held:
            await self._register()
        if self._unsure:
            await self._find_strays()
        if (pause := self._pause()) > 0:
            await self._sleep(pause)
        else:
            await self._exchange()

    async def _register(self) -> None:
        await self._lease.begin()
        self._works()
        self._unsure = False
        self._rung = True
        self._events.emit("registered", worker=self._lease.id)

    def _pause(self) -> float:
        """Seconds until the next exchange is worth it; a ring makes us ask again."""
        if self._outbox.pressing:
            return 0
        now = self._time()
        if self._rung:
            return 0 if self._want() else self._last + FULL_PAUSE - now
        return self._poll_at - now

    def _want(self) -> int:
        """How many jobs to ask for. Outcomes that are not sent yet count as work: they must not pile up."""
        return (
            max(0, self._runner.free(self._options.concurrency) - self._outbox.waiting)
            if self.claiming
            else 0
        )

    def _most(self) -> int | None:
        """How many outcomes to send; None for all of them."""
        burst = self._engine.cheap_steps and self._time() - self._last > BRIEF
        return max(HANDFUL, self._outbox.waiting // 2) if burst or self._runner.running else None

    async def _sleep(self, pause: float) -> None:
        self._events.emit("idle")
        await self._bell.sleep(pause)

    async def _exchange(self) -> None:
        id, reports = self._lease.id, self._outbox.take(self._most())
        want = self._want()
        self._rung = False
        answer = await self._send(id, reports, want)
        self._works()
        self._last = self._time()
        self._poll_at = self._last + jittered(POLL)
        # A lease that was lost while the answer was on its way: what it brought is no longer ours.
        if self._lease.held and self._lease.id == id:
            await self._receive(answer, len(reports))

    async def _send(self, id: str, reports: Sequence[Report], want: int) -> Exchanged:
        try:
            return await self._engine.exchange(id, reports, want, self._options.queues.order())
        except EngineUnavailable:
            if self._lease.held and self._lease.id == id:
                self._outbox.put_back(reports)
                self._unsure = self._unsure or want > 0
            raise

    async def _receive(self, answer: Exchanged, reported: int) -> None:
        for attempt in answer.attempts:
            if self.claiming:
                self._runner.start(attempt)
            else:  # told to stop while the answer was on its way
                self._outbox.settle(Released(attempt.job, attempt.number))
        if answer.more:
            self._rung = True
        if answer.cancelling:
            self._runner.cancel(answer.cancelling)
        if answer.refused or answer.set_aside:
            self._tell(answer)
        self._sweep.expect(answer.next_due, answer.now)
        self._events.emit("exchanged", reported=reported, claimed=len(answer.attempts))
        if self.quiet is not None and not (answer.attempts or answer.more or self._runner.running):
            await self._ask_quiet()

    async def _ask_quiet(self) -> None:
        """Nothing runs and nothing was to be had: whoever drains says whether that is the end."""
        assert self.quiet is not None
        if self._outbox.empty:
            self._rung = await self.quiet()
            self.ending = self.ending or not self._rung

    async def _find_strays(self) -> None:
        known = {*self._runner.running, *self._outbox.jobs}
        for report in await find_strays(self._engine, self._lease.id, known):
            self._outbox.settle(report)
        self._unsure = False

    def _works(self) -> None:
        self._backoff.reset()
        self._link.worked("exchange")

    def _tell(self, answer: Exchanged) -> None:
        for job, attempt in answer.refused:
            log.info("the report about job %s, attempt %d, came too late and changed nothing", job, attempt)
        for task in set(answer.set_aside) - self._aside:
            self._aside.add(task)
            log.warning(
                "task %r is not known to this worker; its jobs are left for others",
                task,
                extra={"task": task},
            )
