"""Worker processes that are all ready before the first of them begins."""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.contender import Contender, Jobs
from bench.journal import Journal
from bench.loops import loop_factory

READY_SECONDS = 60
LOOK_SECONDS = 0.02  # times are taken from what the jobs note, so looking seldom costs no accuracy


@dataclass(frozen=True)
class Orders:
    """What every process of a crew does: work on the store until it is ended. Jobs note when they start and end."""

    kind: type[Contender]
    url: str
    scratch: Path
    jobs: int
    concurrency: int
    keys: int = 1
    most: int = 1
    sleep: float = 0
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def journal(self, number: int) -> Journal:
        """Where worker `number` notes its jobs."""
        return Journal(self.scratch / f"journal-{number}", self.jobs)


class Crew:
    """Processes at work since `start`."""

    def __init__(self, processes: Sequence[Any], journals: Sequence[Journal]) -> None:
        self.journals = journals
        self.start = time.monotonic_ns()
        self._processes = processes

    async def until(self, notes: int) -> None:
        """Wait until the jobs have noted this much; fail if a worker is gone."""
        while sum(len(journal) for journal in self.journals) < notes:
            if not all(process.is_alive() for process in self._processes):
                raise RuntimeError("a worker process has ended")
            await asyncio.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def at_work(orders: Orders, workers: int) -> Generator[Crew]:
    """So many processes, each with a worker, all told to begin at the same moment."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(workers + 1)
    journals = [orders.journal(number) for number in range(workers)]
    processes = [
        context.Process(target=_serve, args=(orders, number, gate), daemon=True) for number in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        gate.wait(READY_SECONDS)
        yield Crew(processes, journals)
    finally:
        for process in processes:
            process.kill()


def _serve(orders: Orders, number: int, gate: Any) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(orders, orders.journal(number), gate))


async def _work(orders: Orders, journal: Journal, gate: Any) -> None:
    async def limited(key: int) -> None:
        journal.enter(key)
        await asyncio.sleep(orders.sleep)
        journal.leave(key)

    jobs = Jobs(journal.enter, limited, orders.keys, orders.most)
    queue = orders.kind(orders.url, jobs, orders.concurrency, **orders.settings)
    async with queue.opened():
        gate.wait()
        async with queue.working():
            await asyncio.Event().wait()
