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
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from headgate import cancels
from headgate.engine.contract import Attempt, Exchanged, Part, Released, Report, Resumed
from headgate.errors import EngineUnavailable, HeadgateError, LeaseLost, StaleMessage
from headgate.worker.bell import Bell
from headgate.worker.duties.duty import jittered
from headgate.worker.duties.sweep import Sweep
from headgate.worker.engine_status import Backoff, EngineStatus
from headgate.worker.events import Events
from headgate.worker.options import Options
from headgate.worker.run.capacity import PartCapacity
from headgate.worker.run.lease import LAPSED, Lease
from headgate.worker.run.messages import Messages
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.runner import Runner
from headgate.worker.run.suspects import SuspectsTurn

log = logging.getLogger("headgate.worker")

POLL = 1.0
"""Seconds between polls of an idle worker; in practice they find nothing."""
SMALL_BATCH = 16
"""Outcomes per exchange, or half of those that wait, while other attempts run. Those whose slots come back first start
first, instead of waiting until the last of a large batch is settled; the event loop starts them while the next exchange
is under way."""
SHORT_WORK = 0.01
"""Seconds since the last answer: what ended so soon was short work, which is done soonest in large batches."""
FULL_PAUSE = 0.25
"""Seconds between exchanges that a worker without free capacity makes because it was rung: it may be a cancel."""


class ExchangeLoop:
    """Settles, claims, starts; again and again until it is told to end."""

    def __init__(
        self,
        part: Part,
        loop: asyncio.AbstractEventLoop,
        bell: Bell,
        options: Options,
        lease: Lease,
        runner: Runner,
        outbox: Outbox,
        sweep: Sweep,
        engine_status: EngineStatus,
        capacity: PartCapacity,
        suspects: SuspectsTurn,
        events: Events,
        *,
        cheap_steps: bool = False,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.claiming = True
        self.ending = False
        self.messages = Messages(lease.timing.call)
        self.quiet: Callable[[], Awaitable[None]] | None = None
        self.recovered: Callable[[], None] | None = None
        self._part = part
        self._now = loop.time
        self._bell = bell
        self._options = options
        self._lease = lease
        self._runner = runner
        self._outbox = outbox
        self._sweep = sweep
        self._engine_status = engine_status
        self._capacity = capacity
        self._suspects = suspects
        self._events = events
        self._cheap_steps = cheap_steps
        self._backoff = Backoff(lease.timing.retry)
        self._woken = True
        self._answered_at = 0.0
        self._poll_at = 0.0
        self._unknown_tasks = set(elsewhere)
        """Those that were logged, and those that this worker runs under another registration."""

    @property
    def idle(self) -> bool:
        """Whether no message is under way, and none is worth while."""
        return not self._woken and not self.messages.doubt

    def wake(self) -> None:
        """The engine says that there may be work, or a cancel; from any thread."""
        self._woken = True
        self._bell.ring_from_thread()

    async def run(self) -> None:
        """Work until `ending`; survives the engine's absence and the loss of the lease."""
        while not self.ending:
            try:
                await self._turn()
            except EngineUnavailable as error:
                self._engine_status.failed(error, "exchange")
                await self._back_off()
            except StaleMessage as error:  # this one, or an answer to it, was overtaken: ask how things stand
                log.info("%s", error)
                await self._back_off()
            except LeaseLost:
                self._lease.lose(self._lease.id, LAPSED)
            cancels.heed()

    async def _back_off(self) -> None:
        cancels.heed()
        await asyncio.sleep(self._backoff.wait())

    async def _turn(self) -> None:
        if not self._lease.held:
            await self._register()
        if self.messages.doubt:
            await self._resume()
        elif (pause := self._pause()) > 0:
            await self._sleep(pause)
        else:
            await self._exchange()

    async def _register(self) -> None:
        await self._lease.begin()
        self._runner.worker = self._lease.id
        self.messages.begin()
        self._woken = True
        self._events.emit("registered", worker=self._lease.id)

    def _pause(self) -> float:
        """Seconds until the next exchange is worth it; a ring makes us ask again."""
        if self._outbox.pressing:
            return 0
        now = self._now()
        if self._woken:
            return 0 if self._want() else self._answered_at + FULL_PAUSE - now
        return self._poll_at - now

    def _want(self) -> int:
        return self._capacity.want(self._outbox.waiting) if self.claiming else 0

    def _report_limit(self) -> int | None:
        """How many outcomes to send; None for all of them."""
        burst = self._cheap_steps and self._now() - self._answered_at > SHORT_WORK
        return max(SMALL_BATCH, self._outbox.waiting // 2) if burst or self._runner.running else None

    async def _sleep(self, pause: float) -> None:
        self._events.emit("idle")
        await self._bell.sleep(pause)

    async def _exchange(self) -> None:
        id, reports = self._lease.id, self._outbox.take(self._report_limit())
        want = self._want()
        threads = self._capacity.threads_for(want)
        self._woken = False
        self._capacity.ask(want, threads)
        sent = self._now()
        try:
            answer = await self._send(id, reports, want, threads)
        except BaseException:
            self._give_up(id, reports)
            raise
        self._got_through()
        self._events.jobs.acknowledged(reports, answer.refused)
        self._answered_at = self._now()
        self._poll_at = self._answered_at + jittered(POLL)
        if self._holds(id):
            await self._receive(answer, len(reports), want, threads, self._answered_at - sent)
        else:
            self._stop_asking()

    async def _send(
        self, id: str, reports: Sequence[Report], want: int, threads: int | None = None
    ) -> Exchanged:
        suspects = want > 0 and self._suspects.take(self)
        order = self._options.queues.order()
        return await self.messages.send(
            lambda number: self._part.exchange(
                id, reports, want, order, number=number, suspects=suspects, threads=threads
            )
        )

    def _give_up(self, id: str, reports: Sequence[Report]) -> None:
        self._stop_asking()
        if self._holds(id):
            self._outbox.put_back(reports)

    def _stop_asking(self) -> None:
        """No answer: what this part cannot use now is for the others."""
        self._capacity.leave()
        self._suspects.leave(self)

    def _holds(self, id: str) -> bool:
        """Whether the lease is still the one with this id. What an answer to an earlier one brought is not ours."""
        return self._lease.held and self._lease.id == id

    async def _receive(
        self, answer: Exchanged, reported: int, want: int, threads: int | None, seconds: float
    ) -> None:
        in_threads = self._start(answer.attempts)
        if answer.more:
            self._woken = True
        hungry = answer.more or 0 < want == len(answer.attempts)
        self._capacity.end(hungry=hungry, short=threads is not None and in_threads >= threads)
        if not self._runner.suspects:
            self._suspects.give_back(self)
        if answer.cancelling:
            self._runner.cancel(answer.cancelling)
        if answer.refused or answer.set_aside:
            self._log_refusals(answer)
        self._sweep.expect(answer.next_due, answer.now)
        claimed, parked = len(answer.attempts), answer.parked
        self._events.emit("exchanged", reported=reported, claimed=claimed, parked=parked, seconds=seconds)
        if self.quiet is not None and not (answer.attempts or answer.more or self._runner.running):
            await self.quiet()

    def _start(self, attempts: Sequence[Attempt]) -> int:
        """Start what was claimed; give back what came after the stop, or too late for the places and threads it was
        meant for. Returns how many need a thread."""
        room, in_threads = self._capacity.room(len(attempts)) if self.claiming else 0, 0
        for attempt in attempts:
            threaded = attempt.task in self._runner.threaded_tasks
            in_threads += threaded
            if room <= 0 or (threaded and not self._runner.free_threads):
                self._outbox.settle(Released(attempt.job, attempt.number))
            else:
                room -= 1
                self._runner.start(attempt)
        return in_threads

    async def _resume(self) -> None:
        """Agree with the store again on what this worker runs."""
        id, known = self._lease.id, [*self._runner.known, *self._outbox.known]
        resumed = await self.messages.send(lambda number: self._part.resume_worker(id, number, known))
        if self._holds(id):
            self._woken = True
            self._agree(resumed)

    def _agree(self, resumed: Resumed) -> None:
        """Keep what is alive for the store. Attempts that ended meanwhile are in the outbox, and were named, too."""
        alive = frozenset(resumed.alive)
        abandoned = self._runner.abandon(alive)
        self._outbox.keep(alive)
        self._events.jobs.in_doubt(alive)
        self._runner.cancel(resumed.cancelling)
        if resumed.taken_back:
            text = "%d jobs that were claimed in an answer that never arrived were given back"
            log.warning(text, resumed.taken_back)
        if abandoned:
            log.warning("%d running jobs are no longer this worker's; they were cancelled", abandoned)
        self._events.emit("resumed", taken_back=resumed.taken_back, abandoned=abandoned)

    async def report_rest(self) -> None:
        """The worker was cut short: report what has ended, if that is possible at once."""
        if self._lease.held and not self.messages.doubt and (reports := self._outbox.take()):
            with contextlib.suppress(HeadgateError):
                answer = await self._send(self._lease.id, reports, 0)
                self._events.jobs.acknowledged(reports, answer.refused)

    def _got_through(self) -> None:
        """An exchange got through. A registration or a resumption does not count: reports may still be refused."""
        self._backoff.reset()
        self._engine_status.worked("exchange")
        stuck = self.messages.stuck_for() > self._lease.timing.retry
        self.messages.got_through()
        if stuck and self.recovered is not None:
            self.recovered()

    def _log_refusals(self, answer: Exchanged) -> None:
        for job, attempt in answer.refused:
            log.info("the report about job %s, attempt %d, came too late and changed nothing", job, attempt)
        for task in set(answer.set_aside) - self._unknown_tasks:
            self._unknown_tasks.add(task)
            log.warning(
                "task %r is not known to this worker; its jobs are left for others",
                task,
                extra={"task": task},
            )
