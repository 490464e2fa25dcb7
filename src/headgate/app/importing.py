"""Bringing in jobs with their history from another system.

A record is checked here, alone, and told apart from its neighbours: what is wrong with one is said about that one, and
the others go on. Arguments pass through the task's own checks, and its limits apply, as at any enqueue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from headgate.app.client import Client
from headgate.app.task import AnyTask
from headgate.clock import instant_us
from headgate.engine.contract import Engine, ImportedJob, ImportResult
from headgate.errors import ConfigError, HeadgateError
from headgate.job import PastAttempt
from headgate.keys import Key
from headgate.limits.imported import as_declared
from headgate.retry import Retry, RetryPolicy

RECORDS_PER_STEP = 500


class ImportAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attempt that has ended elsewhere. Times are datetimes with a zone, or ISO 8601 text."""

    outcome: Literal["succeeded", "failed", "cancelled"]
    started_at: datetime
    ended_at: datetime
    error: str | None = None
    worker: str = ""
    number: int | None = None


class ImportRetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A retry policy; what is left out is as in `Retry`. Delays are seconds."""

    attempts: int = 3
    delay: float = 1
    backoff: float = 2
    max_delay: float = 3600
    jitter: float = 0.1
    losses: int = 5

    def policy(self) -> RetryPolicy:
        """The same, checked."""
        return Retry(
            self.attempts, self.delay, self.backoff, self.max_delay, self.jitter, losses=self.losses
        ).policy


class ImportRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One job to import. What is left out comes from its task. `limits` are limits of its own, on top of the task's:
    `ImportLimit` records or mappings, or limits as code declares them.

    `expires` is a time, or seconds after the job was due. `unique_for` counts from the first start here: a job that has
    started elsewhere keeps its unique key until it ends. `on_conflict="update"` lets newcomers update it until it
    starts; a record never replaces or updates another job itself."""

    id: str
    task: str
    args: dict[str, Any] = {}
    attempts: tuple[ImportAttempt, ...] = ()
    enqueued_at: datetime | None = None
    at: datetime | None = None
    queue: str | None = None
    tenant: str | None = None
    priority: int | None = None
    timeout: float | None = None
    retention: float | None = None
    unique: str | None = None
    on_conflict: Literal["update"] | None = None
    unique_for: float | None = None
    expires: float | datetime | None = None
    share: str | None = None
    metadata: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    retry: ImportRetry | None = None
    limits: tuple[Any, ...] = ()


async def import_jobs(
    client: Client, tasks: Mapping[str, AnyTask], records: Sequence[Mapping[str, Any] | ImportRecord]
) -> list[ImportResult]:
    """Import in batches; one result per record, in their order."""
    engine = await client.engine()
    results: list[ImportResult] = []
    for start in range(0, len(records), RECORDS_PER_STEP):
        checked = await _declared(client, engine, tasks, records[start : start + RECORDS_PER_STEP])
        good = [one for one in checked if isinstance(one, ImportedJob)]
        stored = iter(await engine.import_jobs(good) if good else ())
        results += [next(stored) if isinstance(one, ImportedJob) else one for one in checked]
    return results


async def _declared(
    client: Client,
    engine: Engine,
    tasks: Mapping[str, AnyTask],
    records: Sequence[Mapping[str, Any] | ImportRecord],
) -> list[ImportedJob | ImportResult]:
    """The records, checked, and their own limits known to the store. What was refused beside a limit that the store
    refuses is checked again without that: the two may have had one name and different kinds."""
    checked = [_checked(client, tasks, record) for record in records]
    for _ in range(2):
        refused = await client.limits.send_each(engine)
        if not refused:
            break
        checked = [
            _checked(client, tasks, record)
            if isinstance(one, ImportResult)
            else _unless_refused(one, refused)
            for one, record in zip(checked, records, strict=True)
        ]
    return checked


def _unless_refused(one: ImportedJob, refused: Mapping[str, str]) -> ImportedJob | ImportResult:
    names = (Key.of(use.key).name for use in one.job.uses)
    why = next((refused[name] for name in names if name in refused), None)
    return one if why is None else ImportResult(one.job.id, None, why)


def _checked(
    client: Client, tasks: Mapping[str, AnyTask], given: Mapping[str, Any] | ImportRecord
) -> ImportedJob | ImportResult:
    try:
        record = given if isinstance(given, ImportRecord) else msgspec.convert(given, ImportRecord)
        imported = _imported(tasks, record)
        return msgspec.structs.replace(imported, job=client.hooks.enqueueing.sealed(imported.job))
    except (msgspec.ValidationError, HeadgateError) as error:
        return ImportResult(_id_of(given), None, str(error))


def _id_of(given: Any) -> str:
    id: Any = (
        cast("Mapping[str, Any]", given).get("id") if isinstance(given, Mapping) else getattr(given, "id", "")
    )
    return id if isinstance(id, str) else ""


def _imported(tasks: Mapping[str, AnyTask], record: ImportRecord) -> ImportedJob:
    task = tasks.get(record.task)
    if task is None:
        raise ConfigError(
            f"this app has no task {record.task!r}; it has: {', '.join(sorted(tasks)) or 'none'}"
        )
    job = task.options(
        id=record.id,
        at=record.at,
        queue=record.queue,
        tenant=record.tenant,
        priority=record.priority,
        timeout=record.timeout,
        retention=record.retention,
        unique=record.unique,
        on_conflict=record.on_conflict,
        unique_for=record.unique_for,
        expires=record.expires,
        share=record.share,
        metadata=record.metadata,
        headers=record.headers,
        limits=[as_declared(given) for given in record.limits],
    ).job(**record.args)
    if record.retry is not None:
        job = msgspec.structs.replace(job, retry=record.retry.policy())
    since = None if record.enqueued_at is None else instant_us(record.enqueued_at, "enqueued_at")
    return ImportedJob(job, _history(record.attempts), since)


def _history(attempts: Sequence[ImportAttempt]) -> tuple[PastAttempt, ...]:
    """Numbered from 1, each ended, all but the last failed."""
    past = tuple(_past(attempt, number) for number, attempt in enumerate(attempts, 1))
    for attempt in past[:-1]:
        if attempt.outcome != "failed":
            raise ConfigError(f"attempt {attempt.number} is {attempt.outcome}, but another one follows it")
    return past


def _past(attempt: ImportAttempt, number: int) -> PastAttempt:
    if attempt.number not in (None, number):
        raise ConfigError(f"attempt {attempt.number} stands in place {number}; they are numbered 1, 2, 3 …")
    started = instant_us(attempt.started_at, f"started_at of attempt {number}")
    ended = instant_us(attempt.ended_at, f"ended_at of attempt {number}")
    if ended < started:
        raise ConfigError(f"attempt {number} ends before it starts")
    return PastAttempt(number, attempt.outcome, started, ended, attempt.worker, attempt.error)
