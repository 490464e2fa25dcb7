"""What becomes of a job when something happens to it: decisions without a store.

Each function answers with a small record; the engines write it down, and admission does the rest.
"""

from __future__ import annotations

from typing import Protocol, assert_never

import msgspec

from headgate.engine.contract import (
    Failed,
    ImportedJob,
    Outcome,
    Released,
    Settings,
    Snoozed,
    Stopped,
    Succeeded,
    Throttled,
)
from headgate.engine.rules.blame import Blamed
from headgate.job import AttemptOutcome, JobState, NewJob, PastAttempt
from headgate.retry import RetryPolicy


class Running(Protocol):
    """A running job as these decisions see it."""

    @property
    def cancel_requested(self) -> bool: ...
    @property
    def due(self) -> int: ...
    @property
    def tries(self) -> int: ...
    @property
    def retry(self) -> RetryPolicy: ...


class End(msgspec.Struct, frozen=True):
    """The job ends in `state`; `outcome` is how the attempt is remembered."""

    state: JobState
    outcome: AttemptOutcome
    error: str | None = None
    result: str | None = None


class Again(msgspec.Struct, frozen=True):
    """The job comes back at `due`; `counts` says whether the attempt is held against the retry policy."""

    due: int
    outcome: AttemptOutcome
    counts: bool
    error: str | None = None


LOST = "the worker was lost while it ran this job"
POISON = "lost {} times with its worker, the last time as the only suspect: it probably kills its process"
AT_MOST_ONCE = "lost with its worker, and its policy allows no loss"


def settle(job: Running, outcome: Outcome, now: int) -> End | Again:
    """How an attempt's outcome moves its job. A cancel that was asked for wins over everything but success."""
    match outcome:
        case Succeeded():
            return End(JobState.SUCCEEDED, "succeeded", result=outcome.result)
        case Stopped():
            return End(JobState.CANCELLED, "cancelled", outcome.error)
        case Failed():
            if job.cancel_requested:
                return End(JobState.CANCELLED, "failed", outcome.error)
            if outcome.retry_in is None:
                return End(JobState.FAILED, "failed", outcome.error)
            return Again(now + outcome.retry_in, "failed", True, outcome.error)
        case Snoozed():
            if job.cancel_requested:
                return End(JobState.CANCELLED, "snoozed")
            return Again(now + outcome.delay, "snoozed", False)
        case Throttled():
            if job.cancel_requested:
                return End(JobState.CANCELLED, "throttled")
            return Again(min(job.due, now), "throttled", False)
        case Released():
            if job.cancel_requested:
                return End(JobState.CANCELLED, "released")
            return Again(min(job.due, now), "released", False)
        case _:
            assert_never(outcome)


def lose(job: Running, blamed: Blamed, now: int) -> End | Again:
    """The worker is gone. The attempt does not count; the job takes its old place again, unless it is to blame."""
    if job.cancel_requested:
        return End(JobState.CANCELLED, "lost", LOST)
    if blamed.fails:
        why = POISON.format(blamed.lost) if job.retry.losses else AT_MOST_ONCE
        return End(JobState.FAILED, "lost", why)
    return Again(min(job.due, now), "lost", False, LOST)


BACK_AS_THEY_WERE = frozenset({"lost", "released", "throttled"})
"""Outcomes after which a job takes its old place again: it did not come to an end by itself."""


class Unique(Protocol):
    """A job with a unique key."""

    @property
    def state(self) -> JobState: ...
    @property
    def attempt(self) -> int: ...
    @property
    def spec(self) -> NewJob: ...
    @property
    def unique_until(self) -> int | None: ...


def keeps_unique(job: Unique) -> bool:
    """Whether a job's unique key is taken: until it ends, or as long after its start as it asked for. One that updates
    may replace gives its key free when it starts."""
    if job.spec.unique is None:
        return False
    if job.state.ended:
        return job.unique_until is not None
    return job.spec.on_conflict != "update" or job.attempt == 0


def expires_at(state: JobState, retention: int | None, settings: Settings, now: int) -> int:
    """When retention may delete a job that ends now."""
    if retention is not None:
        return now + retention
    keep = {
        JobState.SUCCEEDED: settings.keep_succeeded,
        JobState.FAILED: settings.keep_failed,
        JobState.CANCELLED: settings.keep_cancelled,
    }
    return now + keep[state]


class Existing(msgspec.Struct, frozen=True):
    """What an import needs to know of a job that is there already."""

    state: JobState
    attempts: tuple[PastAttempt, ...]
    due: int


class Taken(msgspec.Struct, frozen=True):
    """An import is taken. `state` SCHEDULED means: comes at `due` (at once if past) through the normal admission.

    `tries` are the attempts that count so far.
    """

    state: JobState
    due: int
    tries: int
    attempts: tuple[PastAttempt, ...]


def take_import(record: ImportedJob, existing: Existing | None, now: int) -> Taken | str:
    """Decide on one imported record; a text says why it is refused."""
    if (wrong := _wrong_attempts(record.attempts)) is not None:
        return wrong
    if existing is not None and (refusal := _wrong_reimport(record, existing)) is not None:
        return refusal
    if not record.attempts:
        return Taken(JobState.SCHEDULED, _first_due(record, now), 0, ())
    last, policy = record.attempts[-1], record.job.retry
    tries = len(record.attempts)
    if last.outcome in ("succeeded", "cancelled"):
        return Taken(JobState(last.outcome), last.ended_at, tries, record.attempts)
    if tries >= policy.attempts:
        return Taken(JobState.FAILED, last.ended_at, tries, record.attempts)
    return Taken(JobState.SCHEDULED, last.ended_at + policy.wait(tries), tries, record.attempts)


def _first_due(record: ImportedJob, now: int) -> int:
    if record.job.at is not None:
        return record.job.at
    start = record.enqueued_at if record.enqueued_at is not None else now
    return start + record.job.delay


def _wrong_attempts(attempts: tuple[PastAttempt, ...]) -> str | None:
    for number, attempt in enumerate(attempts, 1):
        if attempt.number != number:
            return f"attempts must be numbered 1, 2, 3 …; found {attempt.number} where {number} was expected"
        if attempt.outcome not in ("succeeded", "failed", "cancelled"):
            return f"attempt {number} has outcome {attempt.outcome!r}; imported ones are succeeded, failed or cancelled"
        if number < len(attempts) and attempt.outcome != "failed":
            return (
                f"attempt {number} is {attempt.outcome!r}, but only the last one may be anything but failed"
            )
        if attempt.ended_at < attempt.started_at:
            return f"attempt {number} ends before it starts"
    return None


def _wrong_reimport(record: ImportedJob, existing: Existing) -> str | None:
    if existing.state in (JobState.RUNNING, JobState.SUCCEEDED):
        return f"the job exists and is {existing.state}"
    stored, given = existing.attempts, record.attempts
    if len(given) < len(stored) or any(not same_attempt(a, b) for a, b in zip(stored, given, strict=False)):
        return "the stored attempts differ from the imported ones"
    if len(given) == len(stored):
        return "nothing in it is new"
    return None


def same_attempt(stored: PastAttempt, given: PastAttempt) -> bool:
    """Whether an imported attempt is the stored one: same number, outcome and times."""
    ours = (stored.number, stored.outcome, stored.started_at, stored.ended_at)
    return ours == (given.number, given.outcome, given.started_at, given.ended_at)
