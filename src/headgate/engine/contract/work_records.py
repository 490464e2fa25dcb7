"""What travels between a worker and its store: registration, claims, reports, leases."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract.record import Record
from headgate.retry import RetryPolicy


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
    `keys` are those that the job itself needs, without the caps of its task and queue; None where that is not told.
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
    keys: tuple[str, ...] | None = None


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


class Throttled(Record, frozen=True):
    """A service that the attempt called said: not now. The job comes back as it was, uncounted, and its keys of limit
    `name` are closed for everybody for `delay`; without a name its rate keys, else its concurrency keys that are no
    caps. A job without such a key is snoozed."""

    job: str
    attempt: int
    delay: int
    name: str | None = None


class Spent(Record, frozen=True):
    """A running attempt says what it really spent of its key of an estimated rate limit; ends nothing. The last word
    counts. What its job does not use is passed over."""

    job: str
    attempt: int
    name: str
    units: int


class Progress(Record, frozen=True):
    """A running attempt reports how far it is; ends nothing. `value` is JSON."""

    job: str
    attempt: int
    value: str


Outcome = Succeeded | Failed | Snoozed | Stopped | Released | Throttled
Report = Outcome | Progress | Spent


class Exchanged(Record, frozen=True):
    """The answer to an exchange.

    `refused` are the reports (job, attempt) that matched no running attempt of this worker. `cancelling` are the jobs
    this worker runs for which a cancel was asked. `next_due` is when a sweep will next have work. `more` says that it
    stopped looking before it had all it wanted, so that it pays to ask again at once. `set_aside` names the
    tasks of jobs that this exchange set aside because the worker does not know them. `parked` names the limits that
    refused jobs which this exchange wanted to start, with how many each, in the order of their names.
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


HISTORY_MINUTE = 60 * SECOND
HISTORY_MOST = 200
"""Pairs of queue and task that the history tells apart in one minute. What is beyond counts in a row with empty names:
there may be a queue per customer."""


class Done(Record, frozen=True):
    """What was done in one span of time, a minute as workers report it, for the jobs of one task in one queue.

    `waited` sums for how long the started jobs had been due, `longest` is the longest of these, and `ran` sums how long
    the ended attempts took. An attempt that fails and will be tried again is retried, not failed.
    """

    at: int
    queue: str
    task: str
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    waited: int = 0
    longest: int = 0
    ran: int = 0


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
