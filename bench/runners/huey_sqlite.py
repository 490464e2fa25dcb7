"""Huey on SQLite. Its consumer polls; 1 ms keeps that from showing."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import threading
import time
from pathlib import Path
from typing import Any

from huey import Huey
from huey.storage import SqliteStorage

from bench.child import Figures, main
from bench.tally import Tally

# All threads share one connection under a lock. Of 1, 2, 4, 8 and 16, two came out best or within noise of it.
THREADS = 2


class NormalStorage(SqliteStorage):
    """Syncs the file at checkpoints instead of at every commit: the durability that the other systems have."""

    def _create_connection(self) -> Any:
        connection = super()._create_connection()
        connection.execute("pragma synchronous = normal")
        return connection


def open_huey(scratch: Path, synchronous: str) -> Huey:
    """A fresh queue; WAL is Huey's default."""
    storage = NormalStorage if synchronous == "normal" else SqliteStorage
    return Huey("bench", storage_class=storage, filename=str(scratch / "huey.db"))


def drain(scratch: Path, jobs: int, concurrency: int, synchronous: str = "full") -> Figures:
    """Run `jobs` no-ops that are already queued."""
    huey = open_huey(scratch, synchronous)
    done = threading.Event()
    tally = Tally(jobs, done.set)

    @huey.task()
    def noop(n: int) -> None:
        tally.hit()

    for n in range(jobs):
        noop(n)
    consumer = huey.create_consumer(workers=THREADS, periodic=False, initial_delay=0.001, max_delay=0.01)
    start = time.perf_counter()
    consumer.start()
    done.wait()
    seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": f"{THREADS} threads, poll 1 ms, synchronous={synchronous}"}


def enqueue(scratch: Path, jobs: int, synchronous: str = "full") -> Figures:
    """Enqueue one job after another."""
    huey = open_huey(scratch, synchronous)

    @huey.task()
    def noop(n: int) -> None: ...

    start = time.perf_counter()
    for n in range(jobs):
        noop(n)
    seconds = time.perf_counter() - start
    return {"rate": jobs / seconds, "settings": f"synchronous={synchronous}"}


if __name__ == "__main__":
    main("huey", {"drain": drain, "enqueue": enqueue})
