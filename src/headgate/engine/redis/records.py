"""Jobs on their way to and from the scripts.

A job travels in two forms: an array that scripts read (what admission asks), and a spec, packed here and kept as it is,
that only Python reads again. `False` stands for None in what scripts read: Lua's arrays end at the first nil.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headgate.engine.contract import Attempt, Limit, Override, Worker
from headgate.engine.rulebook import canonical_order
from headgate.job import AttemptOutcome, Job, JobState, NewJob, PastAttempt
from headgate.keys import Key, Use
from headgate.retry import RetryPolicy

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode
Packed = list[Any]


class Spec(msgspec.Struct, frozen=True, array_like=True):
    """What only Python reads of a job."""

    task: str
    queue: str
    args: str
    tenant: str
    priority: int
    uses: tuple[Use, ...]
    timeout: int | None
    unique: str | None
    metadata: str | None
    retention: int | None


class Need(msgspec.Struct, frozen=True, array_like=True):
    """What admission asks of a job. `uses` include the caps its task and queue may have; False if it has no others."""

    task: str
    queue: str
    tenant: str
    priority: int
    uses: Any
    retry: str
    unique: str | bool
    retention: int | bool


class Life(msgspec.Struct, frozen=True):
    """What moves."""

    state: JobState
    due: int
    seq: int
    enqueued_at: int
    attempt: int
    tries: int
    waiting_on: str | None = None
    worker: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    outcome: AttemptOutcome | None = None
    cancel: bool = False
    error: str | None = None
    past: int = 0


read_spec = msgspec.msgpack.Decoder(Spec).decode
read_need = msgspec.msgpack.Decoder(Need).decode
read_life = msgspec.msgpack.Decoder(Life).decode
read_attempts = msgspec.msgpack.Decoder(list[tuple[int, AttemptOutcome, int, int, str, str | bool]]).decode


# ── to the scripts ───────────────────────────────────────────────────────────────────────────────────────────────────


def or_false(value: Any) -> Any:
    """None as scripts read it."""
    return False if value is None else value


def packed_spec(job: NewJob) -> bytes:
    """The part that scripts keep without reading it."""
    spec = Spec(
        job.task, job.queue, job.args, job.tenant, job.priority, job.uses, job.timeout, job.unique, job.metadata,
        job.retention,
    )  # fmt: skip
    return encode(spec)


def packed_need(job: NewJob) -> bytes:
    """The part that admission reads."""
    uses = uses_with_caps(job.task, job.queue, job.uses) if job.uses else False
    retry = _retry_text(job.retry)
    return encode(
        (
            job.task,
            job.queue,
            job.tenant,
            job.priority,
            uses,
            retry,
            or_false(job.unique),
            or_false(job.retention),
        )
    )


def packed_job(job: NewJob, argument: int) -> Packed:
    """The rest; `argument` is the number of the ARGV with the spec, behind which the need follows."""
    return [job.id, job.delay, or_false(job.at), job.on_conflict, argument]


@lru_cache(maxsize=256)
def _retry_text(policy: RetryPolicy) -> str:
    return msgspec.json.encode(policy).decode()


read_retry = lru_cache(maxsize=256)(msgspec.json.Decoder(RetryPolicy).decode)


@lru_cache(maxsize=8192)
def uses_with_caps(task: str, queue: str, own: tuple[Use, ...]) -> tuple[tuple[Any, ...], ...]:
    """A job's keys in canonical order with the caps that its task and queue may have, now or later, marked as such."""
    taken = {use.key for use in own}
    caps = [Use(Key(name).ident) for name in (f"queue:{queue}", f"task:{task}")]
    marked = [(use.key, use.units) for use in own]
    marked += [(cap.key, 1, True) for cap in caps if cap.key not in taken]
    return tuple(sorted(marked, key=lambda use: canonical_order(Use(use[0]))))


def packed_jobs(jobs: Sequence[NewJob]) -> tuple[list[Packed], list[bytes]]:
    """Jobs for the scripts, and their specs and needs for ARGV[3…]."""
    packed = [
        packed_job(job, number) for number, job in zip(range(3, 3 + 2 * len(jobs), 2), jobs, strict=True)
    ]
    return packed, [part for job in jobs for part in (packed_spec(job), packed_need(job))]


def packed_limit(limit: Limit) -> Packed:
    """A declared limit."""
    return [
        limit.name,
        limit.kind,
        or_false(limit.max),
        limit.period,
        or_false(limit.burst),
        limit.algorithm,
    ]


def packed_override(o: Override) -> Packed:
    """An operator's word."""
    return [
        o.name, or_false(o.max), or_false(o.value), or_false(o.tenant), o.by, o.at, o.why, or_false(o.until),
    ]  # fmt: skip


def packed_attempt(attempt: PastAttempt) -> Packed:
    """An attempt that an import brings."""
    a = attempt
    return [a.number, a.outcome, a.started_at, a.ended_at, a.worker, or_false(a.error)]


# ── from the scripts ─────────────────────────────────────────────────────────────────────────────────────────────────


def or_none(value: Any) -> Any:
    """None as scripts write it."""
    return None if value is False else value


def read_limit(row: Packed) -> Limit:
    """A declared limit."""
    name, kind, max, period, burst, algorithm = row
    return Limit(name, kind, or_none(max), period, or_none(burst), algorithm)


def read_override(row: Packed) -> Override:
    """An operator's word."""
    name, max, value, tenant, by, at, why, until = row
    return Override(name, or_none(max), or_none(value), or_none(tenant), by, at, why, or_none(until))


def read_worker(id: str, row: Packed) -> tuple[Worker, int]:
    """What a worker registered with, and when."""
    tasks, queues, lease, host, pid, concurrency, registered_at = row
    served = None if queues is False else tuple(queues)
    return Worker(id, frozenset(tasks), served, lease, host, pid, concurrency), registered_at


def read_attempt(row: Packed, spec: bytes, now: int) -> Attempt:
    """A claimed job."""
    id, number, tries, enqueued_at, retry, progress = row
    s = read_spec(spec)
    return Attempt(
        job=id, number=number, task=s.task, queue=s.queue, args=s.args, tenant=s.tenant, priority=s.priority,
        tries=tries, retry=read_retry(retry), timeout=s.timeout, metadata=s.metadata, enqueued_at=enqueued_at,
        started_at=now, progress=or_none(progress),
    )  # fmt: skip


def read_job(fields: Sequence[Any], *, history: bool = True) -> Job:
    """A stored job: id, spec, need, life, past, result, progress as the server gave them."""
    id, spec, need, life, past, result, progress = fields
    s, n, moving = read_spec(spec), read_need(need), read_life(life)
    return Job(
        id=id.decode(), task=s.task, queue=s.queue, args=s.args, tenant=s.tenant, priority=s.priority,
        state=moving.state, due=moving.due, enqueued_at=moving.enqueued_at, uses=s.uses, retry=read_retry(n.retry),
        timeout=s.timeout,
        unique=s.unique, metadata=s.metadata, retention=s.retention, waiting_on=moving.waiting_on,
        attempt=moving.attempt, tries=moving.tries, worker=moving.worker, started_at=moving.started_at,
        ended_at=moving.ended_at, cancel_requested=moving.cancel, error=moving.error, result=_text(result),
        progress=_text(progress), history=_history(moving, past) if history else (),
    )  # fmt: skip


def arrival(fields: Sequence[Any]) -> int:
    """The arrival number of a stored job."""
    return read_life(fields[3]).seq


def seen(fields: Sequence[Any]) -> Packed:
    """What must not have changed when a decision on a stored job is carried out."""
    moving = read_life(fields[3])
    return [moving.seq, moving.state, moving.past]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _history(life: Life, past: bytes | None) -> tuple[PastAttempt, ...]:
    """Every attempt that has ended; the one that ended the job stands in its own fields."""
    rows = read_attempts(b"\xdd" + life.past.to_bytes(4, "big") + (past or b"")) if life.past else []
    attempts = [PastAttempt(*row[:5], None if row[5] is False else str(row[5])) for row in rows]
    if life.outcome is not None and life.started_at is not None and life.ended_at is not None:
        attempts.append(
            PastAttempt(
                life.attempt, life.outcome, life.started_at, life.ended_at, life.worker or "", life.error
            )
        )
    return tuple(attempts)
