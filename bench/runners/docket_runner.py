"""Docket on Redis."""

# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated

from docket import ConcurrencyLimit, Docket, Worker

from bench.background import running
from bench.child import main
from bench.contender import Contender, Jobs

POLL = timedelta(milliseconds=10)


class DocketQueue(Contender):
    """Tuned: as many jobs at once as the others, and a look for new ones every 10 ms instead of 250."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100, tuned: bool = True) -> None:
        super().__init__(url, jobs, concurrency)
        # The client opens a connection for each job at work, and allows 100 unless told otherwise.
        self._docket = Docket("bench", f"{url}?max_connections=1000")
        self._options = (
            {"concurrency": concurrency, "minimum_check_interval": POLL, "scheduling_resolution": POLL}
            if tuned
            else {}
        )
        self.how = f"{concurrency} at once, check every 10 ms" if tuned else "defaults"

        async def noop(n: int) -> None:
            jobs.plain(n)

        async def work(key: Annotated[int, ConcurrencyLimit(jobs.most)]) -> None:
            await jobs.limited(key)

        self._noop, self._work = noop, work

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        async with self._docket:
            self._docket.register(self._noop)
            self._docket.register(self._work)
            yield

    async def enqueue(self, n: int) -> None:
        await self._docket.add(self._noop)(n)

    async def enqueue_many(self, count: int) -> None:
        await self._docket.add_many(self._docket.call(self._noop)(n) for n in range(count))

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        await self._docket.add_many(self._docket.call(self._work)(key) for key in keys)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        async with Worker(self._docket, **self._options) as worker, running(worker.run_forever()):
            yield


if __name__ == "__main__":
    main("pydocket", DocketQueue)
