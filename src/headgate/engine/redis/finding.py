"""Finding jobs by id and by filter, over all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headgate.engine.contract import Filter, JobPage
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.reading import counted
from headgate.engine.redis.records import arrival, or_false, or_none, read_job
from headgate.engine.redis.store import Store
from headgate.job import Job
from headgate.keys import Key

MOST = 500
"""Jobs per script call."""

Fields = Sequence[Any]


async def fields_in(store: Store, partition: Partition, ids: Sequence[str]) -> list[Fields | None]:
    """What one partition keeps of these jobs."""
    found: list[Fields | None] = []
    for start in range(0, len(ids), MOST):
        batch = list(ids[start : start + MOST])
        _, raw = await store.one(partition, "get", batch)
        found += raw
    return found


async def fields(store: Store, ids: Sequence[str]) -> list[Fields | None]:
    """What any partition keeps of these jobs."""
    return await store.by_ids("get", ids, lambda kept: kept is None)


async def find(store: Store, wanted: Filter, limit: int, after: str | None) -> list[Job]:
    """Jobs that match, newest first."""
    if wanted.states == ():
        return []
    if wanted.ids is not None:
        return (await _by_ids(store, wanted, after))[:limit]
    if len(store.partitions) == 1:
        return await _find_in(store, store.partitions[0], wanted, limit, after)
    return (await _merged(store, wanted, limit, after))[:limit]


async def _find_in(
    store: Store, partition: Partition, wanted: Filter, limit: int, after: str | None = None
) -> list[Job]:
    """Slice by slice, until enough is found or nothing is left."""
    found: list[Job] = []
    before: int | bool = False
    while len(found) < limit:
        most = min(limit - len(found), MOST)
        (_, before, _), raw = await store.one(
            partition, "find", [*_packed(wanted), before, or_false(after), most]
        )
        found += [read_job(fields, history=False) for fields in raw]
        if before is False:
            break
    return found


async def find_page(store: Store, wanted: Filter, limit: int, after: str | None, looks: int) -> JobPage:
    """Slice by slice, until enough is found or looked at. Of several partitions each finds a whole page."""
    if wanted.ids is not None or wanted.states == () or len(store.partitions) > 1:
        found = await find(store, wanted, limit, after)
        return JobPage(tuple(found), found[-1].id if len(found) == limit else None)
    found, before, rest = list[Job](), cast("int | bool", False), None
    for _ in range(max(1, looks // MOST)):
        given = [*_packed(wanted), before, or_false(after), min(limit - len(found), MOST)]
        (_, before, rest), raw = await store.one(store.partitions[0], "find", given)
        found += [read_job(fields, history=False) for fields in raw]
        if before is False or len(found) == limit:
            break
    if len(found) == limit:
        return JobPage(tuple(found), found[-1].id)
    return JobPage(tuple(found), None if before is False else or_none(rest))


async def _merged(store: Store, wanted: Filter, limit: int, after: str | None) -> list[Job]:
    """Arrival numbers of partitions cannot be compared: here the newest is the one enqueued last."""
    kept = None if after is None else (await fields(store, [after]))[0]
    last = None if kept is None else read_job(kept)
    found: list[Job] = []
    for partition in store.partitions:
        most = limit
        while True:
            jobs = await _find_in(store, partition, wanted, most)
            older = [job for job in jobs if last is None or _age(job) > _age(last)]
            if len(older) >= limit or len(jobs) < most:
                break
            most *= 4
        found += older
    return sorted(found, key=_age)


def _age(job: Job) -> tuple[int, str]:
    return -job.enqueued_at, job.id


async def _by_ids(store: Store, wanted: Filter, after: str | None) -> list[Job]:
    """Few ids: fetched and looked at here."""
    assert wanted.ids is not None
    kept = [found for found in await fields(store, list(dict.fromkeys(wanted.ids))) if found is not None]
    kept.sort(key=arrival, reverse=True)
    if after is not None:
        (last,) = await fields(store, [after])
        kept = [found for found in kept if last is None or arrival(found) < arrival(last)]
    jobs = (read_job(found, history=False) for found in kept)
    return [job for job in jobs if _matches(job, wanted)]


async def count(store: Store, wanted: Filter) -> int:
    """How many match."""
    if wanted.states == ():
        return 0
    if wanted.ids is not None:
        return len(await _by_ids(store, wanted, None))
    if wanted == Filter(states=wanted.states, queue=wanted.queue):
        return await _counted(store, wanted)
    total = 0
    for partition in store.partitions:
        before: int | bool = False
        while True:
            (number, before, _), _ = await store.one(partition, "find", [*_packed(wanted), before, False, 0])
            total += number
            if before is False:
                break
    return total


async def _counted(store: Store, wanted: Filter) -> int:
    """By state and queue the store keeps count."""
    counts, _ = counted(await store.answers("counts", []))
    return sum(
        number
        for (queue, state), number in counts.items()
        if (wanted.states is None or state in wanted.states) and wanted.queue in (None, queue)
    )


def _packed(wanted: Filter) -> list[Any]:
    states = False if wanted.states is None else dict.fromkeys(wanted.states, True)
    return [
        states, or_false(wanted.queue), or_false(wanted.task), or_false(wanted.tenant), or_false(wanted.waiting_on),
        or_false(wanted.unique), or_false(wanted.error), or_false(wanted.ended_since), or_false(wanted.ended_until),
    ]  # fmt: skip


def _matches(job: Job, wanted: Filter) -> bool:
    return (
        (wanted.states is None or job.state in wanted.states)
        and wanted.queue in (None, job.queue)
        and wanted.task in (None, job.task)
        and wanted.tenant in (None, job.tenant)
        and (wanted.waiting_on is None or _waits_on(job, wanted.waiting_on))
        and wanted.unique in (None, job.unique)
        and (wanted.error is None or _has_error(job, wanted.error))
        and _ended_within(job, wanted.ended_since, wanted.ended_until)
    )


def _has_error(job: Job, text: str) -> bool:
    return job.error is not None and text in job.error.partition("\n")[0]


def _ended_within(job: Job, since: int | None, until: int | None) -> bool:
    if since is None and until is None:
        return True
    at = job.ended_at if job.state.ended else None
    return at is not None and (since is None or at >= since) and (until is None or at < until)


def _waits_on(job: Job, text: str) -> bool:
    if job.waiting_on is None:
        return False
    key = Key.of(job.waiting_on)
    return text in (key.text, key.name)
