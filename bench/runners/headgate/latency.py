"""From enqueue to start with an idle worker. Most pauses are short; some are long enough for a worker to doze off."""

import asyncio
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.child import Figures
from bench.runners.headgate.process import until_ready, worker_process
from headgate import App

PAUSE = (0.01, 0.06)
LONG_PAUSE = 1.0
LONG_EVERY = 20
GIVE_UP_SECONDS = 30
NS_PER_MS = 1e6


async def latency_same(scratch: Path, url: str, samples: int) -> Figures:
    """The worker is in the process that enqueues."""
    app = App(url)
    starts: asyncio.Queue[int] = asyncio.Queue()

    @app.task
    async def started(n: int) -> None:
        starts.put_nowait(time.monotonic_ns())

    async def once(n: int) -> float:
        before = time.monotonic_ns()
        await started.enqueue(n)
        return (await starts.get() - before) / NS_PER_MS

    async with app, app.worker():
        return await _percentiles(once, samples)


async def latency_other(scratch: Path, url: str, samples: int) -> Figures:
    """The worker is another process on the same store."""
    os.environ["HEADGATE_URL"] = url
    from bench.runners.headgate.served import app, started

    async def once(n: int) -> float:
        before = time.monotonic_ns()
        job = await started.enqueue(n)
        return (await job.result(timeout=GIVE_UP_SECONDS) - before) / NS_PER_MS

    with worker_process(url) as process:
        async with app:
            await until_ready(process, await started.enqueue(0))
            return await _percentiles(once, samples)


async def _percentiles(once: Callable[[int], Awaitable[float]], samples: int) -> Figures:
    """Milliseconds; the first sample warms up and is not counted."""
    pauses = random.Random(1)
    await once(0)
    taken: list[float] = []
    for n in range(samples):
        await asyncio.sleep(LONG_PAUSE if n % LONG_EVERY == 0 else pauses.uniform(*PAUSE))
        taken.append(await once(n))
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98], "most": max(taken)}
