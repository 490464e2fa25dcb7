"""How a store stands: queues, explanations, and all that the audit looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.engine.contract.limit_records import LimitStatus
from headgate.engine.contract.record import Record
from headgate.job import Job, JobState
from headgate.keys import Use


class QueueStatus(Record, frozen=True):
    """A queue as it stands. `oldest` is the earliest due time of its ready jobs. Where `exact` is False, the store
    stopped counting: the numbers are lower bounds."""

    name: str
    paused: bool
    scheduled: int
    ready: int
    waiting: int
    running: int
    oldest: int | None = None
    exact: bool = True


class JobPage(Record, frozen=True):
    """Some of the jobs that match, newest first. `rest` is the id after which to go on, None where all were looked
    at."""

    jobs: tuple[Job, ...]
    rest: str | None


class Totals(Record, frozen=True):
    """How many jobs stand in each state. `partial` names the states that the store stopped counting: their numbers are
    lower bounds."""

    counts: Mapping[JobState, int]
    partial: frozenset[JobState] = frozenset()


class Holder(Record, frozen=True):
    """Who holds a slot. `reserved` marks a waiting job's reservation (rule 7)."""

    job: str
    task: str
    worker: str | None
    since: int
    reserved: bool
    units: int = 1


class Waiter(Record, frozen=True):
    """A job that waits on a key, in the order in which it will be offered within its queue."""

    job: str
    task: str
    queue: str
    tenant: str
    priority: int
    due: int


class KeyStatus(Record, frozen=True):
    """One key as it stands: whether a job that needs it could start now, who holds it, who waits for it.

    `free` is how many slots or whole tokens are left now, None where nothing limits; `earliest` is when a rate key that
    has none will have one. `holders` and `waiters` are the first of them; `status` counts all, as far as it is exact.
    """

    status: LimitStatus
    free: int | None
    earliest: int | None
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Waiter, ...] = ()


class Rows(Record, frozen=True):
    """What a question in SQL came to; `more` where rows were left off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class Facts(Record, frozen=True):
    """All that explains why a job is where it is; the words are put together above the engines.

    For a waiting job: the limit it waits on, up to ten holders, what the key has `offered` to ready jobs of its queue,
    `place` (1 is next) among the waiters of its queue, and `earliest` for a rate. For a ready one: whether its queue is
    paused, how many live workers serve the queue, and how many of these know the task. `weight` is that of its share.
    """

    job: Job
    limit: LimitStatus | None
    holders: tuple[Holder, ...]
    offered: int
    place: int | None
    earliest: int | None
    paused: bool
    serving: int
    knowing: int
    now: int
    weight: float | None = None


class JobView(Record, frozen=True):
    """An unfinished job as the audit and the comparison of engines see it.

    `set_aside` because its task was unknown. A job that was set aside for lack of threads shows as it did before.
    """

    id: str
    state: JobState
    queue: str
    task: str
    order: tuple[int, int]
    due: int
    uses: tuple[Use, ...]
    waiting_on: str | None
    offered_by: str | None
    refusals: int | None
    worker: str | None
    attempt: int
    tries: int
    set_aside: bool
    suspicion: int = 0
    lost: int = 0
    tag: int = 0
    share: str | None = None
    start_by: int | None = None


class Snapshot(Record, frozen=True):
    """Everything that admission depends on, read at one instant. `uses` of a view include the caps of task and queue.

    `holders` maps a key to {job id: reserved}; `free` is what each key that is held or waited for has left (None:
    no limit); `timers` are the armed timers of rate keys; `most` is the largest number of tokens that each rate key
    with waiters can ever have (left out where there is no limit). `unsettled` are keys that the store has noted down
    to be looked at: the next claim or sweep offers what room they have.
    """

    jobs: tuple[JobView, ...]
    holders: Mapping[str, Mapping[str, bool]]
    free: Mapping[str, int | None]
    timers: Mapping[str, int]
    workers: frozenset[str]
    now: int
    most: Mapping[str, int] = {}
    unsettled: frozenset[str] = frozenset()
    units: Mapping[str, Mapping[str, int]] = {}
    """How many units of a key each of its holders has, where these are not one."""
    virtual: Mapping[tuple[str, int], int] | None = None
    """How far the shares of each queue and priority have come (rule 17): behind no job that runs. None where a store
    may leave that to the next start."""
    torn: bool = False
    """Whether it was read in several steps between which the store changed: a problem that it shows counts only if a
    second snapshot shows it, too."""
