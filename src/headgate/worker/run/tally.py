"""What a worker's attempts did, counted for the history: the store is told with the next heartbeat, once.

Walked for every job, so it is one look into a dictionary and a few additions: an attempt is counted when it ends, and
when a heartbeat finds it running, its start is counted then. Minutes are the store's: they are counted from the time at
which it started the attempt.
"""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import (
    HISTORY_MINUTE,
    HISTORY_MOST,
    Attempt,
    Done,
    Failed,
    Outcome,
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

    def started(self, attempt: Attempt) -> None:
        """An attempt that has not ended yet has begun."""
        if attempt.queue != INTERNAL_QUEUE:
            minute = attempt.started_at // HISTORY_MINUTE
            self._start(self._row((minute, attempt.queue, attempt.task)), attempt)

    def ended(self, attempt: Attempt, outcome: Outcome, seconds: float, *, begun: bool) -> None:
        """An attempt has ended so; `begun` says that its start was counted already. One that is given back, or will be
        run later as it asked, counts as no end."""
        queue = attempt.queue
        if queue == INTERNAL_QUEUE:
            return
        ran, started = int(seconds * SECOND), attempt.started_at
        minute = (started + ran) // HISTORY_MINUTE
        place = minute, queue, attempt.task
        row = self._rows.get(place) or self._row(place)
        if not begun:
            first = started // HISTORY_MINUTE
            self._start(row if first == minute else self._row((first, queue, attempt.task)), attempt)
        kind = type(outcome)
        if kind is Succeeded:
            row.succeeded += 1
        elif isinstance(outcome, Failed):
            row.failed += outcome.retry_in is None
            row.retried += outcome.retry_in is not None
        elif kind is Stopped:
            row.cancelled += 1
        else:
            return
        row.ran += ran

    def _start(self, row: Counts, attempt: Attempt) -> None:
        row.started += 1
        waited = attempt.started_at - (attempt.due or attempt.enqueued_at)
        if waited > 0:
            row.waited += waited
            if waited > row.longest:
                row.longest = waited

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
        row = self._rows.get(place)
        if row is None:
            if len(self._rows) >= HISTORY_MOST:
                place = place[0], "", ""
            row = self._rows.setdefault(place, Counts())
        return row
