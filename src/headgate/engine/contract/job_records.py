"""What is enqueued and imported, which jobs are meant, and what a change did to them."""

from __future__ import annotations

from headgate.engine.contract.record import Record
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Use


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


class Verdict(Record, frozen=True):
    """What a verb did to one job. `done` with the state after it; else the state that refused it, None if unknown."""

    id: str
    done: bool
    state: JobState | None


class NewArguments(Record, frozen=True):
    """What a job is restarted with instead of what it had: arguments as JSON, the keys that they need, and, for a job
    that has a share, the share that they belong to (None: it keeps its own)."""

    args: str
    uses: tuple[Use, ...] = ()
    share: str | None = None


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
