"""Unrelated work beside many jobs that wait behind one held key."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

from bench.child import Figures
from bench.tally import Tally
from headgate import App, ConcurrencyLimit


async def waiting(scratch: Path, url: str, jobs: int, waiting: int, concurrency: int, drains: int) -> Figures:
    """The speed of no-ops with `waiting` jobs behind a key that is held throughout, to the speed with none.

    Of several drains the fastest counts, before and after: a drain is short, and what disturbs it only slows it.
    """
    app = App(url)
    held, release = asyncio.Event(), asyncio.Event()
    tally = Tally(0, lambda: None)

    @app.task
    async def hold(account: Annotated[str, ConcurrencyLimit(1)]) -> None:
        held.set()
        await release.wait()

    @app.task
    async def noop(n: int) -> None:
        tally.hit()

    async def rate() -> float:
        """Jobs per second from the enqueue to the end of the last."""
        nonlocal tally
        done = asyncio.Event()
        tally = Tally(jobs, done.set)
        start = time.perf_counter()
        await app.enqueue_many([noop.job(n) for n in range(jobs)])
        await done.wait()
        return jobs / (time.perf_counter() - start)

    async with app, app.worker(concurrency=concurrency):
        await hold.enqueue("main")
        await held.wait()
        await rate()
        alone = [await rate() for _ in range(drains)]
        await app.enqueue_many(hold.job("main") for _ in range(waiting))
        await rate()
        beside = [await rate() for _ in range(drains)]
        release.set()
    plain_rate, blocked_rate = max(alone), max(beside)
    return {"rate": blocked_rate, "plain_rate": plain_rate, "ratio": blocked_rate / plain_rate}
