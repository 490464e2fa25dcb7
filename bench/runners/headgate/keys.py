"""Jobs that sleep, on keys with a limit: how near to the ideal time, and how many of one key really at once."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

from bench.child import Figures
from bench.tally import Overlap, Tally
from headgate import App, ConcurrencyLimit


async def keys(
    scratch: Path, url: str, jobs: int, keys: int, most: int, sleep: float, concurrency: int
) -> Figures:
    """Run `jobs` jobs over `keys` keys with at most `most` of a key at once."""
    app = App(url)
    done = asyncio.Event()
    tally, overlap = Tally(jobs, done.set), Overlap()

    @app.task
    async def work(n: int, key: Annotated[int, ConcurrencyLimit(most)]) -> None:
        overlap.enter(key)
        await asyncio.sleep(sleep)
        overlap.leave(key)
        tally.hit()

    async with app:
        await app.enqueue_many([work.job(n, n % keys) for n in range(jobs)])
        start = time.perf_counter()
        async with app.worker(concurrency=concurrency):
            await done.wait()
            seconds = time.perf_counter() - start
    ideal = jobs / keys / most * sleep
    return {"seconds": seconds, "times_ideal": seconds / ideal, "overlap": overlap.largest}
