"""The small history of what workers did: one row per minute, queue and task, kept for a day."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import astuple

from headgate.engine.contract import DAY, HISTORY_MINUTE, HISTORY_MOST, Done

Pair = tuple[str, str]
"""A queue and a task; both empty for what a busy minute sums up as others."""
OTHERS: Pair = ("", "")
HISTORY_KEPT = DAY + HISTORY_MINUTE
"""For how long a row is kept, from the begin of its minute."""


def minute_of(at: int) -> int:
    """The minute that a time belongs to."""
    return at - at % HISTORY_MINUTE


def row_for(done: Done, there: Collection[Pair]) -> Pair:
    """The row of its minute that counts it: its own, or that of the others where the minute has as many rows as it
    may."""
    pair = done.queue, done.task
    return pair if pair in there or len(there) < HISTORY_MOST else OTHERS


def numbers_of(done: Done) -> tuple[int, ...]:
    """All that is counted, in the order of the record."""
    return astuple(done)[3:]


def together(first: Done, second: Done) -> Done:
    """Both in one, as what the first is about."""
    return Done(
        first.at,
        first.queue,
        first.task,
        started=first.started + second.started,
        succeeded=first.succeeded + second.succeeded,
        failed=first.failed + second.failed,
        retried=first.retried + second.retried,
        cancelled=first.cancelled + second.cancelled,
        waited=first.waited + second.waited,
        longest=max(first.longest, second.longest),
        ran=first.ran + second.ran,
    )


def summed(rows: Iterable[Done], step: int, *, each: bool) -> list[Done]:
    """Rows by spans of `step`, in the order of time; with `each` apart by queue and task."""
    spans: dict[tuple[int, str, str], Done] = {}
    for row in rows:
        at, (queue, task) = row.at - row.at % step, (row.queue, row.task) if each else OTHERS
        sum = spans.get((at, queue, task), Done(at, queue, task))
        spans[at, queue, task] = together(sum, row)
    return [spans[span] for span in sorted(spans)]
