"""FlexiQ on SQLite, Redis or PostgreSQL: async tasks, and the claim size that proved best for each workload.

A cap of FlexiQ belongs to a task, so a key is a task of its own here.
"""

# pyright: reportMissingImports=false

import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from flexiq import Queue

from bench.child import main
from bench.contender import Contender, Jobs

BATCH = 1000
BULK_CHUNK = 1000  # faster than one call for all


class FlexiqQueue(Contender):
    """A poll every millisecond. On SQLite, WAL with synchronous=NORMAL is FlexiQ's default."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100, batch: int = BATCH) -> None:
        super().__init__(url, jobs, concurrency)
        self.how = (
            f"async, {concurrency} workers, claims of {batch}, poll 1 ms, enqueue_many by {BULK_CHUNK:,}"
        )
        self._queue = Queue(
            **_store(url),
            workers=concurrency,
            async_concurrency=concurrency,
            scheduler_batch_size=batch,
            scheduler_poll_interval_ms=1,
        )

        @self._queue.task(name="noop")
        async def noop(n: int) -> None:
            jobs.plain(n)

        self._noop: Any = noop
        self._work = [self._declare(key) for key in range(jobs.keys)]

    def _declare(self, key: int) -> Any:
        @self._queue.task(name=f"work-{key}", max_concurrent=self.jobs.most)
        async def work() -> None:
            await self.jobs.limited(key)

        return work

    async def enqueue(self, n: int) -> None:
        self._noop.delay(n)

    async def enqueue_many(self, count: int) -> None:
        for first in range(0, count, BULK_CHUNK):
            self._queue.enqueue_many("noop", [(n,) for n in range(first, min(first + BULK_CHUNK, count))])

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._work[key].delay()

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        threading.Thread(target=self._queue.run_worker, daemon=True).start()
        yield


def _store(url: str) -> dict[str, str]:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return {"db_path": rest.removeprefix("/")}
    return {"backend": {"postgresql": "postgres"}.get(scheme, scheme), "db_url": url}


if __name__ == "__main__":
    main("flexiq", FlexiqQueue)
