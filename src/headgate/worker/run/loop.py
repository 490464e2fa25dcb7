"""The exchange loop: the heart of a worker.

One exchange is in flight at a time. It carries the outcomes of everything that ended since the last one, asks for as
many jobs as could start at once, and brings the jobs that the slots just given back are for. What ends meanwhile
waits for the next exchange, which goes out as soon as the answer is in: batches form by themselves, no timer makes
them.

When there is nothing to report and nothing to be had, the loop sleeps until the engine rings, an attempt ends, or the
slow poll is due, by which even a lost ring would be noticed.

Messages are numbered, and the store refuses what is older than the last one that took effect (rule 13). After any
doubt (an error, no answer in time) the next message says which attempts this worker really has: the store takes back
the others, and whatever is still on its way changes nothing when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headgate.engine.contract import Attempt, Exchanged, Part, Released, Report, Resumed
from headgate.engine.deadline import within
from headgate.errors import EngineUnavailable, HeadgateError, LeaseLost, StaleMessage
from headgate.worker.bell import Bell
from headgate.worker.duties.duty import jittered
from headgate.worker.duties.sweep import Sweep
from headgate.worker.engine_status import Backoff, Link
from headgate.worker.events import Events
from headgate.worker.options import Options
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.lease import LAPSED, Lease
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.runner import Runner
from headgate.worker.run.suspects import SuspectsTurn

log = logging.getLogger("headgate.worker")

T = TypeVar("T")

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
        part: Part,
        loop: asyncio.AbstractEventLoop,
        bell: Bell,
        options: Options,
        lease: Lease,
        runner: Runner,
        outbox: Outbox,
        sweep: Sweep,
        link: Link,
        capacity: Capacity,
        suspects: SuspectsTurn,
        events: Events,
        *,
        cheap_steps: bool = False,
    ) -> None:
        self.claiming = True
        self.ending = False
        self.quiet: Callable[[], Awaitable[None]] | None = None
        self.recovered: Callable[[], None] | None = None
        self._part = part
        self._time = loop.time
        self._bell = bell
        self._options = options
        self._lease = lease
        self._runner = runner
        self._outbox = outbox
        self._sweep = sweep
        self._link = link
        self._share = capacity.share(self.wake)
        self._suspects = suspects
        self._events = events
        self._cheap_steps = cheap_steps
        self._backoff = Backoff(lease.timing.retry)
        self._rung = True
        self._last = 0.0
        self._poll_at = 0.0
        self._number = 0
        self._doubt = False
        self._unanswered: float | None = None
        self._aside: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether no message is under way, and none is worth while."""
        return not self._rung and not self._doubt

    def wake(self) -> None:
        """The engine says that there may be work, or a cancel; from any thread."""
        self._rung = True
        self._bell.ring_from_thread()

    def stuck_for(self) -> float:
        """Seconds since the first of the messages that have had no answer; 0 if all have had one."""
        return 0.0 if self._unanswered is None else time.monotonic() - self._unanswered

    async def run(self) -> None:
        """Work until `ending`; survives the engine's absence and the loss of the lease."""
        while not self.ending:
            try:
                await self._turn()
            except EngineUnavailable as error:
                self._link.failed(error, "exchange")
                await asyncio.sleep(self._backoff.wait())
            except StaleMessage as error:  # this one, or an answer to it, was overtaken: ask how things stand
                log.info("%s", error)
                await asyncio.sleep(self._backoff.wait())
            except LeaseLost:
                self._lease.lose(self._lease.id, LAPSED)

    async def _turn(self) -> None:
        if not self._lease.held:
            await self._register()
        if self._doubt:
            await self._resume()
        elif (pause := self._pause()) > 0:
            await self._sleep(pause)
        else:
            await self._exchange()

    async def _register(self) -> None:
        await self._lease.begin()
        self._runner.worker = self._lease.id
        self._doubt, self._unanswered = False, None
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
        return self._share.want(self._outbox.waiting) if self.claiming else 0

    def _most(self) -> int | None:
        """How many outcomes to send; None for all of them."""
        burst = self._cheap_steps and self._time() - self._last > BRIEF
        return max(HANDFUL, self._outbox.waiting // 2) if burst or self._runner.running else None

    async def _sleep(self, pause: float) -> None:
        self._events.emit("idle")
        await self._bell.sleep(pause)

    async def _exchange(self) -> None:
        id, reports = self._lease.id, self._outbox.take(self._most())
        want = self._want()
        self._rung = False
        self._share.ask(want)
        try:
            answer = await self._send(id, reports, want)
        except BaseException:
            self._give_up(id, reports)
            raise
        self._works()
        self._events.jobs.acknowledged(reports, answer.refused)
        self._last = self._time()
        self._poll_at = self._last + jittered(POLL)
        if self._is(id):
            await self._receive(answer, len(reports), want)
        else:
            self._leave()

    async def _send(self, id: str, reports: Sequence[Report], want: int) -> Exchanged:
        suspects = want > 0 and self._suspects.take(self)
        order = self._options.queues.order()
        return await self._message(
            lambda number: self._part.exchange(id, reports, want, order, number=number, suspects=suspects)
        )

    async def _message(self, send: Callable[[int], Awaitable[T]]) -> T:
        """Send one numbered message; until its answer is there, nobody knows whether it took effect."""
        self._number += 1
        self._doubt = True
        if self._unanswered is None:
            self._unanswered = time.monotonic()
        with within(self._lease.timing.call):
            answer = await send(self._number)
        self._doubt = False
        return answer

    def _give_up(self, id: str, reports: Sequence[Report]) -> None:
        self._leave()
        if self._is(id):
            self._outbox.put_back(reports)

    def _leave(self) -> None:
        """No answer: what this part cannot use now is for the others."""
        self._share.leave()
        self._suspects.leave(self)

    def _is(self, id: str) -> bool:
        """Whether the lease is still the one with this id. What an answer to an earlier one brought is not ours."""
        return self._lease.held and self._lease.id == id

    async def _receive(self, answer: Exchanged, reported: int, want: int) -> None:
        self._start(answer.attempts)
        if answer.more:
            self._rung = True
        self._share.end(hungry=answer.more or 0 < want == len(answer.attempts))
        if not self._runner.suspects:
            self._suspects.give_back(self)
        if answer.cancelling:
            self._runner.cancel(answer.cancelling)
        if answer.refused or answer.set_aside:
            self._tell(answer)
        self._sweep.expect(answer.next_due, answer.now)
        self._events.emit("exchanged", reported=reported, claimed=len(answer.attempts))
        if self.quiet is not None and not (answer.attempts or answer.more or self._runner.running):
            await self.quiet()

    def _start(self, attempts: Sequence[Attempt]) -> None:
        """Start what was claimed; give back what came after the stop, or too late for the places it was meant for."""
        room = self._share.room(len(attempts)) if self.claiming else 0
        for attempt in attempts[:room]:
            self._runner.start(attempt)
        for attempt in attempts[room:]:
            self._outbox.settle(Released(attempt.job, attempt.number))

    async def _resume(self) -> None:
        """Agree with the store again on what this worker runs."""
        id, known = self._lease.id, [*self._runner.known, *self._outbox.known]
        resumed = await self._message(lambda number: self._part.resume_worker(id, number, known))
        if self._is(id):
            self._rung = True
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
        if self._lease.held and not self._doubt and (reports := self._outbox.take()):
            with contextlib.suppress(HeadgateError):
                answer = await self._send(self._lease.id, reports, 0)
                self._events.jobs.acknowledged(reports, answer.refused)

    def _works(self) -> None:
        """An exchange got through. A registration or a resumption does not count: reports may still be refused."""
        self._backoff.reset()
        self._link.worked("exchange")
        stuck, self._unanswered = self.stuck_for() > self._lease.timing.retry, None
        if stuck and self.recovered is not None:
            self.recovered()

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
