"""A job as the embedded engines hold it while they work on it: every field, mutable."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engine.rules.blame import gravity
from headgate.job import AttemptOutcome, Job, JobState, NewJob, PastAttempt
from headgate.keys import Use
from headgate.rates import Spending
from headgate.retry import RetryPolicy

Order = tuple[int, int, int, int]

UNKNOWN_TASK, NO_THREAD = 1, 2
"""Why a ready job is set aside: out of the way of workers that do not know its task, or of claims that have no thread
for it."""

NOTHING_SPENT: Mapping[str, Spending] = {}
"""Never changed: what nearly all jobs have spent of estimated rates, without a dictionary for each."""


class Stored:
    """A job as it is kept."""

    __slots__ = (
        "attempt", "attempts", "cancel_requested", "due", "ended_at", "enqueued_at", "error", "expires_at", "id",
        "lost", "lost_after", "metadata", "offered_by", "outcome", "priority", "progress", "queue", "refusals",
        "result", "retry", "seq", "set_aside", "spec", "spent", "start_by", "started_at", "state", "suspicion", "tag",
        "task", "tenant", "tries", "unique_until", "units", "uses", "waiting_on", "worker",
    )  # fmt: skip

    def __init__(self, spec: NewJob, seq: int, enqueued_at: int, due: int) -> None:
        self.spec = spec
        self.seq = seq
        self.id = spec.id
        self.task = spec.task
        self.queue = spec.queue
        self.tenant = spec.tenant
        self.priority = spec.priority
        self.uses: tuple[Use, ...] = spec.uses
        self.retry: RetryPolicy = spec.retry
        self.enqueued_at = enqueued_at
        self.due = due
        self.state = JobState.SCHEDULED
        self.waiting_on: str | None = None
        self.offered_by: str | None = None
        self.units = 0
        self.refusals: int | None = None
        self.set_aside = 0
        self.attempt = 0
        self.tries = 0
        self.worker: str | None = None
        self.started_at: int | None = None
        self.ended_at: int | None = None
        self.outcome: AttemptOutcome | None = None
        self.cancel_requested = False
        self.error: str | None = None
        self.result: str | None = None
        self.progress: str | None = None
        self.expires_at: int | None = None
        self.attempts: tuple[PastAttempt, ...] = ()
        self.suspicion = 0
        self.lost = 0
        self.lost_after = 0
        self.tag = 0
        self.start_by = spec.start_by if spec.start_within is None else latest_start(spec, enqueued_at)
        self.unique_until: int | None = None
        self.spent = NOTHING_SPENT

    @property
    def order(self) -> Order:
        """Priority, fair-share tag, due time, arrival: the order in which jobs are claimed and offered (rule 16)."""
        return (self.priority, self.tag, self.due, self.seq)

    @property
    def suspect_order(self) -> tuple[int, ...]:
        """The order in which suspects are tried: gravest first."""
        return (-gravity(self.suspicion), *self.order)

    def shown(self) -> Job:
        """The public record."""
        return Job(
            id=self.id, task=self.task, queue=self.queue, args=self.spec.args, tenant=self.tenant,
            priority=self.priority, state=self.state, due=self.due, enqueued_at=self.enqueued_at, uses=self.uses,
            retry=self.retry, timeout=self.spec.timeout, unique=self.spec.unique, metadata=self.spec.metadata,
            retention=self.spec.retention, waiting_on=self.waiting_on, attempt=self.attempt, tries=self.tries,
            worker=self.worker, started_at=self.started_at, ended_at=self.ended_at,
            cancel_requested=self.cancel_requested, error=self.error, result=self.result, progress=self.progress,
            history=self.history(), suspicion=0 if self.state.ended else self.suspicion,
            lost=0 if self.state.ended else self.lost, headers=self.spec.headers, start_by=self.start_by,
            share=self.spec.share, tag=self.tag,
        )  # fmt: skip

    def history(self) -> tuple[PastAttempt, ...]:
        """Every attempt that has ended; the one that ended the job stands in the job's own fields."""
        return self.attempts if (last := self.last_attempt()) is None else (*self.attempts, last)

    def last_attempt(self) -> PastAttempt | None:
        """The attempt that ended the job, if one did."""
        if self.outcome is None or self.started_at is None or self.ended_at is None:
            return None
        return PastAttempt(
            self.attempt, self.outcome, self.started_at, self.ended_at, self.worker or "", self.error
        )


def latest_start(spec: NewJob, now: int) -> int | None:
    """Until when a job that is enqueued now must have started."""
    if spec.start_by is not None:
        return spec.start_by
    return None if spec.start_within is None else now + spec.start_within
