"""Records of the contract as rows of the tables, with their columns in the order of `tables.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headgate.clock import from_us
from headgate.engine.contract import (
    Holder,
    LimitStatus,
    Override,
    QueueStatus,
    WorkerStatus,
)
from headgate.job import Job
from headgate.keys import Key

Row = tuple[Any, ...]


def time_text(at: int | None) -> str | None:
    """A time as tables show it."""
    return None if at is None else f"{from_us(at):%Y-%m-%dT%H:%M:%S.%f}Z"


def job_row(job: Job) -> Row:
    """One job."""
    return (
        job.id, job.state.value, job.task, job.queue, job.tenant, job.priority, time_text(job.due),
        time_text(job.enqueued_at), time_text(job.started_at), time_text(job.ended_at), job.attempt, job.tries,
        job.worker, None if job.waiting_on is None else Key.of(job.waiting_on).text, job.unique, job.cancel_requested,
        job.error, job.args, job.result, job.progress, job.metadata, job.headers,
        job.share, time_text(job.start_by),
    )  # fmt: skip


def attempt_rows(job: Job) -> list[Row]:
    """The attempts of a job that have ended."""
    return [
        (job.id, past.number, past.outcome, time_text(past.started_at), time_text(past.ended_at), past.worker,
         past.error)
        for past in job.history
    ]  # fmt: skip


def holder_row(key: Key, holder: Holder, queue: str | None) -> Row:
    """What holds a slot; its queue is not part of the record."""
    return (
        key.text, key.name, key.tenant, holder.job, holder.task, queue, holder.worker, time_text(holder.since),
        holder.reserved, holder.units,
    )  # fmt: skip


def waiter_row(job: Job) -> Row:
    """A job that waits."""
    assert job.waiting_on is not None
    key = Key.of(job.waiting_on)
    return (key.text, key.name, key.tenant, job.id, job.task, job.queue, job.priority, time_text(job.due))


def limit_row(status: LimitStatus) -> Row:
    """A limit, or one key of it."""
    rate = (status.period, status.burst, status.algorithm) if status.kind == "rate" else (None, None, None)
    return (
        status.key, status.name, status.tenant, status.kind, status.max, status.declared, status.held, status.waiting,
        *rate,
    )  # fmt: skip


def override_rows(statuses: Iterable[LimitStatus]) -> list[Row]:
    """The overrides that a whole listing of limits names: each stands in the line of what it speaks for."""
    overrides = dict.fromkeys(status.override for status in statuses if status.override is not None)
    return [override_row(override) for override in overrides]


def override_row(override: Override) -> Row:
    """What an operator has set."""
    key = Key(override.name, override.value)
    return (
        key.text, override.name, override.tenant or "", override.max, override.by, time_text(override.at),
        override.why, time_text(override.until),
    )  # fmt: skip


def queue_row(queue: QueueStatus) -> Row:
    """A queue."""
    return (
        queue.name, queue.paused, queue.scheduled, queue.ready, queue.waiting, queue.running, time_text(queue.oldest)
    )  # fmt: skip


def worker_row(status: WorkerStatus) -> Row:
    """A worker."""
    worker = status.worker
    return (
        worker.id, worker.host, worker.pid, _json(worker.queues), _json(sorted(worker.tasks)), worker.concurrency,
        status.running, time_text(status.registered_at), time_text(status.lease_until),
    )  # fmt: skip


def _json(names: Sequence[str] | None) -> str | None:
    return None if names is None else msgspec.json.encode(names).decode()
