"""A long drain: whether speed falls off as rows come and go, and how large the tables are at the end."""

import itertools
import time
from pathlib import Path

from bench.contender import Jobs
from bench.figures import Figures
from bench.runners.headgate.contender import Headgate
from bench.tally import Tally

PARTS = 10
SIZES = """
SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'headgate'::regnamespace AND c.relname = ANY ($1) ORDER BY c.relname
"""
TABLES = ["jobs", "live", "ended", "holders", "keys", "rechecks"]
MB = 1_000_000


async def million(scratch: Path, url: str, jobs: int, concurrency: int) -> Figures:
    """Enqueue all, then drain all: jobs per second in each tenth of the drain; the sizes of the tables afterwards."""
    import asyncpg

    tally = Tally(jobs)
    ends: list[float] = []
    done = 0

    def note(n: int) -> None:
        nonlocal done
        done += 1
        if done % (jobs // PARTS) == 0:
            ends.append(time.perf_counter())
        tally.hit()

    queue = Headgate(url, Jobs(note), concurrency)
    async with queue.opened():
        start = time.perf_counter()
        await queue.enqueue_many(jobs)
        enqueued = jobs / (time.perf_counter() - start)
        ends.append(time.perf_counter())
        async with queue.working():
            await tally.done.wait()
    rates = [jobs / PARTS / (end - begin) for begin, end in itertools.pairwise(ends)]
    connection = await asyncpg.connect(url)
    sizes = await connection.fetch(SIZES, TABLES)
    await connection.close()
    return {
        "rate": jobs / (ends[-1] - ends[0]),
        "enqueue_rate": enqueued,
        "ratio": min(rates[1:]) / max(rates[:2]),
        "rates": [round(rate) for rate in rates],
        "sizes": ", ".join(f"{name} {table / MB:.0f} + {index / MB:.0f} MB" for name, table, index in sizes),
    }
