"""From what becomes of attempts to the events that the app's listeners get.

The end of an attempt is told when the store has acknowledged it: a listener that looks at the job finds it as the event
says. Until then the event is kept here. Without listeners nothing is made and nothing kept. Jobs of Headgate's own
are not spoken of.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from headgate.clock import SECOND, from_us
from headgate.engine.contract import (
    Attempt,
    Failed,
    Known,
    LostJob,
    Outcome,
    Released,
    Report,
    Snoozed,
    Stopped,
    Succeeded,
    Throttled,
)
from headgate.hooks.delivery import Delivery
from headgate.hooks.enqueued import enqueued_event
from headgate.hooks.events import JobEvent, JobEventName
from headgate.hooks.listeners import Listeners
from headgate.job import INTERNAL_QUEUE, NewJob

LAST_WORDS = 5.0
"""Seconds that asynchronous listeners have at the end of a worker."""


class JobEvents:
    """The app's listeners, as one run of a worker tells them."""

    def __init__(self, listeners: Listeners | None = None) -> None:
        self.listeners = Listeners() if listeners is None else listeners
        self._delivery = Delivery(self.listeners)
        self._unconfirmed: dict[Known, JobEvent] = {}

    def tell(self, event: Any) -> None:
        """Tell the listeners now."""
        self._delivery.tell(event)

    def enqueued(self, jobs: Iterable[NewJob]) -> None:
        """The worker has enqueued jobs of periodic tasks."""
        if self.listeners:
            for job in jobs:
                self._delivery.tell(enqueued_event(job, job.id))

    def started(self, attempt: Attempt, worker: str) -> None:
        """An attempt begins."""
        if self.listeners and attempt.queue != INTERNAL_QUEUE:
            self._delivery.tell(_event("started", attempt, worker))

    def ended(
        self, attempt: Attempt, worker: str, outcome: Outcome, error: BaseException | None, seconds: float
    ) -> None:
        """An attempt has ended, and its outcome is about to be reported."""
        if self.listeners and attempt.queue != INTERNAL_QUEUE:
            name, text, wait = _read(outcome)
            self._unconfirmed[attempt.job, attempt.number] = _event(
                name,
                attempt,
                worker,
                ended_at=from_us(attempt.started_at + round(seconds * SECOND)),
                duration=seconds,
                error=text,
                exception=error,
                retry_in=None if wait is None else wait / SECOND,
            )

    def abandoned(self, attempt: Attempt, worker: str) -> None:
        """A running attempt is no longer this worker's."""
        if self.listeners and attempt.queue != INTERNAL_QUEUE:
            self._delivery.tell(_event("lost", attempt, worker, ended_at=datetime.now(UTC)))

    def failed_by_loss(self, jobs: Iterable[LostJob]) -> None:
        """Jobs have ended as failed since their workers were lost."""
        if self.listeners:
            for job in jobs:
                now = datetime.now(UTC)
                event = JobEvent(name="lost", job=job.id, task=job.task, ended_at=now, error=job.error)
                self._delivery.tell(event)

    def acknowledged(self, reports: Sequence[Report], refused: Sequence[Known]) -> None:
        """The store has answered to these reports; those that it refused were no longer this worker's."""
        if self._unconfirmed:
            for report in reports:
                known = report.job, report.attempt
                if type(report) in ENDS and (event := self._unconfirmed.pop(known, None)) is not None:
                    lost = known in refused
                    self._delivery.tell(msgspec.structs.replace(event, name="lost") if lost else event)

    def in_doubt(self, alive: Container[Known] = ()) -> None:
        """Reports about other attempts than these will not be sent again: whether they count is not known."""
        for known in [known for known in self._unconfirmed if known not in alive]:
            event = self._unconfirmed.pop(known)
            self._delivery.tell(msgspec.structs.replace(event, confirmed=False))

    async def close(self) -> None:
        """Nothing more will be told: wait for asynchronous listeners."""
        await self._delivery.close(LAST_WORDS)


ENDS = frozenset({Succeeded, Failed, Snoozed, Stopped, Released, Throttled})


def _read(outcome: Outcome) -> tuple[JobEventName, str | None, int | None]:
    """The name of an outcome's event, its error, and the microseconds until the next attempt."""
    match outcome:
        case Succeeded():
            return "succeeded", None, None
        case Failed(error=error, retry_in=None):
            return "failed", error, None
        case Failed(error=error, retry_in=wait):
            return "retried", error, wait
        case Snoozed(delay=delay):
            return "snoozed", None, delay
        case Throttled(delay=delay):
            return "throttled", None, delay
        case Stopped(error=error):
            return "cancelled", error, None
        case Released():
            return "released", None, None
        case _:
            assert_never(outcome)


def _event(name: JobEventName, attempt: Attempt, worker: str, **more: Any) -> JobEvent:
    due = attempt.due or attempt.enqueued_at
    enqueued_at = from_us(attempt.enqueued_at)
    return JobEvent(
        name=name,
        job=attempt.job,
        task=attempt.task,
        queue=attempt.queue,
        tenant=attempt.tenant or None,
        attempt=attempt.number,
        worker=worker,
        enqueued_at=enqueued_at,
        due=enqueued_at if due == attempt.enqueued_at else from_us(due),
        started_at=from_us(attempt.started_at),
        waiting=max(attempt.started_at - due, 0) / SECOND,
        **more,
    )
