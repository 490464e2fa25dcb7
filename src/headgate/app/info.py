"""Jobs, limits and workers as people see them: datetimes instead of microseconds, values instead of JSON text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from headgate.app.record_schema import core_schema, json_schema
from headgate.clock import SECOND, from_us
from headgate.codec import decode, decode_object
from headgate.engine.contract import (
    LimitKind,
    LimitStatus,
    Overflow,
    Override,
    QueueStatus,
    WhenFull,
    WorkerStatus,
)
from headgate.errors import PayloadError
from headgate.headers import read_headers
from headgate.job import AttemptOutcome, Job, JobState, PastAttempt
from headgate.keys import Key
from headgate.retry import RetryPolicy
from headgate.sealing import PLAIN, PayloadKind, Sealing


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """A record for people and for `--json`."""

    def to_dict(self) -> dict[str, Any]:
        """The same in values that every JSON encoder takes: texts, numbers, lists, dicts, None. Times are ISO 8601 in
        UTC. The keys are the names of the fields, and are what `--json` prints."""
        return msgspec.json.decode(msgspec.json.encode(self))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema(cls, cls.to_dict)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        """Of what `to_dict()` gives."""
        return json_schema(cls)


class AttemptInfo(Info, frozen=True):
    """One attempt that has ended."""

    number: int
    outcome: AttemptOutcome
    started_at: datetime
    ended_at: datetime
    worker: str
    error: str | None


class JobInfo(Info, frozen=True):
    """A job as it stands. `limits` are the keys it needs, `waiting_on` the one that refused it.

    `suspicion` says how likely it is that the job ends its worker's process, 0 for nearly all; `lost` how often it was
    lost with one since it was last clear of suspicion. Both are 0 again once the job has ended. `expires` is until when
    it must have started, None once it has; `share` whose part of a shared queue it takes.
    """

    id: str
    task: str
    queue: str
    state: JobState
    args: Any
    tenant: str | None
    priority: int
    due: datetime
    enqueued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    limits: tuple[str, ...]
    waiting_on: str | None
    worker: str | None
    attempt: int
    tries: int
    suspicion: int
    lost: int
    retry: RetryPolicy
    unique: str | None
    expires: datetime | None
    share: str | None
    metadata: dict[str, Any]
    headers: dict[str, str]
    cancel_requested: bool
    error: str | None
    result: Any
    progress: Any
    attempts: tuple[AttemptInfo, ...]

    def to_dict(self) -> dict[str, Any]:
        """As of every record; `retry` with its delays in seconds."""
        retry = self.retry
        return super().to_dict() | {
            "retry": {
                "attempts": retry.attempts,
                "delay": retry.delay / SECOND,
                "backoff": retry.backoff,
                "max_delay": retry.max_delay / SECOND,
                "jitter": retry.jitter,
                "losses": retry.losses,
            }
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        schema = json_schema(cls)
        names = ("attempts", "delay", "backoff", "max_delay", "jitter", "losses")
        whole = {"attempts": {"type": "integer"}, "losses": {"type": "integer"}}
        retry = {name: whole.get(name, {"type": "number"}) for name in names}
        schema["properties"]["retry"] = {"type": "object", "properties": retry, "required": list(names)}
        return schema


class JobsPage(Info, frozen=True):
    """Some of the jobs that match, newest first. `next` is what to pass as `after` to go on; None where there are no
    more."""

    jobs: tuple[JobInfo, ...]
    next: str | None


def job_info(job: Job, sealing: Sealing = PLAIN) -> JobInfo:
    """A stored job for people. A payload that is no JSON is shown as none, and `error` says so; one that is sealed and
    cannot be opened here as a SealedPayload."""
    read = _Payloads(job, sealing)
    return JobInfo(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        args=read.payload("args", job.args),
        tenant=job.tenant or None,
        priority=job.priority,
        due=from_us(job.due),
        enqueued_at=from_us(job.enqueued_at),
        started_at=_when(job.started_at),
        ended_at=_when(job.ended_at),
        limits=tuple(Key.of(use.key).text for use in job.uses),
        waiting_on=None if job.waiting_on is None else Key.of(job.waiting_on).text,
        worker=job.worker,
        attempt=job.attempt,
        tries=job.tries,
        suspicion=job.suspicion,
        lost=job.lost,
        retry=job.retry,
        unique=job.unique,
        expires=_when(job.start_by),
        share=job.share,
        metadata=read.plain("metadata", decode_object, job.metadata) or {},
        headers=read.plain("headers", read_headers, job.headers) or {},
        cancel_requested=job.cancel_requested,
        result=read.payload("result", job.result),
        progress=read.payload("progress", job.progress),
        error=job.error or read.problem,
        attempts=tuple(_attempt(past) for past in job.history),
    )


def _attempt(past: PastAttempt) -> AttemptInfo:
    return AttemptInfo(
        number=past.number,
        outcome=past.outcome,
        started_at=from_us(past.started_at),
        ended_at=from_us(past.ended_at),
        worker=past.worker,
        error=past.error,
    )


class OverrideInfo(Info, frozen=True):
    """An operator's word on a limit."""

    max: int | None
    by: str
    at: datetime
    why: str
    until: datetime | None


class LimitInfo(Info, frozen=True):
    """A limit, or one key of it, as it stands. `max` is the number in force, None where nothing limits.

    Where `exact` is False, so many hold or wait for its keys that they were not all counted: `held` and `waiting` are
    lower bounds. `held` counts units, which is slots where jobs take more than one. Of a key of a rate, `tokens` are
    there now (below zero: a debt of attempts that spent more than estimated), and `next_at` is when the next comes.
    `brought` is the number that its newest job brought, `brought_before` another one that jobs brought while it was in
    use: they disagree. `reason` says why a learnt number is what it is, `opens_at` until when the key is closed since
    a service has throttled it. `when_full` says what becomes of a newcomer that finds no slot (None: a rate),
    `max_waiting` how many may wait on each key (for a queue: be ready or waiting in it), `on_overflow` what happens
    beyond that."""

    name: str
    key: str
    tenant: str | None
    kind: LimitKind
    max: int | None
    declared: int | None
    override: OverrideInfo | None
    held: int
    waiting: int
    per: float | None
    burst: int | None
    algorithm: str | None
    exact: bool
    tokens: int | None = None
    next_at: datetime | None = None
    brought: int | None = None
    brought_before: int | None = None
    reason: str | None = None
    opens_at: datetime | None = None
    when_full: WhenFull | None = "wait"
    max_waiting: int | None = None
    on_overflow: Overflow | None = None


def limit_info(status: LimitStatus) -> LimitInfo:
    """A limit's status for people."""
    rate = status.kind == "rate"
    return LimitInfo(
        name=status.name,
        key=status.key,
        tenant=status.tenant or None,
        kind=status.kind,
        max=status.max,
        declared=status.declared,
        override=None if status.override is None else _override(status.override),
        held=status.held,
        waiting=status.waiting,
        per=status.period / 1e6 if rate else None,
        burst=status.burst if rate else None,
        algorithm=status.algorithm if rate else None,
        exact=status.exact,
        tokens=status.tokens,
        next_at=_when(status.next_at),
        brought=status.brought,
        brought_before=status.brought_before,
        reason=status.reason,
        opens_at=_when(status.opens_at),
        when_full=None if rate else status.when_full,
        max_waiting=status.max_waiting,
        on_overflow=None if status.max_waiting is None else status.on_overflow,
    )


def _override(override: Override) -> OverrideInfo:
    return OverrideInfo(
        max=override.max,
        by=override.by,
        at=from_us(override.at),
        why=override.why,
        until=_when(override.until),
    )


class QueueInfo(Info, frozen=True):
    """A queue that has unfinished jobs or is paused. `oldest` is since when the first of its ready jobs could run.
    Where `exact` is False, not all were counted: the numbers are lower bounds."""

    name: str
    paused: bool
    scheduled: int
    ready: int
    waiting: int
    running: int
    oldest: datetime | None
    exact: bool = True


def queue_info(status: QueueStatus) -> QueueInfo:
    """A queue's status for people."""
    return QueueInfo(
        name=status.name,
        paused=status.paused,
        scheduled=status.scheduled,
        ready=status.ready,
        waiting=status.waiting,
        running=status.running,
        oldest=_when(status.oldest),
        exact=status.exact,
    )


class WorkerInfo(Info, frozen=True):
    """A registered worker. `queues` None serves every queue."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    tasks: tuple[str, ...]
    concurrency: int
    running: int
    registered_at: datetime
    lease_until: datetime


def worker_info(status: WorkerStatus) -> WorkerInfo:
    """A worker's status for people."""
    worker = status.worker
    return WorkerInfo(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        queues=worker.queues,
        tasks=tuple(sorted(worker.tasks)),
        concurrency=worker.concurrency,
        running=status.running,
        registered_at=from_us(status.registered_at),
        lease_until=from_us(status.lease_until),
    )


def _when(value: int | None) -> datetime | None:
    return None if value is None else from_us(value)


class _Payloads:
    """Reads the payloads of a job; `problem` names the last one that could not be read."""

    def __init__(self, job: Job, sealing: Sealing) -> None:
        self._job = job
        self._sealing = sealing
        self.problem: str | None = None

    def plain(self, what: str, read: Callable[[Any], Any], text: str | None) -> Any:
        """What is never sealed."""
        try:
            return read(text)
        except (msgspec.MsgspecError, ValueError) as error:
            self.problem = f"its stored {what} cannot be read: {error}"
            return None

    def payload(self, kind: PayloadKind, text: str | None) -> Any:
        """What may be sealed."""
        if text is None:
            return None
        shown, job = self._sealing.stands_for(text), self._job
        if shown is not None and not self._sealing.active:
            return shown
        try:
            opened = self._sealing.open(kind, text, job.task, job.id, job.tenant)
        except PayloadError as error:
            self.problem = str(error)
            return shown
        return self.plain("arguments" if kind == "args" else kind, decode, opened)
