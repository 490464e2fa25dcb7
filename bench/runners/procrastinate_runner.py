"""Procrastinate on PostgreSQL. Its limit is a lock: one job at a time of those that name it."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job

from bench.background import running
from bench.child import main
from bench.contender import Contender, Jobs

CHUNK = 1000
POOL = 10  # connections; 4, 20 and 50 were slower


class ProcrastinateQueue(Contender):
    """As many jobs at once as the others."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        self._app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))
        self.how = f"{concurrency} at once, {POOL} connections, batches of {CHUNK:,}"

        @self._app.task(name="noop")
        async def noop(n: int) -> None:
            jobs.plain(n)

        @self._app.task(name="work")
        async def work(key: int) -> None:
            await jobs.limited(key)

        self._noop: Any = noop
        self._work: Any = work

    async def install(self) -> None:
        async with self.opened():
            await self._app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        async with self._app.open_async():
            yield

    async def enqueue(self, n: int) -> None:
        await self._noop.defer_async(n=n)

    async def enqueue_many(self, count: int) -> None:
        for first in range(0, count, CHUNK):
            batch = range(first, min(first + CHUNK, count))
            await self._noop.batch_defer_async(*({"n": n} for n in batch))

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        jobs = [self._job(key) for key in keys]
        for first in range(0, len(jobs), CHUNK):
            await self._app.job_manager.batch_defer_jobs_async(jobs[first : first + CHUNK])

    def _job(self, key: int) -> Job:
        return self._work.configure(lock=f"key-{key}").job.evolve(task_kwargs={"key": key})

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        work = self._app.run_worker_async(concurrency=self.concurrency, install_signal_handlers=False)
        async with running(work):
            yield


if __name__ == "__main__":
    main("procrastinate", ProcrastinateQueue)
