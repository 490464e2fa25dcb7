"""Jobs on their way to and from the scripts.

A job is kept in two parts: what scripts read (what moves, and what admission asks), and a spec, packed here and kept as
it is, that only Python reads again. `False` stands for None in what scripts read: Lua's arrays end at the first nil.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any

import msgspec

from headgate.engine.contract import Attempt, Failed, KeyNumbers, Limit, Override, ShareWeight, Worker
from headgate.engine.rules.in_force import canonical_order
from headgate.job import AttemptOutcome, Job, JobState, NewJob, PastAttempt
from headgate.keys import Key, Use, keys_of
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
    headers: str | None = None
    share: str | None = None


class Need(msgspec.Struct, frozen=True, array_like=True):
    """What admission asks of a job. `uses` include the caps its task and queue may have; False if it has no others.
    `more` are its share, whether that is charged by time, for how long its unique key is kept, and whether updates may
    replace it; jobs without any of this, which are most, have none."""

    task: str
    queue: str
    tenant: str
    priority: int
    uses: Any
    retry: str
    unique: str | bool
    retention: int | bool
    more: Any = False


class Life(msgspec.Struct, frozen=True):
    """What moves."""

    state: JobState
    outcome: AttemptOutcome | None
    due: int
    seq: int
    enqueued_at: int
    attempt: int
    tries: int
    past: int
    units: int
    refusals: int | None
    started_at: int | None
    ended_at: int | None
    expires_at: int | None
    worker: str | None
    offered_by: str | None
    waiting_on: str | None
    holds: dict[str, bool | int]
    error: str | None
    progress: str | None
    result: str | None
    cancel: bool
    aside: bool
    suspicion: int = 0
    lost: int = 0
    lost_after: int = 0
    tag: int = 0
    start_by: int | None = None
    unique_until: int | None = None


read_spec = msgspec.msgpack.Decoder(Spec).decode
read_need = lru_cache(maxsize=4096)(msgspec.msgpack.Decoder(Need).decode)
read_holds = msgspec.msgpack.Decoder(dict[str, bool | int]).decode
read_attempts = msgspec.msgpack.Decoder(list[tuple[int, AttemptOutcome, int, int, str, str | bool]]).decode

_HEAD = Struct(">BBBdddIIIdIdddI")
_LENGTH = Struct(">I")
_TAIL = Struct(">IId")
_MORE_TAIL = Struct(">ddd")
_NEVER = float(1 << 53)
_SUSPECT, _THREAD, _MORE = 128, 64, 32
"""Added to the state of a job that has a tail, of one that is set aside for lack of threads, and of one that has a
second tail: tag, time by which it must have started, and what only scripts read."""
_STATES: list[JobState] = list(JobState)
_OUTCOMES: list[AttemptOutcome | None] = [
    None,
    "succeeded",
    "failed",
    "cancelled",
    "snoozed",
    "released",
    "lost",
    "throttled",
]
_WORKER, _STARTED, _ASIDE, _CANCEL, _REFUSALS, _ERROR, _PROGRESS, _RESULT = (1 << bit for bit in range(8))


def read_record(record: bytes) -> tuple[Life, Need]:
    """A job as scripts keep it; records.lua describes the layout."""
    (
        state, outcome, flags, due, seq, enqueued_at, attempt, tries, past, units, refusals, started_at, ended_at,
        expires_at, length,
    ) = _HEAD.unpack_from(record)  # fmt: skip
    at = _HEAD.size + length
    need = read_need(record[_HEAD.size : at])
    worker, at = _text(record, at)
    offered_by, at = _text(record, at)
    waiting_on, at = _text(record, at)
    (length,) = _LENGTH.unpack_from(record, at)
    holds = record[at + 4 : at + 4 + length]
    error, at = _text(record, at + 4 + length)
    progress, at = _text(record, at)
    result, at = _text(record, at)
    suspicion, lost, lost_after = 0, 0, 0
    if state > _SUSPECT:
        suspicion, lost, lost_after = _TAIL.unpack_from(record, at)
        at += _TAIL.size
    tag, start_by, unique_until = 0, _NEVER, _NEVER
    if state % _THREAD > _MORE:
        tag, start_by, unique_until = _MORE_TAIL.unpack_from(record, at)
    name = _STATES[int(state) % _MORE - 1]
    ended = name.ended
    life = Life(
        state=name, outcome=_OUTCOMES[int(outcome)], due=int(due), seq=int(seq), enqueued_at=int(enqueued_at),
        attempt=attempt, tries=tries, past=past, units=int(units), refusals=refusals if flags & _REFUSALS else None,
        started_at=int(started_at) if flags & _STARTED else None, ended_at=int(ended_at) if ended else None,
        expires_at=int(expires_at) if ended else None, worker=worker if flags & _WORKER else None,
        offered_by=offered_by or None, waiting_on=waiting_on or None, holds=read_holds(holds) if holds else {},
        error=error if flags & _ERROR else None, progress=progress if flags & _PROGRESS else None,
        result=result if flags & _RESULT else None, cancel=bool(flags & _CANCEL), aside=bool(flags & _ASIDE),
        suspicion=suspicion, lost=lost, lost_after=int(lost_after), tag=int(tag),
        start_by=None if start_by >= _NEVER else int(start_by),
        unique_until=None if unique_until >= _NEVER else int(unique_until),
    )  # fmt: skip
    return life, need


def _text(record: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(record, at)
    end = at + 4 + length
    return record[at + 4 : end].decode(), end


# ── to the scripts ───────────────────────────────────────────────────────────────────────────────────────────────────


def or_false(value: Any) -> Any:
    """None as scripts read it."""
    return False if value is None else value


def packed_spec(job: NewJob) -> bytes:
    """The part that scripts keep without reading it."""
    spec = Spec(
        job.task, job.queue, job.args, job.tenant, job.priority, job.uses, job.timeout, job.unique, job.metadata,
        job.retention, job.headers, job.share,
    )  # fmt: skip
    return encode(spec)


def packed_need(job: NewJob) -> bytes:
    """The part that admission reads."""
    uses = uses_with_caps(job.task, job.queue, job.uses) if job.uses else False
    retry = _retry_text(job.retry)
    row = (
        job.task, job.queue, job.tenant, job.priority, uses, retry, or_false(job.unique), or_false(job.retention),
    )  # fmt: skip
    updates = job.on_conflict == "update"
    if job.share is None and job.unique_for is None and not updates:
        return encode(row)
    return encode((*row, (or_false(job.share), job.charge == "time", or_false(job.unique_for), updates)))


@lru_cache(maxsize=256)
def _retry_text(policy: RetryPolicy) -> str:
    return msgspec.json.encode(policy).decode()


read_retry = lru_cache(maxsize=256)(msgspec.json.Decoder(RetryPolicy).decode)


@lru_cache(maxsize=8192)
def uses_with_caps(task: str, queue: str, own: tuple[Use, ...]) -> tuple[tuple[Any, ...], ...]:
    """A job's keys in canonical order with the caps that its task and queue may have, now or later, marked as such;
    with the numbers that the job brings behind the mark."""
    taken = {use.key for use in own}
    caps = [Use(Key(name).ident) for name in (f"queue:{queue}", f"task:{task}")]
    marked: list[tuple[Any, ...]] = [
        (use.key, use.units) if use.number is None else (use.key, use.units, False, use.number) for use in own
    ]
    marked += [(cap.key, 1, True) for cap in caps if cap.key not in taken]
    return tuple(sorted(marked, key=lambda use: canonical_order(Use(use[0]))))


def packed_jobs(jobs: Sequence[NewJob]) -> tuple[Packed, list[bytes]]:
    """Jobs as scripts take them: their ids, which way each comes, the ways; and the arguments from 3 on, specs and then
    needs. A way is what many have in common: delay, time, what to do about a rival, the argument of its need, and where
    there is any of it when it must start and what it brings."""
    ways: dict[tuple[bytes, int, int | None, str, Any], int] = {}
    numbers = [
        ways.setdefault(
            (packed_need(job), job.delay, job.at, job.on_conflict, packed_more(job)), len(ways) + 1
        )
        for job in jobs
    ]
    first = 3 + len(jobs)
    common = [
        (delay, or_false(at), on_conflict, first + place, *([more] if more else []))
        for place, (_, delay, at, on_conflict, more) in enumerate(ways)
    ]
    specs = [packed_spec(job) for job in jobs]
    return [[job.id for job in jobs], numbers, common], [*specs, *(way[0] for way in ways)]


def packed_more(job: NewJob) -> tuple[Any, ...] | None:
    """By when a job must start, how long updates can put it off, and the numbers that it brings; None for most."""
    numbers = brought(job.uses)
    if job.start_within is None and job.start_by is None and job.at_most is None and not numbers:
        return None
    return or_false(job.start_within), or_false(job.start_by), or_false(job.at_most), numbers or False


def brought(uses: Sequence[Use]) -> tuple[tuple[str, int], ...]:
    """The numbers that a job brings for its keys."""
    return tuple((use.key, use.number) for use in uses if use.number is not None)


_USUAL = (False, False, False, False, "wait", False, "refuse", False)


def packed_limit(limit: Limit) -> Packed:
    """A declared limit; what is as usual is left out."""
    row: Packed = [
        limit.name,
        limit.kind,
        or_false(limit.max),
        limit.period,
        or_false(limit.burst),
        limit.algorithm,
    ]
    more = (
        limit.sized, limit.estimated, limit.adaptive, limit.per_key, limit.when_full, or_false(limit.max_waiting),
        limit.on_overflow, limit.by_job,
    )  # fmt: skip
    return row if more == _USUAL else [*row, more]


def packed_weight(weight: ShareWeight) -> Packed:
    """A share's weight."""
    return [weight.share, weight.weight, weight.by, weight.at, weight.why, or_false(weight.until)]


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
    name, kind, max, period, burst, algorithm, *more = row
    sized, estimated, adaptive, per_key, when_full, max_waiting, on_overflow, *_ = more[0] if more else _USUAL
    return Limit(
        name, kind, or_none(max), period, or_none(burst), algorithm, sized, estimated, adaptive, per_key, when_full,
        or_none(max_waiting), on_overflow,
    )  # fmt: skip


def read_numbers(row: Packed) -> KeyNumbers:
    """What is special about the number of a key; older data has the number computed and the time."""
    computed, computed_at, reason, brought, before, at = (*row, False, False, False, row[1])[:6]
    return KeyNumbers(at, *map(or_none, (computed, computed_at, reason, brought, before)))


def read_weight(row: Packed) -> ShareWeight:
    """A share's weight."""
    share, weight, by, at, why, until = row
    return ShareWeight(share, weight, by, at, why, or_none(until))


def read_override(row: Packed) -> Override:
    """An operator's word."""
    name, max, value, tenant, by, at, why, until = row
    return Override(name, or_none(max), or_none(value), or_none(tenant), by, at, why, or_none(until))


def read_worker(id: str, row: Packed) -> tuple[Worker, int]:
    """What a worker registered with, and when."""
    tasks, queues, lease, host, pid, concurrency, registered_at, *rest = row
    served = None if queues is False else tuple(queues)
    threaded: frozenset[str] = frozenset(rest[1] if len(rest) > 1 else ())
    return Worker(id, frozenset(tasks), served, lease, host, pid, concurrency, threaded), registered_at


def read_attempt(id: str, record: bytes, spec: bytes, now: int) -> Attempt:
    """A claimed job. Reads no more of its record than it needs: this is done for every job that runs."""
    state, _, flags, due, _, enqueued_at, attempt, tries, *_, length = _HEAD.unpack_from(record)
    need = read_need(record[_HEAD.size : _HEAD.size + length])
    progress, suspicion = None, 0
    if flags & _PROGRESS or state > _SUSPECT:
        life, _ = read_record(record)
        progress, suspicion = life.progress, life.suspicion
    s = read_spec(spec)
    return Attempt(
        job=id, number=attempt, task=s.task, queue=s.queue, args=s.args, tenant=s.tenant, priority=s.priority,
        tries=tries, retry=read_retry(need.retry), timeout=s.timeout, metadata=s.metadata,
        enqueued_at=int(enqueued_at), started_at=now, progress=progress,
        suspicion=suspicion, due=int(due), headers=s.headers, keys=keys_of(s.uses),
    )  # fmt: skip


UNREADABLE = "what is stored of this job cannot be read"
_GARBLED = (msgspec.MsgspecError, struct_error, UnicodeDecodeError, IndexError)
"""What reading a record raises that is not what was written."""


def try_attempt(id: str, record: bytes, spec: bytes, now: int) -> Attempt | Failed:
    """A claimed job, or the report with which one that cannot be read ends."""
    try:
        return read_attempt(id, record, spec, now)
    except _GARBLED as error:
        return Failed(id, read_record(record)[0].attempt, f"{UNREADABLE}: {error}")


def read_job(fields: Sequence[Any], *, history: bool = True) -> Job:
    """A stored job: id, job, spec and past as the server gave them. One that cannot be read shows that it cannot."""
    try:
        return _read_job(fields, history=history)
    except _GARBLED as error:
        return _unreadable(fields, f"{UNREADABLE}: {error}")


def _unreadable(fields: Sequence[Any], why: str) -> Job:
    id, record, *_ = fields
    try:
        life, need = read_record(record)
    except _GARBLED:
        life, need = None, Need("?", "?", "", 50, False, "[1]", False, False)
    return Job(
        id=id.decode(), task=need.task, queue=need.queue, args="{}", tenant=need.tenant, priority=need.priority,
        state=life.state if life else JobState.FAILED, due=life.due if life else 0,
        enqueued_at=life.enqueued_at if life else 0, uses=(), retry=RetryPolicy(), timeout=None,
        unique=or_none(need.unique), metadata=None, retention=None, waiting_on=life.waiting_on if life else None,
        attempt=life.attempt if life else 0, tries=life.tries if life else 0, worker=life.worker if life else None,
        started_at=life.started_at if life else None, ended_at=life.ended_at if life else None,
        cancel_requested=False, error=why, result=None, progress=None, history=(),
    )  # fmt: skip


def _read_job(fields: Sequence[Any], *, history: bool) -> Job:
    id, record, spec, past = fields
    s, (life, need) = read_spec(spec), read_record(record)
    return Job(
        id=id.decode(), task=s.task, queue=s.queue, args=s.args, tenant=s.tenant, priority=s.priority,
        state=life.state, due=life.due, enqueued_at=life.enqueued_at, uses=s.uses, retry=read_retry(need.retry),
        timeout=s.timeout, unique=s.unique, metadata=s.metadata, retention=s.retention, waiting_on=life.waiting_on,
        attempt=life.attempt, tries=life.tries, worker=life.worker, started_at=life.started_at, ended_at=life.ended_at,
        cancel_requested=life.cancel, error=life.error, result=life.result, progress=life.progress,
        history=_history(life, past) if history else (), suspicion=0 if life.state.ended else life.suspicion,
        lost=0 if life.state.ended else life.lost, headers=s.headers, start_by=life.start_by, share=s.share,
        tag=life.tag,
    )  # fmt: skip


def asked_more(fields: Sequence[Any]) -> dict[str, Any]:
    """What a job asked for and only its stored need says: how its share is charged, what becomes of its unique key."""
    more = read_record(fields[1])[1].more
    if not more:
        return {}
    _, by_time, unique_for, updates = more
    return {
        "charge": "time" if by_time else "starts",
        "unique_for": or_none(unique_for),
        "on_conflict": "update" if updates else "return",
    }


def arrival(fields: Sequence[Any]) -> int:
    """The arrival number of a stored job."""
    return read_record(fields[1])[0].seq


def seen(fields: Sequence[Any]) -> Packed:
    """What must not have changed when a decision on a stored job is carried out."""
    life, _ = read_record(fields[1])
    return [life.seq, life.state, life.past]


def _history(life: Life, past: bytes | None) -> tuple[PastAttempt, ...]:
    """Every attempt that has ended; the one that ended the job stands in its own fields."""
    rows = read_attempts(b"\xdd" + life.past.to_bytes(4, "big") + (past or b"")) if life.past else []
    attempts = [PastAttempt(*row[:5], or_none(row[5])) for row in rows]
    if life.outcome is not None and life.started_at is not None and life.ended_at is not None:
        attempts.append(
            PastAttempt(
                life.attempt, life.outcome, life.started_at, life.ended_at, life.worker or "", life.error
            )
        )
    return tuple(attempts)
