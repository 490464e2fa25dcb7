"""Runs attempts: coroutines as tasks of the event loop, synchronous functions in threads.

The path of an async job is kept short, since it is walked thousands of times a second: one `RunningAttempt`, one
asyncio task, one outcome. A timer exists only for attempts with a timeout, a log record only if its level is enabled.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Container, Iterable, Mapping
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import Attempt, Failed, Known, Outcome
from headgate.engine.rules.blame import APART
from headgate.worker.events import Events
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.context import CURRENT
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.outcome import raised, returned, undecodable
from headgate.worker.run.running_attempt import RunningAttempt
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
        events: Events,
    ) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self.abandoned: set[RunningAttempt] = set()
        self.started = 0
        self.suspects = 0
        """How many of the attempts that run, abandoned ones included, are of suspects that are kept apart (rule 15)."""
        self._loop = loop
        self._tasks = tasks
        self._outbox = outbox
        self._threads = threads
        self._capacity = capacity
        self._events = events
        self._mail = Mailbox[tuple[RunningAttempt, Outcome]](loop, self._from_thread)

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
            self._settle(undecodable(attempt, error), attempt)
            return
        run = self.running[attempt.job] = RunningAttempt(attempt, task, self._outbox.progress)
        self._capacity.take()
        self.suspects += attempt.suspicion >= APART
        if attempt.timeout is not None:
            run.timer = self._loop.call_later(attempt.timeout / SECOND, self._expire, run)
        if task.is_async:
            run.handle = self._loop.create_task(self._drive(run, args, kwargs))
        else:
            context = contextvars.copy_context()
            self._threads.submit(lambda: context.run(self._call, run, args, kwargs))

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
        return len(runs)

    async def _drive(self, run: RunningAttempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        run.started = True
        CURRENT.set(run.context)
        try:
            if run.stop_reason is not None:
                raise asyncio.CancelledError
            outcome = returned(run, await run.task.fn(*args, **kwargs))
        except BaseException as error:  # also SystemExit: a task must not end the worker
            outcome = raised(run, error)
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
        if run.stop_reason == "abandon":
            self.abandoned.discard(run)
        else:
            del self.running[run.attempt.job]
            self._settle(outcome, run.attempt)

    def _settle(self, outcome: Outcome, attempt: Attempt) -> None:
        self._outbox.settle(outcome)
        if type(outcome) is Failed:
            _log_failure(outcome, attempt)
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("job %s: %s", attempt.job, type(outcome).__name__.lower(), extra=_fields(attempt))

    def _expire(self, run: RunningAttempt) -> None:
        run.interrupt("timeout")
        if run.handle is None and run.stop_reason == "timeout":
            log.warning(
                "job %s (%s) is past its timeout of %g s; a thread cannot be stopped: it keeps its slots until it ends",
                run.attempt.job,
                run.attempt.task,
                (run.attempt.timeout or 0) / SECOND,
                extra=_fields(run.attempt),
            )
            self._events.emit("overrun", job=run.attempt.job)


def _log_failure(failed: Failed, attempt: Attempt) -> None:
    if failed.retry_in is None:
        log.error("job %s (%s) failed: %s", attempt.job, attempt.task, failed.error, extra=_fields(attempt))
    else:
        first_line = failed.error.partition("\n")[0]
        wait = failed.retry_in / SECOND
        text = "job %s (%s) failed, attempt %d, next in %.3g s: %s"
        log.warning(text, attempt.job, attempt.task, attempt.number, wait, first_line, extra=_fields(attempt))


def _fields(attempt: Attempt) -> dict[str, Any]:
    return {"job": attempt.job, "task": attempt.task, "attempt": attempt.number, "queue": attempt.queue}
