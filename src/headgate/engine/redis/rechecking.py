"""Self-healing (rule 20): scripts find and mend, the sentences are those of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.engine.contract import Rechecked
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.records import or_false, or_none
from headgate.engine.redis.store import Store
from headgate.engine.rules.mended import forgotten_waiters, late_timer, lost_worker, stray_holder

MOST = 200
"""Orphans per script call."""


async def recheck(
    store: Store, partition: Partition, after: str | None, most: int, now: int | None
) -> Rechecked:
    """Mend the next slice of keys; the first slice also loses attempts for which no lease stands."""
    given = [or_false(after), most]
    (rows, last, missing), _ = await store.one(partition, "recheck", given, now=now)
    healed = await _orphans(store, partition, now) if missing else []
    return Rechecked((*healed, *map(_sentence, rows)), or_none(last))


async def _orphans(store: Store, partition: Partition, now: int | None) -> list[str]:
    """Looks through all jobs, slice by slice: only where the counts say that some are missing."""
    before: int | bool = False
    healed: list[str] = []
    while True:
        (ids, before), _ = await store.one(partition, "orphans", [before], now=now)
        for start in range(0, len(ids), MOST):
            lost, _ = await store.one(partition, "lose_orphans", ids[start : start + MOST], now=now)
            healed += [lost_worker(id, worker) for id, worker in lost]
        if before is False:
            return healed


def _sentence(row: Sequence[Any]) -> str:
    match row:
        case ["holder", key, id, state]:
            return stray_holder(key, id, or_none(state))
        case ["waiters", key, queue, id]:
            return forgotten_waiters(key, queue, id)
        case _:
            return late_timer(row[1])
