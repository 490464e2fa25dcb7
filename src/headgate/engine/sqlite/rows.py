"""Rows of the jobs table as the records that the transactions work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headgate.engine.contract import Attempt
from headgate.engine.rules.lifecycle import keeps_unique
from headgate.engine.rules.stored import Stored
from headgate.engine.sqlite.connection import Values
from headgate.engine.sqlite.garbled import GarbledRow, shown_row
from headgate.job import DEFAULT_PRIORITY, JobState, NewJob, PastAttempt
from headgate.keys import Key, Use, keys_of
from headgate.rates import Spending
from headgate.retry import RetryPolicy

_read_uses: Callable[[str], tuple[Use, ...]] = lru_cache(10_000)(msgspec.json.Decoder(tuple[Use, ...]).decode)
_encode = msgspec.json.Encoder().encode
_read_retry: Callable[[str], RetryPolicy] = lru_cache(1000)(msgspec.json.Decoder(RetryPolicy).decode)
_read_spent = msgspec.json.Decoder(dict[str, Spending]).decode
_IN_LINE = (JobState.READY, JobState.WAITING)
NO_TEXT = "text that is not UTF-8"
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

    `row` comes from the statements `waiters` or `claimable`; `uses` are its keys with the caps of its task and queue.
    Raises what is wrong where a claim could not read the row.
    """

    __slots__ = (
        "extras", "id", "offered_by", "order", "own", "priority", "queue", "refusals", "retry", "row", "seq",
        "set_aside", "start_by", "suspicion", "tag", "task", "units", "uses", "waiting_on",
    )  # fmt: skip

    def __init__(
        self,
        row: Values,
        all_uses: Callable[[str, str, tuple[Use, ...]], tuple[Use, ...]],
        waiting_on: str | None,
        offered_by: str | None,
    ) -> None:
        if isinstance(row, GarbledRow):
            raise ValueError(NO_TEXT)
        (
            self.seq, self.id, self.task, self.queue, _, _, self.priority, due, attempt, tries, retry, _, _, _, _, uses,
            _, self.units, self.refusals, self.suspicion, _, self.tag, self.start_by, self.extras,
        ) = row  # fmt: skip
        # A text among the numbers raises.
        _ = self.priority + due + attempt + tries + self.units + self.suspicion + self.tag + self.extras
        if self.start_by is not None:
            _ = self.start_by + 0
        self.retry = _read_retry(retry)
        self.own = _read_uses(uses) if uses is not None else ()
        self.uses = all_uses(self.task, self.queue, self.own)
        self.order = self.priority, self.tag, due, self.seq
        self.waiting_on = waiting_on
        self.offered_by = offered_by
        self.row = row
        self.set_aside = False

    def attempt(self, now: int) -> Attempt:
        """What the worker gets, once it is started."""
        (
            _, _, _, _, args, tenant, _, due, attempt, tries, _, timeout, metadata, enqueued_at, progress, _, _, _, _,
            _, headers, _, _, _,
        ) = self.row  # fmt: skip
        return Attempt(
            self.id, attempt + 1, self.task, self.queue, args, tenant, self.priority, tries + 1, self.retry, timeout,
            metadata, enqueued_at, now, progress, self.suspicion, due, headers, keys_of(self.own) if self.own else (),
        )  # fmt: skip


class EndedAttempt:
    """An attempt that succeeded: all that is needed to give back what it held."""

    __slots__ = ("keys", "seq")

    id = task = queue = ""
    uses: tuple[Use, ...] = ()
    waiting_on = offered_by = refusals = start_by = None
    units = suspicion = priority = tag = extras = 0

    def __init__(self, seq: int, keys: Sequence[str]) -> None:
        self.seq = seq
        self.keys = keys


AT_START, AT_END = 1, 2
"""`extras` of a job: it leaves a line that few jobs stand in when it starts; its end is not that of any job."""


class FileJob(Stored):
    """A job of the file. `extras` says whether it has more to be remembered than most."""

    __slots__ = ("extras",)

    extras: int

    def wanted(self) -> int:
        """The extras that the job asks for."""
        spec = self.spec
        if spec.share is None and spec.unique is None and self.start_by is None and spec.unique_for is None:
            return 0
        if spec.unique_for is not None or (spec.share is not None and spec.charge == "time"):
            return AT_START | AT_END
        updates = spec.unique is not None and spec.on_conflict == "update"
        return AT_START if updates or spec.share is not None or self.start_by is not None else 0


class Unreadable(FileJob):
    """A row that makes no sense: a column is garbled. It is shown as failed, with `why` as its error; a transaction
    that meets it while `unfinished` ends it so, under `new_id` where no caller could name the old one."""

    __slots__ = ("new_id", "unfinished", "why")

    def __init__(self, spec: NewJob, seq: int, enqueued_at: int, due: int, why: str) -> None:
        super().__init__(spec, seq, enqueued_at, due)
        self.why = why
        self.unfinished = False
        self.new_id: str | None = None


GARBLED = (msgspec.DecodeError, TypeError, LookupError, ValueError)
"""What reading a garbled column raises."""


def stored(row: Values, attempts: tuple[PastAttempt, ...] = ()) -> FileJob:
    """A whole row."""
    try:
        return _stored(row, attempts)
    except GARBLED as error:
        return unreadable(row, attempts, error)


def unreadable(row: Values, attempts: tuple[PastAttempt, ...], error: Exception) -> Unreadable:
    """What can be saved of a row that cannot be read."""
    garbled_id, row = isinstance(row[1], bytes), shown_row(row)
    state = row[7]
    spec = NewJob(
        id=_text(row[1]), task=_text(row[2]), queue=_text(row[3]), args=_text(row[9]), tenant=_text(row[4]),
        priority=_number(row[5], DEFAULT_PRIORITY), unique=row[13] if isinstance(row[13], str) else None,
    )  # fmt: skip
    why = f"this job cannot be read from the store: {type(error).__name__}: {error}"
    job = Unreadable(spec, row[0], _number(row[8]), _number(row[6]), why)
    job.extras = 0
    job.new_id = f"unreadable-{row[0]}" if garbled_id else None
    job.unfinished = state not in ("succeeded", "failed", "cancelled")
    job.state = JobState.FAILED if job.unfinished else _STATES[state]
    job.waiting_on, job.offered_by = _text_or_none(row[16]), _text_or_none(row[17])
    job.attempt, job.tries = _number(row[21]), _number(row[22])
    job.started_at = _number(row[24]) if row[24] is not None else None
    job.ended_at, job.expires_at = _number(row[25]), _number(row[31])
    job.worker = _text_or_none(row[23])
    job.error, job.attempts = why, attempts
    return job


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise


def shown_state(state: object) -> JobState:
    """A state as it is shown; one that makes no sense as failed."""
    return _STATES.get(state, JobState.FAILED) if isinstance(state, str) else JobState.FAILED


def _stored(row: Values, attempts: tuple[PastAttempt, ...]) -> FileJob:
    if isinstance(row, GarbledRow):
        raise ValueError(NO_TEXT)
    (
        seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, uses, retry, timeout, unique, metadata,
        retention, waiting_on, offered_by, units, refusals, set_aside, attempt, tries, worker, started_at, ended_at,
        outcome, cancel_requested, error, result, progress, expires_at, suspicion, lost, lost_after, headers, tag,
        start_by, share, charge, unique_for, unique_until, updates, spent, extras,
    ) = row  # fmt: skip
    spec = NewJob(
        id=id, task=task, queue=queue, args=args, tenant=tenant, priority=priority, uses=read_uses(uses),
        retry=_read_retry(retry), timeout=timeout, unique=unique, metadata=metadata, retention=retention,
        headers=headers, share=share, charge="time" if charge == "time" else "starts", unique_for=unique_for,
        on_conflict="update" if updates else "return",
    )  # fmt: skip
    _ = priority + due + enqueued_at + units + attempt + tries + suspicion + lost + lost_after
    _ = (started_at or 0) + (ended_at or 0) + (expires_at or 0) + (retention or 0) + (refusals or 0)
    _ = tag + extras + (start_by or 0) + (unique_for or 0) + (unique_until or 0)
    for key in (waiting_on, offered_by):
        if key is not None:
            Key.of(key)
    job = FileJob(spec, seq, enqueued_at, due)
    job.state = _STATES[state]
    job.waiting_on, job.offered_by, job.units, job.refusals = waiting_on, offered_by, units, refusals
    job.set_aside = set_aside
    job.attempt, job.tries, job.worker = attempt, tries, worker
    job.started_at, job.ended_at, job.outcome, job.expires_at = started_at, ended_at, outcome, expires_at
    job.cancel_requested = bool(cancel_requested)
    job.error, job.result, job.progress = error, result, progress
    job.attempts = attempts
    job.suspicion, job.lost, job.lost_after = suspicion, lost, lost_after
    job.tag, job.start_by, job.unique_until = tag, start_by, unique_until
    if spent is not None:
        job.spent = _read_spent(spent)
    job.extras = extras
    return job


def inserted(job: Stored) -> Values:
    """A row of `insert_job`."""
    return (*_inserted(job), job.spec.unique)


def _inserted(job: Stored) -> Values:
    spec = job.spec
    return (
        spec.id, spec.task, spec.queue, spec.tenant, spec.priority, job.due, job.state, job.enqueued_at,
        spec.args, to_json(spec.uses) if spec.uses else None, write_retry(job.retry), spec.timeout, spec.unique,
        spec.metadata, spec.retention, job.waiting_on, job.offered_by, job.units, job.refusals,
        spec.headers,
    )  # fmt: skip


def inserted_with_extras(job: FileJob, bounded: frozenset[str]) -> Values:
    """A row of `insert_with_extras`."""
    spec = job.spec
    charge = spec.charge if spec.charge != "starts" else None
    return (*_inserted(job), spec.share, charge, spec.unique_for, taken(job), *extras(job, bounded))


def extras(job: FileJob, bounded: frozenset[str]) -> Values:
    """What can change of a job with extras besides what can of any. The queues in `bounded` count their backlog."""
    pending = job.state in _IN_LINE
    return (
        job.tag, job.start_by, job.unique_until, int(job.spec.on_conflict == "update"), job.extras,
        job.start_by if pending or job.state is JobState.SCHEDULED else None,
        job.spec.share if pending else None,
        job.queue if pending and job.queue in bounded else None,
    )  # fmt: skip


def taken(job: Stored) -> str | None:
    """The unique key, while it is taken."""
    return job.spec.unique if job.spec.unique is not None and keeps_unique(job) else None


def saved(job: Stored) -> Values:
    """The parameters of `save_job`."""
    return (
        job.due, job.state, write_retry(job.retry), job.waiting_on, job.offered_by, job.units, job.refusals,
        job.set_aside, job.attempt, job.tries, job.worker, job.started_at, job.ended_at, job.outcome,
        int(job.cancel_requested), job.error, job.result, job.progress, job.expires_at,
        job.suspicion, job.lost, job.lost_after, taken(job), job.seq,
    )  # fmt: skip
