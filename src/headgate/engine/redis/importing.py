"""Imports: Python decides on each record by the rules that all engines share, a script carries the decision out.

The script checks that the job is as it was when Python looked at it. If it is not, it stops there, and the rest is
looked at again; so is a record whose id came up earlier in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from headgate.engine.contract import ImportedJob, ImportResult
from headgate.engine.redis import partitions
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.errors import wording
from headgate.engine.redis.finding import fields_in
from headgate.engine.redis.number_range import EARLIEST, LATEST
from headgate.engine.redis.records import (
    Packed,
    or_false,
    packed_attempt,
    packed_jobs,
    read_job,
    seen,
)
from headgate.engine.redis.store import Store
from headgate.engine.rules.lifecycle import Existing, Taken, take_import
from headgate.errors import ConfigError
from headgate.job import JobState

MOST = 100
"""Records per script call."""


async def import_jobs(store: Store, records: Sequence[ImportedJob], now: int | None) -> list[ImportResult]:
    """Take over records in the order given."""
    results: list[ImportResult] = []
    while len(results) < len(records):
        rest = records[len(results) :]
        number = _home(store, rest[0])
        batch = list(islice(_alike(store, rest, number), MOST))
        results += await _import(store, store.partitions[number], batch, now)
    return results


def _home(store: Store, record: ImportedJob) -> int:
    return partitions.home(record.job.tenant, len(store.partitions))


def _alike(store: Store, records: Sequence[ImportedJob], number: int) -> Iterator[ImportedJob]:
    """Records of one partition until the first one whose id came before."""
    ids: set[str] = set()
    for record in records:
        if record.job.id in ids or _home(store, record) != number:
            return
        ids.add(record.job.id)
        yield record


async def _import(
    store: Store, partition: Partition, records: Sequence[ImportedJob], now: int | None
) -> list[ImportResult]:
    stored = await fields_in(store, partition, [record.job.id for record in records])
    decided = [_decided(store, record, fields) for record, fields in zip(records, stored, strict=True)]
    packed, specs = packed_jobs([record.job for record in records])
    answer, _ = await store.one(partition, "import_jobs", ([], packed, decided), specs, now)
    return [
        ImportResult(
            record.job.id, None if state is False else JobState(state), wording(refused) if refused else None
        )
        for record, (state, refused) in zip(records, answer, strict=False)
    ]


def _decided(store: Store, record: ImportedJob, fields: Any) -> Packed:
    job = None if fields is None else read_job(fields)
    existing = None if job is None else Existing(job.state, job.history, job.due)
    taken = _wrong(store, record) or take_import(record, existing, 0)
    decision = taken if isinstance(taken, str) else _packed(record, taken)
    return [
        or_false(record.enqueued_at),
        False if fields is None else seen(fields),
        decision,
    ]


def _wrong(store: Store, record: ImportedJob) -> str | None:
    try:
        partitions.check_jobs([record.job], len(store.partitions))
    except ConfigError as error:
        return str(error)
    times = [record.enqueued_at, record.job.at, *(a.ended_at for a in record.attempts)]
    if any(time is not None and not EARLIEST <= time <= LATEST for time in times):
        return "its times are not between 1938 and 2223, which Redis can keep"
    return None


def _packed(record: ImportedJob, taken: Taken) -> Packed:
    """Without attempts or times of its own, a record is due from the server's now on."""
    from_now = not record.attempts and record.job.at is None and record.enqueued_at is None
    attempts = [packed_attempt(attempt) for attempt in taken.attempts]
    return [taken.state, False if from_now else taken.due, taken.tries, attempts]
