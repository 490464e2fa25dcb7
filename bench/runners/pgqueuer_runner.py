"""PgQueuer on PostgreSQL. A limit belongs to an entrypoint there, so each key is an entrypoint of its own."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

from bench.background import running
from bench.child import main
from bench.contender import Contender, Jobs

BATCH = 1000  # of 200, 1,000, 2,000 and 5,000 the best


class PgQueuerQueue(Contender):
    """Large batches, from which its speed comes; how many jobs run at once has no bound then."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100, batch: int = BATCH) -> None:
        super().__init__(url, jobs, concurrency)
        self._batch = batch
        self.how = f"asyncpg, batches of {batch:,}"

    async def install(self) -> None:
        connection = await asyncpg.connect(self.url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        self._client = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._client))
        yield
        await self._client.close()

    async def enqueue(self, n: int) -> None:
        await self._queries.enqueue("noop", _packed(n))

    async def enqueue_many(self, count: int) -> None:
        await self._queries.enqueue(["noop"] * count, [_packed(n) for n in range(count)], [0] * count)

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        names = [f"work-{key}" for key in keys]
        await self._queries.enqueue(names, [None] * len(names), [0] * len(names))

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        connection = await asyncpg.connect(self.url)
        queue = PgQueuer.from_asyncpg_connection(connection)

        @queue.entrypoint("noop")
        async def noop(job: Any) -> None:
            self.jobs.plain(int.from_bytes(job.payload))

        for key in range(self.jobs.keys):
            self._declare(queue, key)
        async with running(queue.qm.run(batch_size=self._batch)):
            yield
        await connection.close()

    def _declare(self, queue: PgQueuer, key: int) -> None:
        @queue.entrypoint(f"work-{key}", concurrency_limit=self.jobs.most)
        async def work(job: Any) -> None:
            await self.jobs.limited(key)


def _packed(n: int) -> bytes:
    return n.to_bytes(8)


if __name__ == "__main__":
    main("pgqueuer", PgQueuerQueue)
