"""FlexiQ on SQLite: async tasks, a poll every millisecond, and the claim size that proved best for each workload.

A cap of FlexiQ belongs to a task, so a key is a task of its own here.
"""

# pyright: reportMissingImports=false

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

from flexiq import Queue

from bench.child import Figures, main
from bench.tally import Overlap, Tally

DRAIN_BATCH = 1000
KEYS_BATCH = 1  # a larger claim meets more jobs over their cap and puts each of them back
BULK_CHUNK = 1000  # faster than one call for all


def open_queue(scratch: Path, concurrency: int = 100, batch: int = 1) -> Any:
    """A fresh queue. WAL with synchronous=NORMAL is FlexiQ's default."""
    return Queue(
        db_path=str(scratch / "flexiq.db"),
        workers=concurrency,
        async_concurrency=concurrency,
        scheduler_batch_size=batch,
        scheduler_poll_interval_ms=1,
    )


def settings(concurrency: int, batch: int) -> str:
    """How the queue was opened, for the record."""
    return f"async, {concurrency} workers, claims of {batch}, poll 1 ms, synchronous=normal"


def run_to_end(queue: Any, done: threading.Event) -> float:
    """Seconds from the start of a worker to the end of the last job."""
    worker = threading.Thread(target=queue.run_worker, daemon=True)
    start = time.perf_counter()
    worker.start()
    done.wait()
    return time.perf_counter() - start


def drain(scratch: Path, jobs: int, concurrency: int) -> Figures:
    """Run `jobs` no-ops that are already queued."""
    queue = open_queue(scratch, concurrency, DRAIN_BATCH)
    done = threading.Event()
    tally = Tally(jobs, done.set)

    @queue.task(name="noop")
    async def noop(n: int) -> None:
        tally.hit()

    queue.enqueue_many("noop", [(n,) for n in range(jobs)])
    seconds = run_to_end(queue, done)
    return {"rate": jobs / seconds, "settings": settings(concurrency, DRAIN_BATCH)}


def enqueue(scratch: Path, jobs: int) -> Figures:
    """Enqueue one job after another."""
    queue = open_queue(scratch)

    @queue.task(name="noop")
    async def noop(n: int) -> None: ...

    start = time.perf_counter()
    for n in range(jobs):
        noop.delay(n)
    seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": "synchronous=normal"}


def bulk(scratch: Path, jobs: int) -> Figures:
    """Enqueue many jobs in a few calls."""
    queue = open_queue(scratch)

    @queue.task(name="noop")
    async def noop(n: int) -> None: ...

    start = time.perf_counter()
    for first in range(0, jobs, BULK_CHUNK):
        queue.enqueue_many("noop", [(n,) for n in range(first, min(first + BULK_CHUNK, jobs))])
    seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": f"enqueue_many by {BULK_CHUNK:,}, synchronous=normal"}


def keys(scratch: Path, jobs: int, keys: int, most: int, sleep: float, concurrency: int) -> Figures:
    """Run `jobs` that sleep, spread over `keys` capped at `most` each: one task per key."""
    queue = open_queue(scratch, concurrency, KEYS_BATCH)
    done = threading.Event()
    tally, overlap = Tally(jobs, done.set), Overlap()

    def declare(key: int) -> Any:
        @queue.task(name=f"work-{key}", max_concurrent=most)
        async def work() -> None:
            overlap.enter(key)
            await asyncio.sleep(sleep)
            overlap.leave(key)
            tally.hit()

        return work

    tasks = [declare(key) for key in range(keys)]
    for n in range(jobs):
        tasks[n % keys].delay()
    seconds = run_to_end(queue, done)
    ideal = jobs / keys / most * sleep
    return {
        "seconds": seconds,
        "times_ideal": seconds / ideal,
        "overlap": overlap.largest,
        "settings": settings(concurrency, KEYS_BATCH),
    }


if __name__ == "__main__":
    main("flexiq", {"drain": drain, "enqueue": enqueue, "bulk": bulk, "keys": keys})
