"""SAQ on Redis or PostgreSQL."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from saq import Queue, Worker

from bench.background import running
from bench.child import main
from bench.contender import Contender, Jobs


class SaqQueue(Contender):
    """As many jobs at once as the others."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        self._queue = Queue.from_url(url)
        self.how = f"{concurrency} at once"

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        await self._queue.connect()
        yield
        await self._queue.disconnect()

    async def enqueue(self, n: int) -> None:
        await self._queue.enqueue("noop", n=n)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async def noop(context: Any, *, n: int) -> None:
            self.jobs.plain(n)

        worker = Worker(self._queue, [("noop", noop)], concurrency=self.concurrency)
        async with running(worker.start()):
            yield


if __name__ == "__main__":
    main("saq", SaqQueue)
