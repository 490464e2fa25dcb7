"""How a store stands as a whole: totals, the tightest keys, history."""

from __future__ import annotations

import asyncio
from collections import Counter
from heapq import nsmallest
from typing import Any

import msgspec

from headgate.engine.contract import Done, LimitStatus, Totals
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.reading import counted
from headgate.engine.redis.records import or_false
from headgate.engine.redis.standing import keys
from headgate.engine.redis.store import Store
from headgate.engine.rules.history import summed
from headgate.job import JobState

MOST_KEYS = 10_000
"""Waited-for keys of one partition that are looked at for the tightest."""


async def totals(store: Store) -> Totals:
    """The store keeps count: nothing has to be estimated."""
    by_queue, _ = counted(await store.answers("counts", []))
    counts: Counter[str] = Counter()
    for (_, state), number in by_queue.items():
        counts[state] += number
    return Totals({state: counts[state] for state in JobState})


async def tightest(store: Store, most: int, now: int | None) -> list[LimitStatus]:
    """The keys that most jobs wait on. No count of a key's waiters stands in an index: that would cost each park and
    each offer, and this is asked by people."""
    found = await asyncio.gather(*(_tightest_in(store, partition, most) for partition in store.partitions))
    first = _first([row for rows in found for row in rows], most)
    standing = await keys(store, [ident for ident, _ in first], 0, 0, now)
    return [
        msgspec.structs.replace(key.status, tokens=None, next_at=None)
        for key in standing
        if key is not None and key.status.waiting
    ]


async def _tightest_in(store: Store, partition: Partition, most: int) -> list[tuple[str, int]]:
    rows: list[tuple[str, int]] = []
    looked, last = 0, False
    while looked < MOST_KEYS:
        least = rows[-1][1] - 1 if len(rows) == most else 0
        (found, last), _ = await store.one(partition, "tightest", [least, last])
        rows = _first([*rows, *((ident, waiting) for ident, waiting in found)], most)
        if last is False:
            break
        looked += SLICE
    return rows


SLICE = 250
"""Keys per script call."""


def _first(rows: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    return nsmallest(most, rows, key=lambda row: (-row[1], row[0]))


async def history(
    store: Store, since: int, step: int, queue: str | None, task: str | None, *, each: bool
) -> list[Done]:
    """What was done, by spans of time, summed over the partitions."""
    asked = [since, or_false(queue), or_false(task), each]
    found = await asyncio.gather(*(_history_in(store, partition, asked) for partition in store.partitions))
    return summed((done for rows in found for done in rows), step, each=each)


async def _history_in(store: Store, partition: Partition, asked: list[Any]) -> list[Done]:
    found: list[Done] = []
    last: int | bool = False
    while True:
        (rows, last), _ = await store.one(partition, "history", [*asked, last])
        found += [Done(at, queue, task, *numbers) for at, queue, task, numbers in rows]
        if last is False:
            return found
