"""What an app may listen to with `app.on(…)`, and the records that its listeners get.

enqueued     the store has a new job (also from a periodic task's tick)
started      a worker begins an attempt
succeeded    it returned, and the store has taken the result
failed       it ended the job as failed
retried      it failed, and the job will be tried again
snoozed      it asked to be run later, which does not count
throttled    a service that it called said: not now; its key is closed for a while
cancelled    it ended the job as cancelled
released     the worker stops and has given the job back
lost         the attempt is no longer this worker's; or a job has failed because its workers were lost too often
worker_started, worker_stopped
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

import msgspec

JobEventName = Literal[
    "enqueued",
    "started",
    "succeeded",
    "failed",
    "retried",
    "snoozed",
    "throttled",
    "cancelled",
    "released",
    "lost",
]
WorkerEventName = Literal["worker_started", "worker_stopped"]
EventName = JobEventName | WorkerEventName

JOB_EVENTS: frozenset[str] = frozenset(get_args(JobEventName))
WORKER_EVENTS: frozenset[str] = frozenset(get_args(WorkerEventName))


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job. What does not apply to an event is None.

    `enqueued_at`, `due` and `started_at` are the store's times, `ended_at` is `started_at` and the measured duration.
    """

    name: JobEventName
    job: str
    task: str
    queue: str | None = None
    tenant: str | None = None
    attempt: int | None = None
    worker: str | None = None
    """The id under which the worker was registered."""
    enqueued_at: datetime | None = None
    due: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    waiting: float | None = None
    """Seconds from the time at which the job was due to the start of this attempt."""
    duration: float | None = None
    """Seconds that the attempt took."""
    error: str | None = None
    """As it is stored with the job: type and message, then the traceback."""
    exception: BaseException | None = None
    """The exception itself, where the attempt ended with one: also RetryLater, Snooze and their like."""
    retry_in: float | None = None
    """Seconds until the next attempt is due (retried, snoozed), or for which its key is closed (throttled)."""
    within_transaction: bool = False
    """Enqueued inside a transaction of the caller's, which may still be rolled back."""
    confirmed: bool = True
    """False where the store's answer to the report was lost: whether the store counts the attempt so is not known."""


class WorkerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A worker starts to work, or has stopped."""

    name: WorkerEventName
    worker: str
    """The worker's name; the ids under which it registers begin with it."""
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None for all."""
    concurrency: int
    at: datetime
