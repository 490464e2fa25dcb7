"""What operators' questions cost in a store with a million jobs, and what a drain loses while a dashboard is open.

The store is as a busy one is after some days: most jobs have ended, some of them failed, 100,000 wait on 10,000 keys
that are all held, others are ready in a paused queue or due later. Each question is a request to the HTTP API or for a
page, as a browser or a program asks it.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from bench.contender import Jobs
from bench.figures import Figures
from bench.runners.headgate.contender import Headgate
from bench.runners.headgate.watched import Dashboard
from bench.tally import Tally
from headgate.clock import SECOND
from headgate.engine.contract import Engine, Failed, Limit, Outcome, Settings, Succeeded, Worker
from headgate.engine.open import make_engine
from headgate.job import NewJob
from headgate.keys import Key, Use
from headgate.web import asgi

BATCH = 1000
FAILURES = 100
"""Every so many-th job has failed."""
AHEAD = 20_000
"""Jobs that are due later, and jobs that are ready in a paused queue."""
NS_PER_MS = 1e6
QUESTIONS = {
    "overview": "/",
    "limits page": "/limits",
    "key page": "/key?key=customer=7",
    "job page": "/jobs/waits-7",
    "jobs page": "/jobs",
    "queues page": "/queues",
    "workers page": "/workers",
    "totals": "/api/v1/totals",
    "queues": "/api/v1/queues",
    "limits": "/api/v1/limits",
    "tightest": "/api/v1/tightest",
    "key": "/api/v1/limits/customer%3D7",
    "jobs": "/api/v1/jobs",
    "jobs by state": "/api/v1/jobs?state=waiting",
    "jobs by queue": "/api/v1/jobs?queue=done3",
    "jobs by task": "/api/v1/jobs?task=t7",
    "jobs by tenant": "/api/v1/jobs?tenant=acme",
    "jobs by limit": "/api/v1/jobs?limit=customer%3D7",
    "failed of a task": "/api/v1/jobs?state=failed&task=t7",
    "failures": "/api/v1/failures",
    "job": "/api/v1/jobs/waits-7",
    "explain": "/api/v1/jobs/waits-7/explain",
    "keys of a job": "/api/v1/jobs/waits-7/keys",
    "history": "/api/v1/history",
    "a day of history": "/api/v1/history?since=86400&step=300",
    "workers": "/api/v1/workers",
}


async def reads(
    scratch: Path, url: str, jobs: int, waiting: int, keys: int, samples: int, drained: int, rounds: int
) -> Figures:
    """The median of each question in milliseconds, and a drain beside an open dashboard to one without."""
    await _fill(url, jobs, waiting, keys)
    medians = await _asked(url, samples)
    slowest = max(medians, key=medians.__getitem__)
    return {
        "most": medians[slowest],
        "slowest": slowest,
        "medians": medians,
        **await _drains(url, drained, rounds),
        "settings": f"{jobs:,} jobs, {waiting:,} waiting on {keys:,} keys",
    }


# ── a full store ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def _fill(url: str, jobs: int, waiting: int, keys: int) -> None:
    engine = make_engine(url, Settings(keep_succeeded=10**6 * SECOND))
    await engine.open()
    await engine.declare([Limit("customer", "concurrency", 1)])
    tasks = frozenset({"hold", *(f"t{n}" for n in range(10))})
    await engine.register(Worker("filler", tasks, None, 86_400 * SECOND, concurrency=keys))
    await _hold(engine, keys)
    await _store(engine, (_waits(n, keys) for n in range(waiting)))
    await _end(engine, jobs - keys - waiting - 2 * AHEAD)
    await engine.pause("later")
    await _store(engine, (NewJob(f"ready-{n}", "t1", "later", tenant="acme") for n in range(AHEAD)))
    await _store(engine, (NewJob(f"due-{n}", "t2", "later", delay=10**6 * SECOND) for n in range(AHEAD)))
    while (await engine.sweep()).more:
        pass
    await engine.close()


async def _hold(engine: Engine, keys: int) -> None:
    """Each key is held by a job that runs on."""
    for first in range(0, keys, BATCH):
        await engine.enqueue([_holds(n) for n in range(first, first + BATCH)])
        held = 0
        while held < BATCH:
            held += len((await engine.exchange("filler", [], BATCH)).attempts)


def _holds(key: int) -> NewJob:
    return NewJob(f"holds-{key}", "hold", "busy", uses=(Use(Key("customer", str(key)).ident),))


def _waits(n: int, keys: int) -> NewJob:
    return NewJob(f"waits-{n}", "hold", "busy", uses=(Use(Key("customer", str(n % keys)).ident),))


async def _store(engine: Engine, jobs: Iterable[NewJob]) -> None:
    batch: list[NewJob] = []
    for job in jobs:
        batch.append(job)
        if len(batch) == BATCH:
            await engine.enqueue(batch)
            batch = []
    await engine.enqueue(batch)


async def _end(engine: Engine, jobs: int) -> None:
    """Jobs that have been run: of ten tasks, in ten queues."""
    outcomes: list[Outcome] = []
    left, number = jobs, 0
    while left > 0 or outcomes:
        if left > 0:
            await engine.enqueue([_done(number + n) for n in range(BATCH)])
            number, left = number + BATCH, left - BATCH
        claimed = await engine.exchange("filler", outcomes, BATCH)
        outcomes = [_outcome(one.job, one.number) for one in claimed.attempts]


def _done(number: int) -> NewJob:
    return NewJob(f"done-{number}", f"t{number % 10}", f"done{number // 10 % 10}")


def _outcome(job: str, attempt: int) -> Outcome:
    number = int(job.rpartition("-")[2])
    if number % FAILURES:
        return Succeeded(job, attempt, "42")
    return Failed(job, attempt, f"ValueError: no customer {number}\n  in a line of code")


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _asked(url: str, samples: int) -> dict[str, float]:
    """Milliseconds; each question is asked in its turn, so that none is asked of a warmed store only."""
    taken: dict[str, list[float]] = {}
    async with _client(url) as client:
        for _ in range(samples + 1):
            for name, path in QUESTIONS.items():
                start = time.perf_counter_ns()
                answer = await client.get(path)
                assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
                taken.setdefault(name, []).append((time.perf_counter_ns() - start) / NS_PER_MS)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


@asynccontextmanager
async def _client(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with Headgate(url, Jobs()).app as app:
        transport = httpx.ASGITransport(asgi(app), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
            yield client


# ── a drain beside an open dashboard ─────────────────────────────────────────────────────────────────────────────────


async def _drains(url: str, jobs: int, rounds: int) -> Figures:
    """Drains in turns, with and without a page that is open; the ratio is that of the medians."""
    beside: list[float] = []
    alone: list[float] = []
    await _drain(url, jobs // 4)
    with Dashboard(url) as dashboard:
        for number in range(2 * rounds):
            watched = bool(number % 2) ^ bool(number // 2 % 2)
            dashboard.watch(on=watched)
            (beside if watched else alone).append(await _drain(url, jobs))
    rate, plain = statistics.median(beside), statistics.median(alone)
    return {
        "rate": rate, "plain_rate": plain, "ratio": rate / plain, "cpu": dashboard.cpu(),
        "beside": [round(each) for each in beside], "alone": [round(each) for each in alone],
    }  # fmt: skip


async def _drain(url: str, jobs: int) -> float:
    """Jobs per second."""
    tally = Tally(jobs)
    queue = Headgate(url, Jobs(lambda n: tally.hit()))
    async with queue.opened():
        await queue.enqueue_many(jobs)
        await asyncio.sleep(0.5)  # what the enqueue leaves to be done is no part of the drain
        start = time.perf_counter()
        async with queue.working():
            await tally.done.wait()
            return jobs / (time.perf_counter() - start)
