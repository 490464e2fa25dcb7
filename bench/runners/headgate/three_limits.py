"""What limits cost that refuse no job."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from bench.figures import Figures
from bench.tally import Tally
from headgate import App, ConcurrencyLimit
from headgate.job import NewJob

WARM_UP = 500
ROOM = 1_000  # more than ever run at once: such a limit costs its bookkeeping and refuses no job


async def three_limits(scratch: Path, url: str, jobs: int, concurrency: int) -> Figures:
    """Run `jobs` no-ops with three limits each, then as many of the same shape without."""
    app = App(url)
    tally = Tally(0)

    @app.task
    async def plain(n: int, customer: int, region: int, account: str) -> None:
        tally.hit()

    @app.task
    async def limited(
        n: int,
        customer: Annotated[int, ConcurrencyLimit(ROOM)],
        region: Annotated[int, ConcurrencyLimit(ROOM)],
        account: Annotated[str, ConcurrencyLimit(ROOM)],
    ) -> None:
        tally.hit()

    async def drain(made: Iterable[NewJob]) -> float:
        """Jobs per second from the start of a worker to the end of the last job."""
        nonlocal tally
        queued = await app.enqueue_many(made)
        tally = Tally(len(queued))
        start = time.perf_counter()
        async with app.worker(concurrency=concurrency):
            await tally.done.wait()
            return len(queued) / (time.perf_counter() - start)

    async with app:
        for task in (plain, limited):
            await drain(task.job(n, n % 500, n % 5, "main") for n in range(WARM_UP))
        rate = await drain(limited.job(n, n % 500, n % 5, "main") for n in range(jobs))
        plain_rate = await drain(plain.job(n, n % 500, n % 5, "main") for n in range(jobs))
    return {"rate": rate, "plain_rate": plain_rate, "ratio": rate / plain_rate}
