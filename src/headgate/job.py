"""Jobs: their states, what is enqueued, what is stored.

Times and durations are whole microseconds here; the public surface speaks datetimes and seconds. Arguments, results,
progress, metadata and headers are JSON texts that stores keep and never read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal

import msgspec

from headgate.keys import Use
from headgate.retry import RetryPolicy

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)

MAX_PRIORITY = 99
DEFAULT_PRIORITY = 50
INTERNAL_QUEUE = "headgate"
"""The queue of workers' own jobs (refreshes of floating limits): few, short, and first. No other job may use it."""


class JobState(StrEnum):
    """Where a job stands (docs/start.md)."""

    SCHEDULED = "scheduled"
    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless the job is restarted."""
        return self in ENDED


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
PENDING = frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.SCHEDULED: frozenset({JobState.READY, JobState.WAITING, JobState.CANCELLED}),
    JobState.READY: frozenset({JobState.RUNNING, JobState.WAITING, JobState.CANCELLED}),
    JobState.WAITING: frozenset({JobState.READY, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {
            JobState.SCHEDULED,
            JobState.READY,
            JobState.WAITING,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING}),
    JobState.CANCELLED: frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING}),
}
"""Every change of state there is. Only restart and re-import leave an ended state; nothing leaves `succeeded`."""

AttemptOutcome = Literal["succeeded", "failed", "cancelled", "lost", "snoozed", "released", "throttled"]
OnConflict = Literal["return", "raise", "replace", "update"]
Charge = Literal["starts", "time"]
"""What a fair share is charged for: each start, or the time for which attempts held their slots."""


class PastAttempt(msgspec.Struct, frozen=True, array_like=True):
    """One attempt that has ended."""

    number: int
    outcome: AttemptOutcome
    started_at: int
    ended_at: int
    worker: str = ""
    error: str | None = None


class NewJob(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """What is enqueued; R is what its task returns. `at` (a point in time) beats `delay` (from the store's now);
    neither means now. `start_by` and `start_within` likewise say until when it must have started, if ever.

    `at_most` bounds how long updates of a job with this unique key can put off its start; `unique_for` keeps its key
    taken for so long after its first start. `share` is whose part of the queue's starts the job belongs to."""

    id: str
    task: str
    queue: str = "default"
    args: str = "{}"
    tenant: str = ""
    priority: int = DEFAULT_PRIORITY
    delay: int = 0
    at: int | None = None
    uses: tuple[Use, ...] = ()
    retry: RetryPolicy = RetryPolicy()
    timeout: int | None = None
    unique: str | None = None
    on_conflict: OnConflict = "return"
    metadata: str | None = None
    retention: int | None = None
    headers: str | None = None
    start_within: int | None = None
    start_by: int | None = None
    at_most: int | None = None
    unique_for: int | None = None
    share: str | None = None
    charge: Charge = "starts"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A stored job as every engine shows it. `suspicion` and `lost` (rule 15) speak of unfinished jobs only; `start_by`
    of jobs that have not started."""

    id: str
    task: str
    queue: str
    args: str
    tenant: str
    priority: int
    state: JobState
    due: int
    enqueued_at: int
    uses: tuple[Use, ...]
    retry: RetryPolicy
    timeout: int | None
    unique: str | None
    metadata: str | None
    retention: int | None
    waiting_on: str | None
    attempt: int
    tries: int
    worker: str | None
    started_at: int | None
    ended_at: int | None
    cancel_requested: bool
    error: str | None
    result: str | None
    progress: str | None
    history: tuple[PastAttempt, ...]
    suspicion: int = 0
    lost: int = 0
    headers: str | None = None
    start_by: int | None = None
    share: str | None = None
    tag: int = 0
