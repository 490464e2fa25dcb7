"""Run no-ops that are already queued, without limits and with three."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from bench.child import Figures
from bench.tally import Tally
from headgate import App, ConcurrencyLimit
from headgate.job import NewJob

WARM_UP = 500
ROOM = 1_000  # more than ever run at once: such a limit costs its bookkeeping and refuses nobody


class Drains:
    """Enqueues jobs, then times a worker that runs them to the end. A job says `self.tally.hit()`."""

    def __init__(self, app: App, concurrency: int) -> None:
        self._app = app
        self._concurrency = concurrency
        self.tally = Tally(0, lambda: None)

    async def rate(self, jobs: Iterable[NewJob]) -> float:
        """Jobs per second from the start of a worker to the end of the last job."""
        done = asyncio.Event()
        queued = await self._app.enqueue_many(jobs)
        self.tally = Tally(len(queued), done.set)
        start = time.perf_counter()
        async with self._app.worker(concurrency=self._concurrency):
            await done.wait()
            seconds = time.perf_counter() - start
        if extra := self.tally.extra():
            raise AssertionError(f"{extra} jobs ran twice")
        return len(queued) / seconds


async def drain(scratch: Path, url: str, jobs: int, concurrency: int) -> Figures:
    """Run `jobs` no-ops."""
    app = App(url)
    drains = Drains(app, concurrency)

    @app.task
    async def noop(n: int) -> None:
        drains.tally.hit()

    async with app:
        return {"rate": await drains.rate(noop.job(n) for n in range(jobs))}


async def three_limits(scratch: Path, url: str, jobs: int, concurrency: int) -> Figures:
    """Run `jobs` no-ops with three limits each, then as many of the same shape without."""
    app = App(url)
    drains = Drains(app, concurrency)

    @app.task
    async def plain(n: int, customer: int, region: int, account: str) -> None:
        drains.tally.hit()

    @app.task
    async def limited(
        n: int,
        customer: Annotated[int, ConcurrencyLimit(ROOM)],
        region: Annotated[int, ConcurrencyLimit(ROOM)],
        account: Annotated[str, ConcurrencyLimit(ROOM)],
    ) -> None:
        drains.tally.hit()

    async with app:
        for task in (plain, limited):
            await drains.rate(task.job(n, n % 500, n % 5, "main") for n in range(WARM_UP))
        rate = await drains.rate(limited.job(n, n % 500, n % 5, "main") for n in range(jobs))
        plain_rate = await drains.rate(plain.job(n, n % 500, n % 5, "main") for n in range(jobs))
    return {"rate": rate, "plain_rate": plain_rate, "ratio": rate / plain_rate}
