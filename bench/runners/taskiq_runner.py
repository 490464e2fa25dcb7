"""TaskIQ on Redis, with the broker that acknowledges: streams."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from bench.background import running
from bench.child import main
from bench.contender import Contender, Jobs


class TaskiqQueue(Contender):
    """As many jobs at once as the others; no results are kept."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        # Without this the group starts behind what is queued already.
        self._broker = RedisStreamBroker(url, consumer_id="0")
        self.how = f"streams, {concurrency} at once"

        @self._broker.task(task_name="noop")
        async def noop(n: int) -> None:
            jobs.plain(n)

        self._noop: Any = noop

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        await self._broker.startup()
        yield
        await self._broker.shutdown()

    async def enqueue(self, n: int) -> None:
        await self._noop.kiq(n)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        receiver = run_receiver_task(
            self._broker, max_async_tasks=self.concurrency, max_prefetch=self.concurrency
        )
        async with running(receiver):
            yield


if __name__ == "__main__":
    main("taskiq-redis", TaskiqQueue)
