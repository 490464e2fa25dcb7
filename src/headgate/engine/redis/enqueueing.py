"""New jobs on their way into a partition.

Most are stored and arrive in one step. Very many with keys of their own would keep the server busy for too long: they
are stored in one step, all or none, as scheduled jobs that are due; then they arrive, a slice at a time. Should the
caller die before the last of these, sweeps let the others arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.engine.contract import Enqueued, Limit
from headgate.engine.redis.records import (
    Packed,
    or_false,
    packed_jobs,
    packed_limit,
    packed_more,
    packed_need,
    packed_spec,
)
from headgate.engine.redis.store import Store
from headgate.job import JobState, NewJob
from headgate.keys import Key

AT_ONCE = 100
"""Newcomers with keys of their own that arrive in one script call: it takes a few milliseconds."""

STATES = {state.value: state for state in JobState}


async def enqueue(
    store: Store, number: int, jobs: Sequence[NewJob], limits: Sequence[Limit], now: int | None
) -> list[Enqueued]:
    """Store jobs in one partition, all or none."""
    if len(jobs) > AT_ONCE < len({(job.uses, job.unique) for job in jobs}) and await _store(
        store, number, jobs, limits, now
    ):
        store.remember(limits)
        store.settle_in(number, (job.id for job in jobs))
        return await _arrive(store, number, jobs, now)
    return await _at_once(store, number, jobs, limits, now)


async def _at_once(
    store: Store, number: int, jobs: Sequence[NewJob], limits: Sequence[Limit], now: int | None
) -> list[Enqueued]:
    packed, specs = packed_jobs(jobs)
    given = ([packed_limit(limit) for limit in limits], packed)
    straight = store.detours
    told = store.watchers.coming(
        lambda: (job.queue for job in jobs if not job.uses and not job.delay and job.at is None), number
    )
    (states, there), _ = await store.one(store.partitions[number], "enqueue", given, specs, now)
    store.remember(limits)
    store.settle_in(number, (job.id for job in jobs))
    found = [Enqueued(job.id, STATES[state], True) for job, state in zip(jobs, states, strict=True)]
    store.settle_in(number, (id for _, id in there))
    for place, id in there:
        found[place - 1] = Enqueued(id, STATES[states[place - 1]], False)
    _tell(store, number, jobs, states, told if store.detours == straight else set())
    return found


async def _store(
    store: Store, number: int, jobs: Sequence[NewJob], limits: Sequence[Limit], now: int | None
) -> bool:
    """False, with nothing changed, where an id or a unique key is taken: the step for a few knows what to do."""
    given, packed = _packed(jobs)
    declared = [packed_limit(limit) for limit in limits]
    done, _ = await store.one(store.partitions[number], "store", [declared, *given], packed, now)
    return done is True


def _packed(jobs: Sequence[NewJob]) -> tuple[list[Any], list[bytes]]:
    ways: dict[tuple[Any, ...], int] = {}
    numbers = [ways.setdefault(_way(job), len(ways) + 1) for job in jobs]
    first = 3 + len(jobs)
    common: list[Packed] = [[*way[:2], first + place, *way[3:]] for place, way in enumerate(ways)]
    uses = {
        (Key.of(use.key).name, use.key[0], use.units != 1): (use.key, use.units)
        for job in jobs
        for use in job.uses
    }
    specs = [packed_spec(job) for job in jobs]
    return [[job.id for job in jobs], numbers, common, list(uses.values())], [
        *specs,
        *(way[2] for way in ways),
    ]


def _way(job: NewJob) -> tuple[Any, ...]:
    """What many have in common: delay, time, need, queue, the field of its unique key, when it must start, what it
    brings."""
    field = False if job.unique is None else f"{len(job.tenant.encode())}:{job.tenant}{job.unique}"
    return job.delay, or_false(job.at), packed_need(job), job.queue, field, packed_more(job) or False


async def _arrive(store: Store, number: int, jobs: Sequence[NewJob], now: int | None) -> list[Enqueued]:
    """One slice after the other: scripts that are sent together are not interrupted."""
    states: list[str] = []
    for first in range(0, len(jobs), AT_ONCE):
        ids = [job.id for job in jobs[first : first + AT_ONCE]]
        found, _ = await store.one(store.partitions[number], "arrive", ids, now=now)
        states += [state or JobState.READY.value for state in found]
    _tell(store, number, jobs, states, set())
    return [Enqueued(job.id, STATES[state], True) for job, state in zip(jobs, states, strict=True)]


def _tell(store: Store, number: int, jobs: Sequence[NewJob], states: Sequence[str], told: set[str]) -> None:
    store.watchers.came(
        lambda: (job.queue for job, state in zip(jobs, states, strict=True) if state == "ready"), told, number
    )
