"""What many browsers ask for at once is read once: readings of a store that are kept for a second or some."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from headgate.app.app import App
from headgate.app.info import LimitInfo, QueueInfo, WorkerInfo
from headgate.app.store_info import HistoryInfo, KeyInfo, TotalsInfo
from headgate.web.events import COUNTED, LONGEST_REST, SHARE

T = TypeVar("T")
SAMPLES = 120
"""Readings of the totals that are remembered, for the small curves."""
CLOCK_LASTS = 30.0


class Reading(Generic[T]):
    """One reading, under way or done."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._begun = time.monotonic()
        self._took = 0.0
        self.task = asyncio.ensure_future(self._run(read))

    def serves(self, seconds: float) -> bool:
        """Whether it is fresh enough: the slower the store was, the longer it is left alone."""
        if not self.task.done():
            return True
        if self.task.cancelled() or self.task.exception() is not None:
            return False
        return time.monotonic() - self._begun < max(seconds, min(LONGEST_REST, SHARE * self._took))

    async def _run(self, read: Callable[[], Awaitable[T]]) -> T:
        answer = await read()
        self._took = time.monotonic() - self._begun
        return answer


class Readings:
    """Shared by all pages of one server."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[Hashable, Reading[Any]] = {}
        self.samples: deque[TotalsInfo] = deque(maxlen=SAMPLES)

    async def get(self, name: Hashable, seconds: float, read: Callable[[], Awaitable[T]]) -> T:
        """A reading that is about so old at most. Names come from a fixed set."""
        kept = self._kept.get(name)
        if kept is None or not kept.serves(seconds):
            kept = self._kept[name] = Reading(read)
        return await asyncio.shield(kept.task)

    def forget(self) -> None:
        """A change was made here: its author sees it at once."""
        self._kept = {name: kept for name, kept in self._kept.items() if name == "clock"}

    # ── what pages share ─────────────────────────────────────────────────────────────────────────────────────────

    async def totals(self) -> TotalsInfo:
        """How many jobs stand in each state."""

        async def read() -> TotalsInfo:
            totals = await self._app.totals(most=COUNTED)
            self.samples.append(totals)
            return totals

        return await self.get("totals", 0.9, read)

    async def queues(self) -> list[QueueInfo]:
        """All queues."""
        return await self.get("queues", 0.9, lambda: self._app.queues(most=COUNTED))

    async def workers(self) -> list[WorkerInfo]:
        """All workers."""
        return await self.get("workers", 0.9, self._app.workers)

    async def tightest(self, size: int) -> list[KeyInfo]:
        """The keys that most jobs wait on, each with the job that has waited longest."""

        async def read() -> list[KeyInfo]:
            return [await self._key(one) for one in await self._app.tightest(size=size)]

        return await self.get(("tightest", size), 1.5, read)

    async def _key(self, limit: LimitInfo) -> KeyInfo:
        return await self._app.key(limit.key, tenant=limit.tenant, holders=0, waiters=1)

    async def history(self, since: int, step: int) -> list[HistoryInfo]:
        """What workers did in so many seconds, by queue and task."""
        return await self.get(
            ("history", since, step), 4, lambda: self._app.history(since, step=step, each=True)
        )

    async def now(self) -> datetime:
        """The store's clock: read once in a while, and between as this machine's goes."""

        async def read() -> tuple[datetime, float]:
            return await self._app.now(), time.monotonic()

        at, read_at = await self.get("clock", CLOCK_LASTS, read)
        return (at + timedelta(seconds=time.monotonic() - read_at)).astimezone(UTC)
