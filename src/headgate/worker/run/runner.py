"""Runs attempts: coroutines as tasks of the event loop, synchronous functions in threads.

The path of an async job is kept short, since it is walked thousands of times a second: one `Run`, one asyncio task, one
outcome. A timer exists only for attempts with a timeout, a log record only if somebody reads that level.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Container, Iterable, Mapping
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import Attempt, Failed, Known, Outcome, Stopped
from headgate.engine.rules.blame import APART
from headgate.errors import RetryLater
from headgate.hooks.context import CURRENT, JobContext
from headgate.worker.events import Events
from headgate.worker.run.attempt import Run
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.outcome import raised, returned, undecodable
from headgate.worker.run.surroundings import Surroundings
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
    ) -> None:
        self.worker = ""
        """The id under which the worker is registered with this part of the store."""
        self.running: dict[str, Run] = {}
        self.abandoned: set[Run] = set()
        self.started = 0
        self.suspects = 0
        """How many of the attempts that run, abandoned ones included, are of suspects that are kept apart (rule 15)."""
        self._loop = loop
        self._tasks = tasks
        self._outbox = outbox
        self._threads = threads
        self._capacity = capacity
        self._surroundings = surroundings
        self._events = events
        self._mail = Mailbox[tuple[Run, Outcome]](loop, self._from_thread)

    @property
    def known(self) -> list[Known]:
        """The attempts that run."""
        return [(run.attempt.job, run.attempt.number) for run in self.running.values()]

    def start(self, attempt: Attempt) -> None:
        """Run an attempt that was just claimed."""
        task = self._tasks[attempt.task]
        self.started += 1
        try:
            args, kwargs = task.decode(attempt.args)
        except Exception as error:
            self._refuse(attempt, error)
            return
        call = task.fn, args, kwargs
        context = JobContext(attempt, self._outbox.progress, self.worker, self._surroundings.state, call)
        run = self.running[attempt.job] = Run(attempt, task, context)
        self._capacity.take()
        self.suspects += attempt.suspicion >= APART
        if attempt.timeout is not None:
            run.timer = self._loop.call_later(attempt.timeout / SECOND, self._expire, run)
        self._events.jobs.started(attempt, self.worker)
        if surrounded := self._surroundings.around(run):
            run.in_thread = False
        if task.is_async or surrounded:
            if run.threaded:
                self._threads.reserve()
            run.handle = self._loop.create_task(self._drive(run, args, kwargs, surrounded=surrounded))
        else:
            copied = contextvars.copy_context()
            self._threads.submit(lambda: copied.run(self._call, run, args, kwargs))

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
        self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any], *, surrounded: bool
    ) -> None:
        run.started = True
        CURRENT.set(run.context)
        try:
            if run.fate is not None:
                raise asyncio.CancelledError
            if surrounded:
                outcome = returned(run, await self._surroundings.call(run, args, kwargs))
            else:
                outcome = returned(run, await run.task.fn(*args, **kwargs))
        except BaseException as error:  # also SystemExit: a task must not end the worker
            outcome = raised(run, error)
        if run.threaded:
            self._threads.done()
        self._end(run, outcome)

    def _call(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        CURRENT.set(run.context)
        try:
            if run.fate is not None:
                raise asyncio.CancelledError
            outcome = returned(run, run.task.fn(*args, **kwargs))
        except BaseException as error:
            outcome = raised(run, error)
        self._mail.post((run, outcome))

    def _from_thread(self, mail: tuple[Run, Outcome]) -> None:
        self._threads.done()
        self._end(*mail)

    def _end(self, run: Run, outcome: Outcome) -> None:
        if run.timer is not None:
            run.timer.cancel()
        self._capacity.give()
        self.suspects -= run.attempt.suspicion >= APART
        if run.fate == "abandon":
            self.abandoned.discard(run)
        else:
            del self.running[run.attempt.job]
            self._settle(outcome, run.attempt, run.error, run.seconds)
        run.error = None  # its traceback leads back to here

    def _refuse(self, attempt: Attempt, error: Exception) -> None:
        """An attempt whose arguments do not fit its task ends before it has begun."""
        self._events.jobs.started(attempt, self.worker)
        self._settle(undecodable(attempt, error), attempt, error, 0.0)

    def _settle(
        self, outcome: Outcome, attempt: Attempt, error: BaseException | None, seconds: float
    ) -> None:
        self._events.jobs.ended(attempt, self.worker, outcome, error, seconds)
        self._outbox.settle(outcome)
        if type(outcome) is Failed:
            self._log_failure(outcome, attempt, error)
        elif log.isEnabledFor(logging.DEBUG):
            self._log_end(outcome, attempt, seconds)

    def _log_failure(self, failed: Failed, attempt: Attempt, error: BaseException | None) -> None:
        """The template is constant and the exception comes along, so that collectors of errors can group them."""
        first_line, fields = failed.error.partition("\n")[0], self._fields(attempt)
        if failed.retry_in is None:
            text = "job %s (%s) failed on attempt %d: %s"
            log.error(
                text, attempt.job, attempt.task, attempt.number, first_line, exc_info=error, extra=fields
            )
            return
        on_purpose = isinstance(error, RetryLater) and error.__cause__ is None
        text = "job %s (%s) failed on attempt %d, next in %.3g s: %s"
        wait, trace = failed.retry_in / SECOND, None if on_purpose else error
        log.warning(
            text, attempt.job, attempt.task, attempt.number, wait, first_line, exc_info=trace, extra=fields
        )

    def _log_end(self, outcome: Outcome, attempt: Attempt, seconds: float) -> None:
        waiting = max(attempt.started_at - (attempt.due or attempt.enqueued_at), 0) / SECOND
        text = "job %s (%s) %s on attempt %d in %.3g s, after waiting %.3g s"
        fields = {**self._fields(attempt), "duration": seconds, "waiting": waiting}
        how = "was cancelled" if type(outcome) is Stopped else type(outcome).__name__.lower()
        log.debug(text, attempt.job, attempt.task, how, attempt.number, seconds, waiting, extra=fields)

    def _fields(self, attempt: Attempt) -> dict[str, Any]:
        return {
            "job": attempt.job,
            "task": attempt.task,
            "attempt": attempt.number,
            "queue": attempt.queue,
            "tenant": attempt.tenant or None,
            "worker": self.worker,
        }

    def _expire(self, run: Run) -> None:
        run.interrupt("timeout")
        if run.in_thread and run.fate == "timeout":
            log.warning(
                "job %s (%s) is past its timeout of %g s; a thread cannot be stopped: it keeps its slots until it ends",
                run.attempt.job,
                run.attempt.task,
                (run.attempt.timeout or 0) / SECOND,
                extra=self._fields(run.attempt),
            )
            self._events.emit("overrun", job=run.attempt.job)
