"""Dramatiq on Redis."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.child import main
from bench.contender import Contender, Jobs

THREADS = 16  # of 1, 2, 4, 8, 16 and 32 the best; 8, the default, comes close


class DramatiqQueue(Contender):
    """Threads; the default middleware."""

    how = f"{THREADS} threads"

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        self._broker = RedisBroker(url=url)

        @dramatiq.actor(broker=self._broker)
        def noop(n: int) -> None:
            jobs.plain(n)

        self._noop: Any = noop

    async def enqueue(self, n: int) -> None:
        self._noop.send(n)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        dramatiq.Worker(self._broker, worker_threads=THREADS).start()
        yield


if __name__ == "__main__":
    main("dramatiq", DramatiqQueue)
