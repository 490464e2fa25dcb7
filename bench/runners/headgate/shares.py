"""Fair shares: whether starts are divided as they should be, and what that costs."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figures
from bench.tally import Tally
from headgate import App, ConcurrencyLimit
from headgate.job import NewJob

WARM_UP = 500
SLOTS = 8
LINES = ("ready", "key")


class _Shared:
    """A store whose jobs note whose they are, in the order of their starts. Those of the line `key` need one of a few
    slots that all tenants share."""

    def __init__(self, url: str, weights: dict[str, float]) -> None:
        self.starts: list[str] = []
        self.app = app = App(url)
        self._enough, self._stop_at = asyncio.Event(), 0
        for line in LINES:
            app.queue(line, share_by="tenant", weights=weights)

        @app.task(queue="ready")
        async def by_itself(tenant: str) -> None:
            self._note(tenant)

        @app.task(queue="key", limits=[ConcurrencyLimit(SLOTS, scope="account", shared=True)])
        async def on_a_key(tenant: str) -> None:
            self._note(tenant)

        self._tasks = {"ready": by_itself, "key": on_a_key}

    def _note(self, tenant: str) -> None:
        self.starts.append(tenant)
        if len(self.starts) == self._stop_at:
            self._enough.set()

    async def enqueue(self, line: str, tenant: str, jobs: int) -> None:
        job = self._tasks[line].options(tenant=tenant).job
        await self.app.enqueue_many([job(tenant) for _ in range(jobs)])

    async def work(self, line: str, starts: int, concurrency: int) -> list[str]:
        """Whose the next so many jobs are."""
        before = len(self.starts)
        self._stop_at = before + starts
        self._enough.clear()
        async with self.app.worker(queues=[line], concurrency=concurrency):
            await self._enough.wait()
        return self.starts[before : before + starts]


async def share_newcomer(
    scratch: Path, url: str, waiting: int, jobs: int, before: int, concurrency: int
) -> Figures:
    """A tenant with a long backlog, some of which has run, and a newcomer: which start is the newcomer's last one?"""
    last: dict[str, int] = {}
    shared = _Shared(url, {})
    async with shared.app:
        for line in LINES:
            await shared.enqueue(line, "noisy", waiting)
            await shared.work(line, before, concurrency)
            await shared.enqueue(line, "quiet", jobs)
            starts = await shared.work(line, min(waiting - before, 10 * jobs), concurrency)
            found = [place for place, tenant in enumerate(starts, 1) if tenant == "quiet"]
            last[line] = found[-1] if len(found) == jobs else len(starts) + 1
    return {"last": max(last.values()), **last}


async def share_weights(scratch: Path, url: str, jobs: int, weight: float, concurrency: int) -> Figures:
    """How many of so many starts a share of this weight gets for each of a share of weight 1."""
    got: dict[str, float] = {}
    shared = _Shared(url, {"heavy": weight, "light": 1})
    async with shared.app:
        for line in LINES:
            for tenant in ("light", "heavy"):
                await shared.enqueue(line, tenant, jobs)
            counts = Counter(await shared.work(line, jobs, concurrency))
            got[line] = counts["heavy"] / counts["light"]
    return {"off": max(abs(ratio - weight) for ratio in got.values()), **got}


async def share_cost(
    scratch: Path, url: str, tenants: int, each: int, turns: int, concurrency: int, apart: bool = False
) -> Figures:
    """Drain as many jobs of so many tenants, in turns from a queue that is shared and from one that is not. The fastest
    of several turns counts: what disturbs one only slows it. `apart`: the jobs of a tenant come all at once."""
    app = App(url)
    tally = Tally(0)
    app.queue("shared", share_by="tenant")

    @app.task(queue="plain")
    async def plain() -> None:
        tally.hit()

    @app.task(queue="shared")
    async def shared() -> None:
        tally.hit()

    async def turn(made: Sequence[NewJob]) -> tuple[float, float]:
        """Jobs per second: from the start of a worker to the end of the last job, and enqueued."""
        nonlocal tally
        start = time.perf_counter()
        await app.enqueue_many(made)
        enqueued = time.perf_counter() - start
        tally = Tally(len(made))
        start = time.perf_counter()
        async with app.worker(concurrency=concurrency):
            await tally.done.wait()
            seconds = time.perf_counter() - start
        return len(made) / seconds, len(made) / enqueued

    names = [f"tenant-{n}" for n in range(tenants)]
    rates: dict[str, list[tuple[float, float]]] = {"plain": [], "shared": []}
    async with app:
        for task in (plain, shared):
            await turn([task.options(tenant="warm").job() for _ in range(WARM_UP)])
        for _ in range(turns):
            for name, task in (("plain", plain), ("shared", shared)):
                makers = [task.options(tenant=tenant).job for tenant in names]
                ordered = [job for job in makers for _ in range(each)] if apart else makers * each
                rates[name].append(await turn([job() for job in ordered]))
    (plain_rate, plain_enqueue), (rate, enqueue) = (
        map(max, zip(*turns, strict=True)) for turns in rates.values()
    )
    return {
        "rate": rate,
        "plain_rate": plain_rate,
        "ratio": rate / plain_rate,
        "enqueue_ratio": enqueue / plain_enqueue,
    }
