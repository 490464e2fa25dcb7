"""One run of a worker, from its first registration to its retirement: a `PartRun` for each part of the store, the
threads and places that these share, the duties that concern the whole store, and stopping.

Tasks that run in processes are registered apart, with a `PartRun` of their own for each part: a store hands out jobs
by registration, so that each of the two asks for as many as it can start, and neither waits for the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from headgate.engine.contract import Engine
from headgate.hooks.hooks import Hooks
from headgate.limits import FloatingRule
from headgate.worker import registrations
from headgate.worker.duties.duty import Duty
from headgate.worker.duties.floating import Floating
from headgate.worker.duties.learning import Learning
from headgate.worker.duties.ticker import Ticker
from headgate.worker.events import Event, Events
from headgate.worker.health import STANDS_STILL, WorkerHealth
from headgate.worker.options import Options
from headgate.worker.pool.app_source import source_of
from headgate.worker.pool.pool import Pool
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.part_run import PartRun, end_all
from headgate.worker.run.running_attempt import RunningAttempt
from headgate.worker.run.surroundings import Surroundings
from headgate.worker.run.suspects import SuspectsTurn
from headgate.worker.run.threads import Threads
from headgate.worker.run.watchdog import Watchdog
from headgate.worker.run.wear import check_memory, watch_memory
from headgate.worker.runnable import Runnable

log = logging.getLogger("headgate.worker")

LAST_CALL = 2.0
"""Seconds that attempts have to end after they were asked to, and outcomes to be sent, before the worker goes."""
REMINDER = 10.0
"""Seconds between two log lines about what a stopping worker waits for."""


class WorkerRun:
    """Made inside a running event loop; `work()` is the whole of it. `drain` leaves the duties to `run_until_idle()`.

    `alone` says that the process ends with this worker: what cannot be stopped ends with it then.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Mapping[str, Runnable],
        floating: Sequence[FloatingRule],
        options: Options,
        events: Events,
        hooks: Hooks,
        *,
        drain: bool = False,
        alone: bool = False,
    ) -> None:
        self.events = events
        self.ticker = Ticker(engine, tasks.values(), events, hooks.enqueueing)
        self.floating = Floating(engine, floating, events)
        known: dict[str, Runnable] = {**tasks, **self.floating.tasks}
        learns = any(task.learning is not None for task in tasks.values())
        self.learning = Learning(engine, events) if learns else None
        in_pool = {} if drain else {name: task for name, task in known.items() if task.in_process}
        self._pool = _pool(options, hooks, list(in_pool)) if in_pool else None
        self._threads = Threads(options.threads, options.name)
        self._surroundings = Surroundings(hooks, options, self._threads)
        events.jobs = self._surroundings.jobs
        capacity = Capacity(options.concurrency, options.max_jobs)
        capacity.spent = lambda: self._wear_out(f"it has begun {options.max_jobs} jobs")
        suspects = SuspectsTurn()

        def parts(tasks: Mapping[str, Runnable], options: Options, pool: Pool | None = None) -> list[PartRun]:
            return [
                PartRun(
                    part,
                    tasks,
                    options,
                    self._threads,
                    capacity,
                    suspects,
                    self._surroundings,
                    events,
                    cheap_steps=engine.cheap_steps,
                    elsewhere=known.keys() - tasks.keys(),
                    pool=pool,
                    learning=self.learning,
                )
                for part in engine.parts()
            ]

        on_its_own = {name: task for name, task in known.items() if name not in in_pool}
        registrations = [parts(on_its_own, options)] if on_its_own or not in_pool else []
        if self._pool is not None:
            registrations.append(parts(in_pool, _options_of_pool(options), self._pool))
        self._keepers = registrations[0]
        """Those that keep the duties."""
        self.parts = [part for group in registrations for part in group]
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._drain = drain
        self._alone = alone
        self._watchdog = Watchdog(self._loop, self.parts, events)
        self._hurry = asyncio.Event()
        self._winding_down: asyncio.Task[None] | None = None
        self._exchanging: list[asyncio.Task[None]] = []
        self._entering: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._over = False
        self._stopped_early = False

    @property
    def ids(self) -> list[str]:
        """The ids under which it is registered, one per part of the store."""
        return [part.lease.id for part in self.parts if part.lease.id]

    @property
    def running(self) -> list[RunningAttempt]:
        """The attempts that it runs."""
        return [run for part in self.parts for run in part.runner.running.values()]

    @property
    def started(self) -> int:
        """How many attempts were started."""
        return sum(part.runner.started for part in self.parts)

    @property
    def health(self) -> WorkerHealth:
        """How it stands; from any thread, also while the event loop does not turn."""
        blocked = self._watchdog.still_for
        live, stopping = blocked < STANDS_STILL, self._over or self._ending
        ready = sum(part.ready for part in self.parts)
        since = [part.last_exchange for part in self.parts if part.last_exchange is not None]
        return WorkerHealth(
            worker=next(iter(self.ids), ""),
            live=live,
            ready=live and not stopping and ready > 0,
            why=self._why_not_ready(blocked, ready, since, stopping=stopping),
            stopping=stopping,
            blocked=round(blocked, 3),
            last_exchange=round(min(since), 3) if since else None,
            parts=len(self.parts),
            parts_ready=ready,
            running=sum(len(part.runner.running) for part in self.parts),
            concurrency=self._options.concurrency,
        )

    @property
    def _ending(self) -> bool:
        return self._winding_down is not None or self._finishing is not None

    def _why_not_ready(self, blocked: float, ready: int, since: Sequence[float], *, stopping: bool) -> str:
        if blocked >= STANDS_STILL:
            return f"its event loop has stood still for {blocked:.1f} s"
        if stopping:
            return "it is stopping"
        if ready:
            return ""
        if not any(part.lease.held for part in self.parts):
            return "it holds no lease"
        return f"no exchange got through for {min(since):.1f} s" if since else "no exchange got through yet"

    async def work(self) -> None:
        """Register, work until stopped, retire; all of it inside the lifespan of the app. Raises what a worker cannot
        work with, such as a newer schema."""
        self._entering = asyncio.current_task()
        try:
            async with self._surroundings.entered():
                self._entering = None
                await self._work()
        except asyncio.CancelledError:
            if not self._stopped_early:
                raise

    async def _work(self) -> None:
        if self._options.max_memory is not None:
            check_memory(self._options.max_memory)
        duties = self._keep_duties()
        self._exchanging = [self._loop.create_task(part.run()) for part in self.parts]
        if not self._drain:
            self._watchdog.start()
        if self._options.max_memory is not None:
            watch = watch_memory(self._options.max_memory, self._wear_out)
            duties.append(self._loop.create_task(watch))
        try:
            await self._exchange()
        finally:
            await end_all(self._exchanging)
            await self._leave()
            if self._pool is not None:
                await self._pool.close()
            ending = [task for task in (self._finishing, self._winding_down) if task is not None]
            await end_all([*duties, *ending])
            self._watchdog.stop()
            await asyncio.gather(*(part.retire(LAST_CALL) for part in self.parts))
            self._threads.close()
            self._over = True
            self.events.emit("stopped")

    def stop(self) -> None:
        """Stop in good order; a second time, without waiting for what can be stopped."""
        if self._over:
            return
        if self._entering is not None:  # nothing is claimed yet: there is nothing to wait for
            self._over = self._stopped_early = True
            self._entering.cancel()
        elif self._winding_down is None:
            self._winding_down = self._loop.create_task(self._wind_down())
        else:
            self._hurry.set()

    def _wear_out(self, why: str) -> None:
        """Claim no more, finish what runs however long it takes, then stop, for another process to take the place."""
        if self._finishing is None and self._winding_down is None:
            registrations.note_worn_out()
            self._finishing = self._loop.create_task(self._finish(why))

    async def _finish(self, why: str) -> None:
        self._claim_no_more()
        log.info("this process is to be replaced: %s; finishing %d running jobs", why, len(self.running))
        self.events.emit("worn_out", why=why)
        await self._calm(None)
        if self._winding_down is None:
            self.stop()

    def _claim_no_more(self) -> None:
        for part in self.parts:
            part.exchange.claiming = False

    def _keep_duties(self) -> list[asyncio.Task[None]]:
        """The first part also keeps the duties that concern the whole store."""
        first = self.parts[0]
        others: list[Duty] = [duty for duty in (self.ticker, self.floating) if duty.needed]
        if self.learning is not None:
            others.append(self.learning)
        duties = first.keep(*others, lease_only=self._drain)
        for part in self.parts[1:]:
            duties += part.keep(lease_only=self._drain or part not in self._keepers)
        return duties

    async def _exchange(self) -> None:
        """Until all parts have ended, or one cannot go on: then the worker cannot."""
        try:
            await asyncio.gather(*self._exchanging)
        except asyncio.CancelledError:
            if not all(part.exchange.ending for part in self.parts):
                raise

    async def _leave(self) -> None:
        """Cut short: cancel what runs. Coroutines end soon, and are given back; threads keep their slots."""
        runs = self.running
        for run in runs:
            run.interrupt("release")
        if handles := [run.handle for run in runs if run.handle is not None]:
            await asyncio.wait(handles, timeout=LAST_CALL)
        await asyncio.gather(*(part.exchange.report_rest() for part in self.parts if part.runner.running))

    async def _wind_down(self) -> None:
        """Claim no more, wait, ask what still runs to end and give it back. The lease is renewed meanwhile."""
        self._claim_no_more()
        running = len(self.running)
        log.info("stopping: waiting up to %g s for %d running jobs", self._options.grace, running)
        self.events.emit("stopping")
        await self._calm(self._options.grace)
        if self.running:
            for part in self.parts:
                part.runner.release()
            self._hurry.clear()
            await self._calm(LAST_CALL)
        await self._wait_for_the_rest()
        for part in self.parts:
            part.exchange.ending = True
            part.bell.ring()
        await asyncio.sleep(LAST_CALL)
        for exchanging in self._exchanging:  # the engine does not answer: go without
            exchanging.cancel()

    async def _wait_for_the_rest(self) -> None:
        """What cannot be stopped keeps its slots. Only the end of the process ends it; without that, wait for it."""
        while runs := self.running:
            for run in runs:
                self._say_what_runs_on(run)
            if self._alone:
                return
            self._hurry.clear()
            await self._calm(REMINDER)

    def _say_what_runs_on(self, run: RunningAttempt) -> None:
        attempt = run.attempt
        then = "it ends with the process" if self._alone else "waiting for it, since it holds its slots"
        text = "job %s (%s) did not end when it was asked to, %.0f s after its start; %s"
        log.warning(
            text,
            attempt.job,
            attempt.task,
            run.seconds,
            then,
            extra={"job": attempt.job, "task": attempt.task},
        )

    async def _calm(self, seconds: float | None) -> None:
        """Wait until nothing runs and everything is reported, or until time or patience is over."""
        calm = asyncio.Event()

        def listen(_: Event) -> None:
            if all(part.calm for part in self.parts):
                calm.set()

        self.events.listeners.append(listen)
        for part in self.parts:
            part.bell.ring()
        listen(Event("stopping"))
        waits = [self._loop.create_task(event.wait()) for event in (calm, self._hurry)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await end_all(waits)
        self.events.listeners.remove(listen)


def _pool(options: Options, hooks: Hooks, tasks: Sequence[str]) -> Pool:
    return Pool(options.pool_processes, source_of(hooks.app, tasks), options.max_memory)


def _options_of_pool(options: Options) -> Options:
    """Those of the registration for tasks that run in processes."""
    most = min(options.pool_processes, options.concurrency)
    return msgspec.structs.replace(options, name=f"{options.name}-pool", concurrency=most)
