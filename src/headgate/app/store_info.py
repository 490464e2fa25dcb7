"""How a store stands, as people see it: totals, one key with all that holds it and waits for it, history, SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headgate.app.info import Info, LimitInfo, limit_info
from headgate.clock import SECOND, from_us
from headgate.engine.contract import Done, Holder, KeyStatus, Totals, Waiter
from headgate.job import JobState


class TotalsInfo(Info, frozen=True):
    """How many jobs stand in each state. `partial` names the states whose jobs were not all counted: their numbers are
    lower bounds."""

    scheduled: int = 0
    ready: int = 0
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    partial: tuple[JobState, ...] = ()


def totals_info(totals: Totals) -> TotalsInfo:
    """Totals for people."""
    partial = tuple(state for state in JobState if state in totals.partial)
    return TotalsInfo(**{state.value: count for state, count in totals.counts.items()}, partial=partial)


class HolderInfo(Info, frozen=True):
    """A job that holds slots, `units` of them. `reserved` marks one that waits for another key and keeps this one
    meanwhile."""

    job: str
    task: str
    worker: str | None
    since: datetime
    reserved: bool
    units: int = 1


class WaiterInfo(Info, frozen=True):
    """A job that waits for a key."""

    job: str
    task: str
    queue: str
    tenant: str | None
    priority: int
    due: datetime


class KeyInfo(Info, frozen=True):
    """One key of a limit. `free` is how many slots or whole tokens are left now, None where nothing limits; `earliest`
    when a rate that has none left will have one.

    `holders`, longest first, and `waiters`, in the order in which they come, are the first of them; `limit` counts
    all. `needed` is how many slots or tokens the job takes whose keys were asked for, else 1.
    """

    limit: LimitInfo
    free: int | None
    earliest: datetime | None
    holders: tuple[HolderInfo, ...]
    waiters: tuple[WaiterInfo, ...]
    needed: int = 1

    @property
    def has_room(self) -> bool:
        """Whether it would admit a job now."""
        return self.free is None or self.free >= self.needed


def key_info(status: KeyStatus, needed: int = 1) -> KeyInfo:
    """A key's status for people."""
    return KeyInfo(
        limit=limit_info(status.status),
        free=status.free,
        earliest=None if status.earliest is None else from_us(status.earliest),
        holders=tuple(_holder(holder) for holder in status.holders),
        waiters=tuple(_waiter(waiter) for waiter in status.waiters),
        needed=needed,
    )


def _holder(holder: Holder) -> HolderInfo:
    return HolderInfo(
        job=holder.job,
        task=holder.task,
        worker=holder.worker,
        since=from_us(holder.since),
        reserved=holder.reserved,
        units=holder.units,
    )


def _waiter(waiter: Waiter) -> WaiterInfo:
    return WaiterInfo(
        job=waiter.job,
        task=waiter.task,
        queue=waiter.queue,
        tenant=waiter.tenant or None,
        priority=waiter.priority,
        due=from_us(waiter.due),
    )


class HistoryInfo(Info, frozen=True):
    """What was done in the span of time that begins at `at`. `queue` and `task` are None where all are summed up, and
    for what a busy minute summed up as others.

    `waited` sums the seconds that the started jobs had been due, `longest` is the longest of these waits, `ran` sums
    how long the ended attempts took. An attempt that failed and is tried again is retried, not failed.
    """

    at: datetime
    queue: str | None
    task: str | None
    started: int
    succeeded: int
    failed: int
    retried: int
    cancelled: int
    waited: float
    longest: float
    ran: float


def history_info(done: Done) -> HistoryInfo:
    """A span of history for people."""
    return HistoryInfo(
        at=from_us(done.at),
        queue=done.queue or None,
        task=done.task or None,
        started=done.started,
        succeeded=done.succeeded,
        failed=done.failed,
        retried=done.retried,
        cancelled=done.cancelled,
        waited=done.waited / SECOND,
        longest=done.longest / SECOND,
        ran=done.ran / SECOND,
    )


class SqlResult(Info, frozen=True):
    """The answer to a question in SQL. `more` says that rows were left off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool
