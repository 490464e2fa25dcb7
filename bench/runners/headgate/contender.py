"""Headgate as one of the contenders."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Annotated

import headgate.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]  loaded beforehand, as peers do
from bench.contender import Contender, Jobs
from headgate import App, ConcurrencyLimit


class Headgate(Contender):
    """An app with the two tasks, all else by default."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        self.app = App(url)

        @self.app.task
        async def noop(n: int) -> None:
            jobs.plain(n)

        @self.app.task
        async def work(key: Annotated[int, ConcurrencyLimit(jobs.most)]) -> None:
            await jobs.limited(key)

        self._noop, self._work = noop, work

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        async with self.app:
            yield

    async def enqueue(self, n: int) -> None:
        await self._noop.enqueue(n)

    async def enqueue_many(self, count: int) -> None:
        await self.app.enqueue_many([self._noop.job(n) for n in range(count)])

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        await self.app.enqueue_many([self._work.job(key) for key in keys])

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async with self.app.worker(concurrency=self.concurrency):
            yield
