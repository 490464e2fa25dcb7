"""Runs attempts: coroutines as tasks of the event loop, synchronous functions in threads or in processes of a pool.

The path of an async job is kept short, since it is walked thousands of times a second: one `RunningAttempt`, one
asyncio task, one outcome. A timer exists only for attempts with a timeout, a log record only if its level is enabled.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Container, Iterable, Mapping
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import Attempt, Done, Failed, Known, Outcome
from headgate.engine.rules.blame import APART
from headgate.hooks.context import CURRENT, JobContext
from headgate.sealing import MARK
from headgate.worker.duties.learning import Learning
from headgate.worker.events import Events
from headgate.worker.pool.pool import Pool
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.end_log import fields, log_end, log_failure
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.outcome import raised, returned, undecodable
from headgate.worker.run.process_calls import ProcessCalls
from headgate.worker.run.running_attempt import RunningAttempt
from headgate.worker.run.surroundings import Surroundings
from headgate.worker.run.tally import Tally
from headgate.worker.run.threads import Mailbox, Threads
from headgate.worker.runnable import Runnable

log = logging.getLogger("headgate.worker")


class Runner:
    """All attempts that this worker runs for one part of the store."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Mapping[str, Runnable],
        outbox: Outbox,
        threads: Threads,
        capacity: Capacity,
        surroundings: Surroundings,
        events: Events,
        pool: Pool | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.worker = ""
        """The id under which the worker is registered with this part of the store."""
        self.running: dict[str, RunningAttempt] = {}
        self.abandoned: set[RunningAttempt] = set()
        self.started = 0
        self.suspects = 0
        """How many of the attempts that run, abandoned ones included, are of suspects that are kept apart (rule 15)."""
        self._loop = loop
        self._tasks = tasks
        self._outbox = outbox
        self._threads = threads
        self.threaded_tasks = frozenset(
            name for name, task in tasks.items() if pool is None and not task.is_async
        )
        """Those whose attempts need a thread each."""
        self._capacity = capacity
        self._surroundings = surroundings
        self._middleware = surroundings.middleware
        self._sealing = surroundings.sealing
        self._listeners = events.jobs.listeners.by_name
        """Looked at for every job, so that what is not used costs next to nothing."""
        self._events = events
        self._tally = Tally()
        self._pool = pool
        self._learning = learning
        self._processes = (
            None
            if pool is None
            else ProcessCalls(pool, outbox.progress, outbox.spent, self._arm, surroundings.carried)
        )
        self._mail = Mailbox[tuple[RunningAttempt, Outcome]](loop, self._from_thread)

    @property
    def known(self) -> list[Known]:
        """The attempts that run."""
        return [(run.attempt.job, run.attempt.number) for run in self.running.values()]

    def done(self) -> list[Done]:
        """What has been done since the last time, for the history."""
        for run in self.running.values():
            if not run.begun:
                run.begun = True
                self._tally.started(run.attempt)
        return self._tally.take()

    @property
    def free_threads(self) -> int:
        """How many attempts that need one could start now."""
        return self._threads.free

    def start(self, attempt: Attempt) -> None:
        """Run an attempt that was just claimed."""
        task = self._tasks[attempt.task]
        self.started += 1
        try:
            opened = attempt.args
            if self._sealing.active or opened.startswith(MARK):
                opened = self._sealing.open("args", opened, attempt.task, attempt.job, attempt.tenant)
            args, kwargs = task.decode(opened)
        except Exception as error:
            self._refuse(attempt, error)
            return
        call = task.fn, args, kwargs
        state, sealing = self._surroundings.state, self._sealing
        box = self._outbox
        context = JobContext(attempt, box.progress, self.worker, state, call, sealing, box.spent)
        run = self.running[attempt.job] = RunningAttempt(
            attempt, task, context, sealing, in_process=self._pool is not None
        )
        self._capacity.take()
        self.suspects += attempt.suspicion >= APART
        if self._learning is not None and task.learning is not None:
            run.learning = task.learning(opened, attempt.tenant)
            self._learning.began(run.learning)
        if self._pool is not None:
            self._pool.busy += 1
        elif attempt.timeout is not None:
            self._arm(run)
        if self._listeners:
            self._events.jobs.started(attempt, self.worker)
        around = bool(self._middleware or (task.dependencies and not run.in_process))
        if surrounded := around and self._surroundings.around(attempt):
            run.in_thread = False
        if not run.threaded or surrounded:
            if run.threaded:
                self._threads.reserve()
            run.handle = self._loop.create_task(self._drive(run, args, kwargs, surrounded=surrounded))
        else:
            copied = contextvars.copy_context()
            self._threads.submit(lambda: copied.run(self._call, run, args, kwargs))

    def _arm(self, run: RunningAttempt) -> None:
        """Its timeout counts from now on: for one in a process, from when that can run it."""
        if run.attempt.timeout is not None and run.timer is None:
            run.timer = self._loop.call_later(run.attempt.timeout / SECOND, self._expire, run)

    def cancel(self, jobs: Iterable[str]) -> None:
        """A cancel was asked for these jobs: coroutines are cancelled, threads see the flag."""
        for job in jobs:
            if run := self.running.get(job):
                run.interrupt("cancel")

    def release(self) -> None:
        """The worker stops: ask everything to end and give its job back."""
        for run in self.running.values():
            run.interrupt("release")

    def abandon(self, alive: Container[Known] = ()) -> int:
        """Cancel everything but what is still alive for the store; what it reports is dropped. Returns how many."""
        runs = [r for r in self.running.values() if (r.attempt.job, r.attempt.number) not in alive]
        self.abandoned.update(runs)
        for run in runs:
            del self.running[run.attempt.job]
            run.interrupt("abandon")
            self._events.jobs.abandoned(run.attempt, run.context.worker)
        return len(runs)

    async def _drive(
        self, run: RunningAttempt, args: tuple[Any, ...], kwargs: dict[str, Any], *, surrounded: bool
    ) -> None:
        run.started = True
        CURRENT.set(run.context)
        try:
            if run.stop_reason is not None:
                raise asyncio.CancelledError
            if surrounded:
                called = self._surroundings.call(run, args, kwargs, self._processes)
                outcome = returned(run, await called)
            elif self._processes is not None:
                outcome = await self._processes.outcome(run)
            else:
                outcome = returned(run, await run.task.fn(*args, **kwargs))
        except BaseException as error:  # also SystemExit: a task must not end the worker
            outcome = raised(run, error)
        if run.threaded:
            self._threads.done()
        elif self._pool is not None:
            self._pool.busy -= 1
        self._end(run, outcome)

    def _call(self, run: RunningAttempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        CURRENT.set(run.context)
        try:
            if run.stop_reason is not None:
                raise asyncio.CancelledError
            outcome = returned(run, run.task.fn(*args, **kwargs))
        except BaseException as error:
            outcome = raised(run, error)
        self._mail.post((run, outcome))

    def _from_thread(self, mail: tuple[RunningAttempt, Outcome]) -> None:
        self._threads.done()
        self._end(*mail)

    def _end(self, run: RunningAttempt, outcome: Outcome) -> None:
        if run.timer is not None:
            run.timer.cancel()
        self._capacity.give()
        self.suspects -= run.attempt.suspicion >= APART
        if self._learning is not None and run.learning is not None:
            timed_out = run.stop_reason == "timeout"
            self._learning.ended(run.learning, outcome, run.seconds, timed_out=timed_out)
        if run.stop_reason == "abandon":
            self.abandoned.discard(run)
        else:
            del self.running[run.attempt.job]
            self._settle(outcome, run.attempt, run.error, run.since, begun=run.begun)
        run.error = None  # its traceback leads back to here

    def _refuse(self, attempt: Attempt, error: Exception) -> None:
        """An attempt whose arguments do not fit its task ends before it has begun."""
        if self._listeners:
            self._events.jobs.started(attempt, self.worker)
        self._settle(undecodable(attempt, error), attempt, error, time.monotonic())

    def _settle(
        self,
        outcome: Outcome,
        attempt: Attempt,
        error: BaseException | None,
        since: float,
        *,
        begun: bool = False,
    ) -> None:
        seconds = time.monotonic() - since
        if self._listeners:
            self._events.jobs.ended(attempt, self.worker, outcome, error, seconds)
        self._tally.ended(attempt, outcome, seconds, begun=begun)
        self._outbox.settle(outcome)
        if type(outcome) is Failed:
            log_failure(outcome, attempt, self.worker, error)
        elif log.isEnabledFor(logging.DEBUG):
            log_end(outcome, attempt, self.worker, seconds)

    def _expire(self, run: RunningAttempt) -> None:
        run.interrupt("timeout")
        if run.in_thread and run.stop_reason == "timeout":
            log.warning(
                "job %s (%s) is past its timeout of %g s; a thread cannot be stopped: it keeps its slots until it ends",
                run.attempt.job,
                run.attempt.task,
                (run.attempt.timeout or 0) / SECOND,
                extra=fields(run.attempt, self.worker),
            )
            self._events.emit("overrun", job=run.attempt.job)
