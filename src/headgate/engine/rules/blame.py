"""Blame (rule 15): which of the jobs that ran on a lost worker may have killed it. Decisions without a store.

A lost attempt is not yet its job's fault: a deploy kills workers, too, and a job that kills its process takes its
neighbours along. So a lost attempt does not count, and its job takes its old place again; but it has become one level
more *suspect*. A suspect that has then run for clearly longer than before when it was lost is cleared: something else
was to blame. So is one that ends. What remains is run with ever less company, until one stands alone:

    level 0      nearly every job
    level 1      was lost once, perhaps by a deploy: runs like any other, but not beside a grave suspect
    level 2      at most a tenth of a worker's places
    level 3, 4   grave: no other suspect beside it; tried before lighter suspects, so that the matter is soon decided

From level 3 on only a loss as the *only* suspect of a worker raises the level. A job fails by loss when it was lost
so at level 4, and as often as its policy allows: one guilty job among many innocent ones is found after five losses.

Levels of running attempts are read through `level`, so that clearing writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from headgate.clock import SECOND
from headgate.retry import RetryPolicy

APART = 2
GRAVE = 3
GUILTY = 5
"""The levels from which a suspect is kept apart from most others, from all others, and at which it fails."""
KEPT_APART = 10
"""One in so many places of a worker may be taken by suspects of level 2, but always one."""


class Ran(Protocol):
    """A running job as blame sees it. `lost` counts its losses since it was last clear of suspicion, `lost_after` is
    the longest time that it can have run in one of them."""

    @property
    def suspicion(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def lost_after(self) -> int: ...
    @property
    def started_at(self) -> int | None: ...
    @property
    def retry(self) -> RetryPolicy: ...


class Suspected(Protocol):
    """A ready suspect."""

    @property
    def suspicion(self) -> int: ...


R = TypeVar("R", bound=Ran)
S = TypeVar("S", bound=Suspected)


class Blamed(msgspec.Struct, frozen=True):
    """What a lost worker means for one of its jobs: its new record, and whether the job fails by it."""

    suspicion: int
    lost: int
    lost_after: int
    fails: bool


def cleared_after(lost_after: int) -> int:
    """How long a suspect must run to be cleared: a quarter, and at least a second, longer than before. The same
    fault does not strike at the same microsecond twice."""
    return lost_after + max(SECOND, lost_after // 4)


def level(job: Ran, now: int) -> int:
    """How suspect a running job is now."""
    if job.suspicion == 0 or job.started_at is None:
        return job.suspicion
    return 0 if now - job.started_at > cleared_after(job.lost_after) else job.suspicion


def died_by(seen: int, lease: int, now: int) -> int:
    """When a worker that was last `seen` alive was dead at the latest: it renews its lease three times in it."""
    return min(now, seen + lease // 2)


def blame(jobs: Sequence[R], seen: int, died: int) -> list[Blamed]:
    """Judge all jobs that one lost worker ran, together.

    The worker died between `seen`, when it last renewed its lease, and `died`. A job is cleared by the time that it
    surely ran, and has to run for longer than it possibly did.
    """
    company = sum(level(job, died) > 0 for job in jobs)
    return [_judge(job, seen, died, company - (level(job, died) > 0)) for job in jobs]


def _judge(job: Ran, seen: int, died: int, others: int) -> Blamed:
    """`others` is how many other suspects ran beside it."""
    before = level(job, seen)
    alone = before > 0 and others == 0
    suspicion = before + 1 if before < GRAVE or alone else GRAVE
    lost = job.lost + 1 if before else 1
    ran = max(job.lost_after if before else 0, died - (job.started_at or died))
    most = job.retry.losses
    fails = most == 0 or (alone and lost >= most and suspicion >= min(GUILTY, most))
    return Blamed(suspicion, lost, ran, fails)


def gravity(suspicion: int) -> int:
    """The order in which suspects are tried: larger first, then as other jobs."""
    return min(suspicion, GRAVE)


class Room:
    """Which suspects a worker may take on beside those that it runs."""

    def __init__(self, concurrency: int, running: Iterable[int]) -> None:
        """`running` are the levels of what it runs now."""
        suspects = [one for one in running if one > 0]
        self.empty = not suspects
        self.closed = any(one >= GRAVE for one in suspects)
        self.apart = max(1, concurrency // KEPT_APART) - sum(one >= APART for one in suspects)

    def first(self, suspects: Iterable[S]) -> list[S]:
        """The first of these, given gravest first, that may be taken on together. One that does not fit holds back
        those behind it: the worker takes on no lighter suspects until it has room for the grave one."""
        fit: list[S] = []
        for job in suspects:
            if self.closed or not self._admits(job, fit):
                break
            fit.append(job)
            self.closed = job.suspicion >= GRAVE
            self.apart -= job.suspicion >= APART
        return fit

    def _admits(self, job: Suspected, fit: Sequence[Suspected]) -> bool:
        if job.suspicion >= GRAVE:
            return self.empty and not fit
        return job.suspicion < APART or self.apart > 0
