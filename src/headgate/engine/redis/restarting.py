"""Restarts with other arguments: what jobs are stored with is made in Python, as for new ones, and a script puts it in.

The script checks that the job is as it was when Python looked at it. If it is not, it stops there, and the rest is
looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.engine.contract import NewArguments, Verdict
from headgate.engine.redis import partitions
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.finding import Fields, fields_in
from headgate.engine.redis.records import asked_more, packed_need, packed_spec, read_job, seen
from headgate.engine.redis.store import CHANGED_AT_ONCE, Store
from headgate.job import JobState, NewJob


async def restart(
    store: Store, ids: Sequence[str], arguments: NewArguments, now: int | None
) -> list[Verdict]:
    """Each partition restarts the jobs that it has. The keys are checked everywhere before anything is changed."""
    await store.answers("restart_with", [_uses(arguments), [], []], now)
    homes: dict[str, Partition] = {}
    for partition in store.partitions:
        missing = [id for id in ids if id not in homes]
        jobs = [_with(kept, arguments) for kept in await fields_in(store, partition, missing) if kept]
        partitions.check_jobs(jobs, len(store.partitions))
        homes |= {job.id: partition for job in jobs}
    rows = {
        partition: iter(
            await _restart_in(
                store, partition, [id for id in ids if homes.get(id) is partition], arguments, now
            )
        )
        for partition in {*homes.values()}
    }
    return [next(rows[homes[id]]) if id in homes else Verdict(id, False, None) for id in ids]


async def _restart_in(
    store: Store, partition: Partition, ids: Sequence[str], arguments: NewArguments, now: int | None
) -> list[Verdict]:
    rows: list[Any] = []
    while len(rows) < len(ids):
        batch = list(ids[len(rows) : len(rows) + CHANGED_AT_ONCE])
        stored = await fields_in(store, partition, batch)
        jobs = [_with(kept, arguments) if kept else None for kept in stored]
        as_seen = [seen(kept) if kept else False for kept in stored]
        packed = [part(job) if job else b"" for job in jobs for part in (packed_spec, packed_need)]
        given = [_uses(arguments), batch, as_seen]
        answer, _ = await store.one(partition, "restart_with", given, packed, now)
        rows += answer
    return [Verdict(id, done, None if state is False else JobState(state)) for id, done, state in rows]


def _uses(arguments: NewArguments) -> list[tuple[str, int]]:
    return [(use.key, use.units) for use in arguments.uses]


def _with(kept: Fields, arguments: NewArguments) -> NewJob:
    """A stored job as a new one with these arguments, and with all else that it asked for."""
    job = msgspec.structs.asdict(read_job(kept, history=False))
    share = job["share"] if job["share"] is None or arguments.share is None else arguments.share
    job |= {"args": arguments.args, "uses": arguments.uses, "share": share, **asked_more(kept)}
    return NewJob(**{name: value for name, value in job.items() if name in NewJob.__struct_fields__})
