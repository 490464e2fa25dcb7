"""Rows of the jobs table as the records that the steps work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headgate.engine.contract import Attempt
from headgate.engine.sqlite.connection import Values
from headgate.engine.stored import Stored
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Use
from headgate.retry import RetryPolicy

_read_uses: Callable[[str], tuple[Use, ...]] = lru_cache(10_000)(msgspec.json.Decoder(tuple[Use, ...]).decode)
_encode = msgspec.json.Encoder().encode
_read_retry: Callable[[str], RetryPolicy] = lru_cache(1000)(msgspec.json.Decoder(RetryPolicy).decode)
_STATES = {state.value: state for state in JobState}


def to_json(value: Any) -> str:
    """JSON as SQLite wants it: text, since bytes would be taken for its binary form."""
    return _encode(value).decode()


write_retry: Callable[[RetryPolicy], str] = lru_cache(1000)(to_json)


def read_uses(text: str | None) -> tuple[Use, ...]:
    """A job's keys; most jobs without limits have none."""
    return _read_uses(text) if text is not None else ()


class Candidate:
    """A pending job as a claim or an offer sees it: less than the whole row, since there may be many.

    `row` comes from waiters.sql or claimable.sql; `uses` are its keys with the caps of its task and queue.
    """

    __slots__ = (
        "id", "offered_by", "order", "queue", "refusals", "row", "seq", "task", "units", "uses", "waiting_on",
    )  # fmt: skip

    def __init__(
        self, row: Values, uses: tuple[Use, ...], waiting_on: str | None, offered_by: str | None
    ) -> None:
        (
            self.seq, self.id, self.task, self.queue, _, _, priority, due, _, _, _, _, _, _, _, _, _, self.units,
            self.refusals,
        ) = row  # fmt: skip
        self.order = priority, due, self.seq
        self.uses = uses
        self.waiting_on = waiting_on
        self.offered_by = offered_by
        self.row = row

    def attempt(self, now: int) -> Attempt:
        """What the worker gets, once it is started."""
        (
            _, id, task, queue, args, tenant, priority, _, attempt, tries, retry, timeout, metadata, enqueued_at,
            progress, _, _, _, _,
        ) = self.row  # fmt: skip
        return Attempt(
            id, attempt + 1, task, queue, args, tenant, priority, tries + 1, _read_retry(retry), timeout, metadata,
            enqueued_at, now, progress,
        )  # fmt: skip


class Ended:
    """An attempt that succeeded: all that is needed to give back what it held."""

    __slots__ = ("keys", "seq")

    id = task = queue = ""
    uses: tuple[Use, ...] = ()
    waiting_on = offered_by = refusals = None
    units = 0

    def __init__(self, seq: int, keys: Sequence[str]) -> None:
        self.seq = seq
        self.keys = keys


def stored(row: Values, attempts: tuple[PastAttempt, ...] = ()) -> Stored:
    """A whole row."""
    (
        seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique, metadata,
        retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
        outcome, cancel_requested, error, result, progress, expires_at,
    ) = row  # fmt: skip
    spec = NewJob(
        id=id, task=task, queue=queue, args=args, tenant=tenant, priority=priority, uses=read_uses(uses),
        retry=_read_retry(retry), timeout=timeout, unique=unique, metadata=metadata, retention=retention,
    )  # fmt: skip
    job = Stored(spec, seq, enqueued_at, due)
    job.state = _STATES[state]
    job.waiting_on, job.offered_by, job.units, job.refusals = waiting_on, offered_by, units, refusals
    job.set_aside = bool(set_aside)
    job.attempt, job.tries, job.worker = attempt, tries, worker
    job.started_at, job.ended_at, job.outcome, job.expires_at = started_at, ended_at, outcome, expires_at
    job.cancel_requested = bool(cancel_requested)
    job.error, job.result, job.progress = error, result, progress
    job.attempts = attempts
    return job


def inserted(job: Stored) -> Values:
    """The parameters of insert_job.sql."""
    spec = job.spec
    return (
        spec.id, spec.task, spec.queue, spec.tenant, spec.priority, job.due, job.state, job.enqueued_at,
        spec.args, to_json(spec.uses) if spec.uses else None, write_retry(job.retry), spec.timeout, spec.unique,
        spec.metadata, spec.retention, job.waiting_on, job.offered_by, job.units, job.refusals,
    )  # fmt: skip


def saved(job: Stored) -> Values:
    """The parameters of save_job.sql."""
    return (
        job.due, job.state, write_retry(job.retry), job.waiting_on, job.offered_by, job.units, job.refusals,
        int(job.set_aside), job.attempt, job.tries, job.worker, job.started_at, job.ended_at, job.outcome,
        int(job.cancel_requested), job.error, job.result, job.progress, job.expires_at, job.seq,
    )  # fmt: skip
