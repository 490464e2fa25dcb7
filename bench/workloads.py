"""The workloads, once for all systems. `settings` are those of the system and go to its runner unread.

Runs in the peers' environments too, so this module and everything it imports is standard library only.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Any

from bench import crew
from bench.contender import Contender, Jobs
from bench.figures import Figures
from bench.journal import last, overlap
from bench.tally import Tally

Kind = type[Contender]

PAUSE = (0.01, 0.06)
LONG_PAUSE = 1.0
LONG_EVERY = 20
NS_PER_S = 1e9
NS_PER_MS = 1e6


async def drain(kind: Kind, scratch: Path, url: str, jobs: int, concurrency: int, **settings: Any) -> Figures:
    """Run plain jobs that are already queued: from the start of a worker to the end of the last job."""
    tally = Tally(jobs)
    queue = kind(url, Jobs(lambda n: tally.hit()), concurrency, **settings)
    await queue.install()
    async with queue.opened():
        await queue.enqueue_many(jobs)
        start = time.perf_counter()
        async with queue.working():
            await tally.done.wait()
            seconds = time.perf_counter() - start
    if extra := tally.extra():
        raise AssertionError(f"{extra} jobs ran twice")
    return {"rate": jobs / seconds, "settings": queue.how}


async def enqueue(kind: Kind, scratch: Path, url: str, jobs: int, **settings: Any) -> Figures:
    """Enqueue one job after another, each awaited; no worker runs."""
    queue = kind(url, Jobs(), **settings)
    await queue.install()
    async with queue.opened():
        start = time.perf_counter()
        for n in range(jobs):
            await queue.enqueue(n)
        seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": queue.how}


async def bulk(kind: Kind, scratch: Path, url: str, jobs: int, **settings: Any) -> Figures:
    """Enqueue many jobs in as few calls as are best; making the jobs is part of it."""
    queue = kind(url, Jobs(), **settings)
    await queue.install()
    async with queue.opened():
        start = time.perf_counter()
        await queue.enqueue_many(jobs)
        seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": queue.how}


async def keys(
    kind: Kind,
    scratch: Path,
    url: str,
    jobs: int,
    keys: int,
    most: int,
    sleep: float,
    concurrency: int,
    workers: int = 1,
    **settings: Any,
) -> Figures:
    """Run jobs that sleep, at most `most` of a key at once: how near to the ideal time, how many really at once."""
    queue = kind(url, Jobs(keys=keys, most=most), concurrency, **settings)
    await queue.install()
    async with queue.opened():
        await queue.enqueue_limited(n % keys for n in range(jobs))
    orders = crew.Orders(kind, url, scratch, jobs, concurrency, keys, most, sleep, settings)
    with crew.at_work(orders, workers) as work:
        await work.until(2 * jobs)
    seconds = (last(work.journals) - work.start) / NS_PER_S
    return {
        "seconds": seconds,
        "times_ideal": seconds / (jobs / keys / most * sleep),
        "overlap": overlap(work.journals),
        "worked": sum(len(journal) > 0 for journal in work.journals),
        "settings": queue.how,
    }


async def waiting(
    kind: Kind,
    scratch: Path,
    url: str,
    jobs: int,
    waiting: int,
    concurrency: int,
    drains: int,
    **settings: Any,
) -> Figures:
    """The speed of plain jobs with `waiting` jobs behind a key that is held throughout, to the speed with none.

    Of several drains the fastest counts, before and after: a drain is short, and what disturbs it only slows it.
    `first` is the very first one behind the enqueue, to the median of those before.
    """
    held, release = asyncio.Event(), asyncio.Event()
    tally = Tally(0)

    async def hold(key: int) -> None:
        held.set()
        await release.wait()

    queue = kind(url, Jobs(lambda n: tally.hit(), hold), concurrency, **settings)

    async def rate() -> float:
        """Jobs per second from the enqueue to the end of the last."""
        nonlocal tally
        tally = Tally(jobs)
        start = time.perf_counter()
        await queue.enqueue_many(jobs)
        await tally.done.wait()
        return jobs / (time.perf_counter() - start)

    await queue.install()
    async with queue.opened(), queue.working():
        await queue.enqueue_limited([0])
        await held.wait()
        await rate()
        alone = [await rate() for _ in range(drains)]
        await queue.enqueue_limited([0] * waiting)
        beside = [await rate() for _ in range(drains)]
        # Peers are ended with their process: the run does not wait for all that waited.
        figures = {
            "rate": max(beside),
            "plain_rate": max(alone),
            "ratio": max(beside) / max(alone),
            "first": beside[0] / statistics.median(alone),
            "settings": queue.how,
        }
        release.set()
    return figures


async def latency_same(
    kind: Kind, scratch: Path, url: str, samples: int, concurrency: int, **settings: Any
) -> Figures:
    """From enqueue to start; the idle worker is in the process that enqueues."""
    starts: dict[int, int] = {}
    tally = Tally(samples + 1)

    def note(n: int) -> None:
        starts[n] = time.monotonic_ns()
        tally.hit()

    queue = kind(url, Jobs(note), concurrency, **settings)
    await queue.install()
    async with queue.opened(), queue.working():
        sent = await _send(queue, samples)
        await tally.done.wait()
        return _percentiles(sent, starts) | {"settings": queue.how}


async def latency_other(
    kind: Kind, scratch: Path, url: str, samples: int, concurrency: int, **settings: Any
) -> Figures:
    """From enqueue to start; the idle worker is another process."""
    queue = kind(url, Jobs(), concurrency, **settings)
    await queue.install()
    orders = crew.Orders(kind, url, scratch, samples, concurrency, settings=settings)
    with crew.at_work(orders, 1) as work:
        async with queue.opened():
            sent = await _send(queue, samples)
            await work.until(len(sent))
    starts = {n: at for at, n, _ in work.journals[0].notes()}
    return _percentiles(sent, starts) | {"settings": queue.how}


async def _send(queue: Contender, samples: int) -> dict[int, int]:
    """Enqueue with pauses, most of them short, some long enough for a worker to doze off. When each was sent."""
    pauses = random.Random(1)
    sent: dict[int, int] = {}
    # The first warms up.
    for n in range(samples + 1):
        await asyncio.sleep(LONG_PAUSE if n % LONG_EVERY == 0 else pauses.uniform(*PAUSE))
        sent[n] = time.monotonic_ns()
        await queue.enqueue(n)
    return sent


def _percentiles(sent: dict[int, int], starts: dict[int, int]) -> Figures:
    """In milliseconds."""
    taken = [(starts[n] - at) / NS_PER_MS for n, at in sent.items() if n > 0]
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98], "most": max(taken)}


WORKLOADS = {
    each.__name__: each for each in (drain, enqueue, bulk, keys, waiting, latency_same, latency_other)
}
