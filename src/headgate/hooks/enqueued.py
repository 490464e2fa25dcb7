"""The event `enqueued`: what a producer tells once the store has taken a job."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.clock import from_us, now_us
from headgate.engine.contract import Enqueued
from headgate.hooks.events import JobEvent
from headgate.hooks.listeners import Listeners
from headgate.job import NewJob


def enqueued_event(job: NewJob, id: str, *, within_transaction: bool = False) -> JobEvent:
    """The event of one new job. The times are those of this machine's clock: the store's are not asked for."""
    now = now_us()
    return JobEvent(
        name="enqueued",
        job=id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant or None,
        enqueued_at=from_us(now),
        due=from_us(job.at if job.at is not None else now + job.delay),
        within_transaction=within_transaction,
    )


async def tell_enqueued(
    listeners: Listeners, jobs: Sequence[NewJob], stored: Sequence[Enqueued], *, within_transaction: bool
) -> None:
    """Tell the listeners of the jobs that are new; one that was there already under its unique key is not."""
    if listeners.of("enqueued"):
        for job, one in zip(jobs, stored, strict=True):
            if one.created:
                event = enqueued_event(job, one.id, within_transaction=within_transaction)
                await listeners.tell_and_wait(event)
