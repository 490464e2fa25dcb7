"""What a worker's attempts did, counted for the history: the store is told with the next heartbeat, once.

Walked twice for every job, so each walk is one look into a dictionary and a few additions. Minutes are the store's:
they are counted from the time at which it started the attempt.
"""

from __future__ import annotations

from typing import assert_never

from headgate.clock import SECOND
from headgate.engine.contract import (
    HISTORY_MINUTE,
    HISTORY_MOST,
    Attempt,
    Done,
    Failed,
    Outcome,
    Released,
    Snoozed,
    Stopped,
    Succeeded,
)
from headgate.job import INTERNAL_QUEUE

Place = tuple[int, str, str]
"""A minute since 1970, a queue and a task."""


class Counts:
    """One row of the history as it grows."""

    __slots__ = ("cancelled", "failed", "longest", "ran", "retried", "started", "succeeded", "waited")

    def __init__(self) -> None:
        self.started = self.succeeded = self.failed = self.retried = self.cancelled = 0
        self.waited = self.longest = self.ran = 0


class Tally:
    """Used on the thread of the event loop alone. Holds no more rows than a store keeps of a minute, and one row of
    others per minute: what is not fetched for long takes no more memory."""

    def __init__(self) -> None:
        self._rows: dict[Place, Counts] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def started(self, attempt: Attempt) -> None:
        """An attempt begins."""
        if attempt.queue == INTERNAL_QUEUE:
            return
        place = attempt.started_at // HISTORY_MINUTE, attempt.queue, attempt.task
        row = self._rows.get(place) or self._row(place)
        row.started += 1
        waited = attempt.started_at - (attempt.due or attempt.enqueued_at)
        if waited > 0:
            row.waited += waited
            row.longest = max(row.longest, waited)

    def ended(self, attempt: Attempt, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended so. One that is given back, or will be run later as it asked, counts as no end."""
        if attempt.queue == INTERNAL_QUEUE or isinstance(outcome, Released | Snoozed):
            return
        ran = round(seconds * SECOND)
        place = (attempt.started_at + ran) // HISTORY_MINUTE, attempt.queue, attempt.task
        row = self._rows.get(place) or self._row(place)
        match outcome:
            case Succeeded():
                row.succeeded += 1
            case Failed(retry_in=None):
                row.failed += 1
            case Failed():
                row.retried += 1
            case Stopped():
                row.cancelled += 1
            case _:
                assert_never(outcome)
        row.ran += ran

    def take(self) -> list[Done]:
        """What has been counted since the last time; it counts no more here, whatever becomes of it."""
        rows, self._rows = self._rows, {}
        return [
            Done(
                minute * HISTORY_MINUTE,
                queue,
                task,
                started=row.started,
                succeeded=row.succeeded,
                failed=row.failed,
                retried=row.retried,
                cancelled=row.cancelled,
                waited=row.waited,
                longest=row.longest,
                ran=row.ran,
            )
            for (minute, queue, task), row in rows.items()
        ]

    def _row(self, place: Place) -> Counts:
        if len(self._rows) >= HISTORY_MOST:
            place = place[0], "", ""
        return self._rows.setdefault(place, Counts())
