"""The PostgreSQL engine as it compares with the others.

Rule 8 lets a PostgreSQL enqueue leave limited jobs ready until a claim or a sweep meets them, since it may ride in a
caller's transaction and locks no limits. That is the one visible difference between the engines, and this is the one
place that evens it out: newcomers are met right after each enqueue, by the routine that every sweep runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.contract import Enqueued, Limit
from headgate.engine.postgres import PostgresEngine
from headgate.job import NewJob


class MetPostgresEngine(PostgresEngine):
    """Meets newcomers at once."""

    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        enqueued = await super().enqueue(jobs, limits=limits, now=now)
        met = await self.meet(now=now)
        return [Enqueued(each.id, met.get(each.id, each.state), each.created) for each in enqueued]

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        moved = await super().tick(name, seen, at, jobs, now=now)
        await self.meet(now=now)
        return moved
