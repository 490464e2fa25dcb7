"""Enqueue, one by one and in bulk; nobody works."""

import time
from pathlib import Path

from bench.child import Figures
from headgate import App


async def enqueue(scratch: Path, url: str, jobs: int) -> Figures:
    """Enqueue one job after another, each awaited."""
    app = App(url)

    @app.task
    async def noop(n: int) -> None: ...

    async with app:
        start = time.perf_counter()
        for n in range(jobs):
            await noop.enqueue(n)
        seconds = time.perf_counter() - start
    return {"rate": jobs / seconds}


async def bulk(scratch: Path, url: str, jobs: int) -> Figures:
    """Enqueue many jobs in one call; making them is part of it."""
    app = App(url)

    @app.task
    async def noop(n: int) -> None: ...

    async with app:
        start = time.perf_counter()
        await app.enqueue_many([noop.job(n) for n in range(jobs)])
        seconds = time.perf_counter() - start
    return {"rate": jobs / seconds}
