"""Blame (rule 15): which of the jobs that ran on a lost worker may have killed it. Decisions without a store.

A lost attempt is not yet its job's fault: a deploy kills workers, too, and a job that kills its process takes its
neighbours along. Each job has a level of `suspicion`, 0 at first. When a worker is lost, the most suspect of the jobs
that it ran become one level more suspect; all of them come back, uncounted, in their old place. Suspects are then
kept apart from each other (`Room`), so that each further loss points at fewer of them, until one stands alone.

A job fails by loss only if it was the *only* suspect of its worker and has been lost as often as its policy allows. A
suspect that has run for clearly longer than ever before when it was lost is cleared: something else was to blame. So is
one that ends. Levels of running attempts are read through `level`, so that clearing writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from headgate.clock import SECOND
from headgate.retry import RetryPolicy

KEPT_APART = 10
"""One in so many places of a worker may be taken by suspects of level 1, but always one."""


class Ran(Protocol):
    """A running job as blame sees it. `lost_after` is the longest time it had run when it was lost."""

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


def blame(jobs: Sequence[R], now: int, seen: int) -> list[Blamed]:
    """Judge all jobs that one lost worker ran, together.

    The worker died at some time between `seen`, when it last renewed its lease, and `now`. A job is cleared by the time
    that it surely ran, and has to run for longer than it possibly did.
    """
    levels = [level(job, seen) for job in jobs]
    top = max(levels, default=0)
    alone = top > 0 and levels.count(top) == 1
    return [_judge(job, now, mine, mine == top, alone) for job, mine in zip(jobs, levels, strict=True)]


def _judge(job: Ran, now: int, mine: int, blamed: bool, alone: bool) -> Blamed:
    ran = max(job.lost_after, now - (job.started_at or now))
    lost = job.lost + blamed
    fails = job.retry.losses == 0 or (blamed and alone and lost >= job.retry.losses)
    return Blamed(mine + blamed, lost, ran, fails)


class Room:
    """How many more suspects a worker may take on: a tenth of its places at level 1, or a single one above it."""

    def __init__(self, concurrency: int, running: Iterable[int]) -> None:
        """`running` are the levels of what it runs now."""
        suspects = [one for one in running if one > 0]
        self.empty = not suspects
        most = max(1, concurrency // KEPT_APART)
        self.left = 0 if any(one > 1 for one in suspects) else max(0, most - len(suspects))

    def first(self, suspects: Iterable[S]) -> list[S]:
        """The first of these that may be taken on together. Strictly in their order: one that does not fit holds back
        those behind it, or a grave suspect would wait for ever behind lighter ones."""
        fit: list[S] = []
        for job in suspects:
            if len(fit) >= self.left or (job.suspicion > 1 and (fit or not self.empty)):
                break
            fit.append(job)
            if job.suspicion > 1:
                break
        return fit
