"""What many browsers ask for at once is read once: readings of a store that are kept for a second or some."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from headgate.app.app import App
from headgate.app.info import LimitInfo, QueueInfo, WorkerInfo
from headgate.app.store_info import HistoryInfo, KeyInfo, TotalsInfo

T = TypeVar("T")
MOST = 10_000
SAMPLES = 120
"""Readings of the totals that are remembered, for the small curves."""
CLOCK_LASTS = 30.0


class Readings:
    """Shared by all pages of one server."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}
        self.samples: deque[TotalsInfo] = deque(maxlen=SAMPLES)

    async def get(self, name: Hashable, seconds: float, read: Callable[[], Awaitable[T]]) -> T:
        """A reading that is at most so old. Names come from a fixed set."""
        kept = self._kept.get(name)
        if kept is None or self._is_stale(kept, seconds):
            kept = (time.monotonic(), asyncio.ensure_future(_run(read)))
            self._kept[name] = kept
        try:
            return await asyncio.shield(kept[1])
        except BaseException:
            if self._kept.get(name) is kept and kept[1].done():
                del self._kept[name]
            raise

    def forget(self) -> None:
        """A change was made here: its author sees it at once."""
        self._kept = {name: kept for name, kept in self._kept.items() if name == "clock"}

    def _is_stale(self, kept: tuple[float, asyncio.Task[Any]], seconds: float) -> bool:
        begun, task = kept
        return task.done() and time.monotonic() - begun > seconds

    # ── what pages share ─────────────────────────────────────────────────────────────────────────────────────────

    async def totals(self) -> TotalsInfo:
        """How many jobs stand in each state."""

        async def read() -> TotalsInfo:
            totals = await self._app.totals(most=MOST)
            self.samples.append(totals)
            return totals

        return await self.get("totals", 0.9, read)

    async def queues(self) -> list[QueueInfo]:
        """All queues."""
        return await self.get("queues", 0.9, lambda: self._app.queues(most=MOST))

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


async def _run(read: Callable[[], Awaitable[T]]) -> T:
    return await read()
