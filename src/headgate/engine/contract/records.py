"""The records that travel through the engine contract. `verbs.py` says what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from headgate.clock import SECOND
from headgate.job import Job, JobState, NewJob, PastAttempt
from headgate.keys import Use
from headgate.retry import RetryPolicy

LimitKind = Literal["concurrency", "rate", "floating"]
Algorithm = Literal["token_bucket", "leaky", "sliding_window"]

DAY = 24 * 3600 * SECOND


class Record(msgspec.Struct, frozen=True, gc=False):
    """A small frozen value. Never part of a cycle, so the garbage collector need not look at the thousands of them."""


# ── settings and limits ──────────────────────────────────────────────────────────────────────────────────────────────


class Settings(Record, frozen=True):
    """What an engine is opened with; the same for all processes of one deployment."""

    patience: int = 8
    reservation_ttl: int = 10 * SECOND
    keep_succeeded: int = DAY
    keep_failed: int = 14 * DAY
    keep_cancelled: int = 14 * DAY
    busy_timeout: int = 30 * SECOND
    timeout: int = 30 * SECOND
    """How long a verb may take before it raises EngineUnavailable; workers set a shorter one (deadline.py)."""


class Limit(Record, frozen=True):
    """A declared limit. `max` is the number at once, or the starts per `period`; None does not limit."""

    name: str
    kind: LimitKind
    max: int | None
    period: int = 0
    burst: int | None = None
    algorithm: Algorithm = "token_bucket"


class Override(Record, frozen=True):
    """An operator's word. It speaks for one key, one tenant's keys of a name, or a whole name.

    The most specific one wins: (name, value, tenant), (name, value), (name, tenant), (name).
    """

    name: str
    max: int | None
    value: str | None = None
    tenant: str | None = None
    by: str = ""
    at: int = 0
    why: str = ""
    until: int | None = None


class LimitStatus(Record, frozen=True):
    """A limit, or one key of it, as it stands. `key` is its text form; `declared` and `max` may differ by override
    or, for a floating limit, by what was computed.

    `held` and `waiting` of a limit as such are sums over its keys. In a page (`limit=`) a store stops counting once it
    has found a thousand of either; `exact` is False where it stopped, and the numbers are then lower bounds."""

    name: str
    key: str
    tenant: str
    kind: LimitKind
    max: int | None
    declared: int | None
    override: Override | None
    held: int
    waiting: int
    period: int = 0
    burst: int | None = None
    algorithm: Algorithm = "token_bucket"
    exact: bool = True


LimitPlace = tuple[str, str, str]
"""Name, key and tenant of a LimitStatus: its place in the listing of limits."""


class KeyInUse(Record, frozen=True):
    """A key of a floating limit that is held or waited for, and what was last computed for it."""

    key: str
    max: int | None
    held: int
    waiting: int
    computed_at: int | None


# ── enqueue ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Enqueued(Record, frozen=True):
    """`created` is False where an unfinished job with the same unique key was there and is returned instead."""

    id: str
    state: JobState
    created: bool


class ImportedJob(Record, frozen=True):
    """A job with its history. `attempts` are numbered 1, 2, 3 …, all ended, all but the last failed."""

    job: NewJob
    attempts: tuple[PastAttempt, ...] = ()
    enqueued_at: int | None = None


class ImportResult(Record, frozen=True):
    """What became of one imported record; `refused` says why nothing was changed."""

    id: str
    state: JobState | None
    refused: str | None = None


# ── workers and attempts ─────────────────────────────────────────────────────────────────────────────────────────────


class Worker(Record, frozen=True):
    """A worker as it registers. `queues` None serves every queue; `tasks` are the ones that it can run.

    `concurrency` also bounds how many suspects it runs at once (blame.py). `threaded` are those of its tasks that need
    a thread.
    """

    id: str
    tasks: frozenset[str]
    queues: tuple[str, ...] | None = None
    lease: int = 15 * SECOND
    host: str = ""
    pid: int = 0
    concurrency: int = 0
    threaded: frozenset[str] = frozenset()


class WorkerStatus(Record, frozen=True):
    """A registered worker as it stands."""

    worker: Worker
    registered_at: int
    lease_until: int
    running: int


class Attempt(Record, frozen=True):
    """A claimed job: all that a worker needs to run it. `tries` counts this attempt, too.

    `suspicion` is the job's level of suspicion (rule 15); 0 for nearly every job. `due` is when it could have started.
    """

    job: str
    number: int
    task: str
    queue: str
    args: str
    tenant: str
    priority: int
    tries: int
    retry: RetryPolicy
    timeout: int | None
    metadata: str | None
    enqueued_at: int
    started_at: int
    progress: str | None = None
    suspicion: int = 0
    due: int = 0
    headers: str | None = None


class Succeeded(Record, frozen=True):
    """The attempt returned; `result` is JSON."""

    job: str
    attempt: int
    result: str = "null"


class Failed(Record, frozen=True):
    """The attempt raised. `retry_in` None ends the job; a number sends it back after so many microseconds."""

    job: str
    attempt: int
    error: str
    retry_in: int | None = None


class Snoozed(Record, frozen=True):
    """The attempt asked to be run later; it does not count."""

    job: str
    attempt: int
    delay: int


class Stopped(Record, frozen=True):
    """The attempt ended as cancelled: by request, or by its own CancelJob."""

    job: str
    attempt: int
    error: str | None = None


class Released(Record, frozen=True):
    """The worker shuts down and gives the job back as it was; it does not count."""

    job: str
    attempt: int


class Progress(Record, frozen=True):
    """A running attempt reports how far it is; ends nothing. `value` is JSON."""

    job: str
    attempt: int
    value: str


Outcome = Succeeded | Failed | Snoozed | Stopped | Released
Report = Outcome | Progress


class Exchanged(Record, frozen=True):
    """The answer to an exchange.

    `refused` are the reports (job, attempt) that matched no running attempt of this worker. `cancelling` are the jobs
    this worker runs for which a cancel was asked. `next_due` is when a sweep will next have work. `more` says that it
    stopped looking before it had all it wanted, so that it pays to ask again at once. `set_aside` names the
    tasks of jobs that this exchange set aside because the worker does not know them. `parked` names the limits that
    refused jobs which this exchange wanted to start, with how many each.
    """

    attempts: tuple[Attempt, ...]
    refused: tuple[tuple[str, int], ...]
    cancelling: tuple[str, ...]
    next_due: int | None
    more: bool
    now: int
    set_aside: tuple[str, ...] = ()
    parked: tuple[tuple[str, int], ...] = ()


class Beat(Record, frozen=True):
    """The answer to a heartbeat."""

    cancelling: tuple[str, ...]
    now: int


Known = tuple[str, int]
"""A job id and an attempt number: together they name one run."""


class Resumed(Record, frozen=True):
    """The answer to `resume_worker`: which of the pairs that the worker named are still its own, how many attempts
    that it did not name were taken back, and which of its jobs were asked to stop."""

    alive: tuple[Known, ...]
    taken_back: int
    cancelling: tuple[str, ...]
    now: int


class LostJob(Record, frozen=True):
    """A job that ended as failed because it was lost with its worker too often."""

    id: str
    task: str
    error: str


class Lost(Record, frozen=True):
    """What became of lost workers' attempts: how many there were, and the jobs that failed by it."""

    attempts: int
    failed: tuple[LostJob, ...] = ()


class Swept(Record, frozen=True):
    """What a sweep did; `more` when a bound was reached and another sweep at once would find work.

    `failed` are the jobs that ended as failed because their worker was lost.
    """

    due: int
    lost: int
    offered: int
    expired: int
    more: bool
    next_due: int | None
    now: int
    failed: tuple[LostJob, ...] = ()


class Rechecked(Record, frozen=True):
    """One slice of self-healing (rule 20). `healed` are sentences about what was wrong and has been mended: each of
    them means a defect somewhere. `after` continues with the next slice; None at the end."""

    healed: tuple[str, ...]
    after: str | None


# ── changes to jobs ──────────────────────────────────────────────────────────────────────────────────────────────────


class Verdict(Record, frozen=True):
    """What a verb did to one job. `done` with the state after it; else the state that refused it, None if unknown."""

    id: str
    done: bool
    state: JobState | None


class NewArguments(Record, frozen=True):
    """What a job is restarted with instead of what it had: arguments as JSON, and the keys that they need."""

    args: str
    uses: tuple[Use, ...] = ()


class Filter(Record, frozen=True):
    """Which jobs to find; what is None does not matter, an empty tuple matches nothing.

    `waiting_on` is a key's text form: `name=value` finds the jobs that wait on this key, of any tenant or shared;
    `name` alone those that wait on any key of the limit. `error` is a text that the first line of the job's error
    contains. `ended_since` and `ended_until` (the latter exclusive) find ended jobs only.
    """

    states: tuple[JobState, ...] | None = None
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    waiting_on: str | None = None
    ids: tuple[str, ...] | None = None
    unique: str | None = None
    error: str | None = None
    ended_since: int | None = None
    ended_until: int | None = None


class QueueStatus(Record, frozen=True):
    """A queue as it stands. `oldest` is the earliest due time of its ready jobs."""

    name: str
    paused: bool
    scheduled: int
    ready: int
    waiting: int
    running: int
    oldest: int | None = None


# ── explanations and audit ───────────────────────────────────────────────────────────────────────────────────────────


class Holder(Record, frozen=True):
    """Who holds a slot. `reserved` marks a waiting job's reservation (rule 7)."""

    job: str
    task: str
    worker: str | None
    since: int
    reserved: bool


class Facts(Record, frozen=True):
    """All that explains why a job is where it is; the words are put together above the engines.

    For a waiting job: the limit it waits on, up to ten holders, what the key has `offered` to ready jobs of its queue,
    `place` (1 is next) among the waiters of its queue, and `earliest` for a rate. For a ready one: whether its queue is
    paused, how many live workers serve the queue, and how many of these know the task.
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


class JobView(Record, frozen=True):
    """An unfinished job as the audit and the comparison of engines see it."""

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
    torn: bool = False
    """Whether it was read in several steps between which the store changed: a problem that it shows counts only if a
    second snapshot shows it, too."""
