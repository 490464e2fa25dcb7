"""All verbs against each other: the server never has to break a deadlock, and the audit never finds anything.

A few seconds by default; `HEADGATE_DEADLOCK_SECONDS` for longer: `make test-postgres` takes a minute.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import (
    Failed,
    Filter,
    ImportedJob,
    Limit,
    Override,
    Released,
    Report,
    Snoozed,
    Stopped,
    Succeeded,
    Worker,
)
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.errors import EngineError, JobExists, LeaseLost
from headgate.job import NewJob, PastAttempt
from headgate.keys import Key, canonical
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess

SECONDS = float(os.environ.get("HEADGATE_DEADLOCK_SECONDS", "3"))
QUEUES = ["x", "y", "z"]
LIMITS = [
    *(Limit(name, "concurrency", number) for name, number in (("A", 1), ("B", 2), ("C", 5))),
    Limit("F", "floating", 3),
    Limit("R", "rate", 20, SECOND),
    Limit("W", "rate", 30, SECOND, algorithm="sliding_window"),
    Limit("task:t", "concurrency", 40),
]


class Storm:
    """Verbs with random subjects, from few names so that they meet."""

    def __init__(self, engines: list[PostgresEngine], seed: int) -> None:
        self.engines = engines
        self.random = random.Random(seed)
        self.ids = [f"j{number}" for number in range(400)]
        self.calls = 0
        self.looks_taken = 0

    def job(self) -> NewJob:
        names = self.random.sample(["A", "B", "C", "F", "R", "W"], self.random.choice([0, 0, 1, 2, 3, 4]))
        needs = [
            (Key(name, str(self.random.randrange(3)) if name in "ABC" else None, rate=name in "RW"), 1)
            for name in names
        ]
        unique = self.random.choice([None, None, f"u{self.random.randrange(20)}"])
        return NewJob(
            self.random.choice(self.ids), self.random.choice("tu"), self.random.choice(QUEUES),
            delay=self.random.choice([0, 0, 0, 20_000]), uses=canonical(needs), unique=unique,
            on_conflict=self.random.choice(["return", "raise", "replace"]), retention=self.random.choice([None,
            50_000]),
        )  # fmt: skip

    async def work(self, engine: PostgresEngine, worker: str, until: float) -> None:
        await engine.register(Worker(worker, frozenset("tu"), lease=2 * SECOND))
        reports: list[Report] = []
        while asyncio.get_running_loop().time() < until:
            try:
                if self.random.random() < 0.1:
                    await engine.heartbeat(worker)
                answer = await engine.exchange(worker, reports, self.random.randrange(1, 20))
            except LeaseLost:
                await engine.register(Worker(worker, frozenset("tu"), lease=2 * SECOND))
                reports = []
                continue
            self.calls += 1
            reports = [self.report(attempt.job, attempt.number) for attempt in answer.attempts]
            if self.random.random() < 0.02:
                await engine.retire(worker)

    def report(self, job: str, attempt: int) -> Report:
        kinds: list[Callable[[], Report]] = [
            lambda: Succeeded(job, attempt),
            lambda: Succeeded(job, attempt),
            lambda: Failed(job, attempt, "boom"),
            lambda: Failed(job, attempt, "boom", self.random.choice([0, 10_000])),
            lambda: Snoozed(job, attempt, 0),
            lambda: Stopped(job, attempt),
            lambda: Released(job, attempt),
        ]
        return self.random.choice(kinds)()

    async def steer(self, engine: PostgresEngine, until: float) -> None:
        while asyncio.get_running_loop().time() < until:
            with suppress(JobExists):
                await self.random.choice(self.verbs(engine))()
            self.calls += 1

    async def watch(self, engine: PostgresEngine, until: float) -> None:
        """Whatever was committed fits together, at every instant."""
        while asyncio.get_running_loop().time() < until:
            assert audit(await engine.snapshot()) == []
            self.looks_taken += 1
            await asyncio.sleep(0.01)

    async def tick(self, engine: PostgresEngine) -> None:
        name = self.random.choice(["nightly", "hourly"])
        seen = (await engine.ticks([name])).get(name)
        await engine.tick(name, seen, (seen or 0) + 1, [self.job()])

    async def within(self, engine: PostgresEngine) -> None:
        """In a caller's transaction, which takes its time and may come to nothing."""
        async with engine.pools.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await engine.enqueue_within(
                    connection, [self.job() for _ in range(self.random.randrange(1, 6))]
                )
                await asyncio.sleep(self.random.choice([0, 0.01, 0.05]))
            finally:
                await self.random.choice([transaction.commit, transaction.commit, transaction.rollback])()

    async def by_sql(self, engine: PostgresEngine) -> None:
        options = {"queue": self.random.choice(QUEUES), "unique": f"u{self.random.randrange(20)}"}
        limits = [{"name": "A", "key": "1"}, {"name": "R"}, {"name": "B", "key": "2"}]
        options |= {
            "limits": self.random.sample(limits, 2),
            "on_conflict": self.random.choice(["return", "replace"]),
        }
        try:
            await engine._store.call("enqueue", "t", "{}", msgspec.json.encode(options).decode())
        except EngineError as error:
            if "UniqueViolation" not in str(error):  # what it would replace is running
                raise

    def looks(self, engine: PostgresEngine) -> list[Callable[[], Awaitable[object]]]:
        id = self.random.choice(self.ids)
        return [
            lambda: engine.snapshot(),
            lambda: engine.limits(),
            lambda: engine.explain(id),
            lambda: engine.find(Filter(queue="x")),
            lambda: engine.count(Filter()),
            lambda: engine.queues(),
            lambda: engine.workers(),
            lambda: engine.keys_in_use("F"),
        ]

    def verbs(self, engine: PostgresEngine) -> list[Callable[[], Awaitable[object]]]:
        some = self.random.sample(self.ids, 8)
        queue = self.random.choice(QUEUES)
        number = self.random.randrange(4)
        key = str(self.random.randrange(3))
        past = (PastAttempt(1, "failed", 1, 2),)
        return [
            *[lambda: engine.enqueue([self.job() for _ in range(self.random.randrange(1, 6))])] * 5,
            lambda: engine.cancel(some),
            lambda: engine.restart(some),
            lambda: engine.expedite(some),
            lambda: engine.delete(some),
            lambda: engine.sweep(),
            lambda: engine.sweep(),
            lambda: engine.override(Override("A", number, key)),
            lambda: engine.override(Override("queue:x", 10 + number)),
            lambda: engine.clear_override("A", key),
            lambda: engine.compute("c0:F", number),
            lambda: engine.declare([Limit("B", "concurrency", 1 + number)]),
            lambda: engine.import_jobs([ImportedJob(self.job(), past), ImportedJob(self.job())]),
            lambda: engine.enqueue([self.job()], limits=[Limit("C", "concurrency", 3 + number)]),
            lambda: engine.import_jobs(
                [ImportedJob(self.job())], limits=[Limit("C", "concurrency", 3 + number)]
            ),
            *[lambda: self.within(engine)] * 2,
            lambda: self.by_sql(engine),
            lambda: self.tick(engine),
            lambda: engine.pause(queue),
            *[lambda: engine.resume(queue)] * 2,
            lambda: engine.meet(),
            lambda: engine.migrate(),
            self.random.choice(self.looks(engine)),
        ]


def deadlocks(process: PostgresProcess) -> int:
    return process.execute("SELECT sum(deadlocks)::int FROM pg_stat_database")[0][0]


class Names(Storm):
    """Few ids and unique keys, many of them in each call and in any order, old ones among them."""

    def __init__(self, engines: list[PostgresEngine], seed: int) -> None:
        super().__init__(engines, seed)
        self.ids = [f"j{number}" for number in range(60)]

    def batch(self) -> list[NewJob]:
        ids = self.random.sample(self.ids, 8)
        return [msgspec.structs.replace(self.job(), id=id, unique=self.unique()) for id in ids]

    def unique(self) -> str | None:
        return self.random.choice([None, *(f"u{number}" for number in range(6))])

    def verbs(self, engine: PostgresEngine) -> list[Callable[[], Awaitable[object]]]:
        some = self.random.sample(self.ids, 30)
        past = (PastAttempt(1, "failed", 1, 2),)
        return [
            lambda: engine.enqueue(self.batch()),
            lambda: engine.enqueue([job for job in self.batch() if job.unique]),
            lambda: engine.import_jobs([ImportedJob(job, past) for job in self.batch() + self.batch()]),
            lambda: engine.import_jobs([ImportedJob(job) for job in self.batch()]),
            *[lambda: self.within(engine)] * 2,
            lambda: self.by_sql(engine),
            lambda: self.tick(engine),
            lambda: engine.cancel(some),
            lambda: engine.restart(some),
            lambda: engine.delete(some),
            lambda: engine.delete(self.ids),
            lambda: engine.sweep(),
        ]


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("kind", [Storm, Names])
async def test_no_two_verbs_can_wait_for_each_other_for_ever(
    kind: type[Storm], open_engine: OpenEngine, process: PostgresProcess
) -> None:
    before = deadlocks(process)
    engines = [await open_engine() for _ in range(4)]
    await engines[0].declare(LIMITS)
    storm = kind(engines, seed=int(os.environ.get("HEADGATE_SEED", "1")))
    until = asyncio.get_running_loop().time() + SECONDS
    async with asyncio.TaskGroup() as group:
        for number, engine in enumerate(engines):
            group.create_task(storm.work(engine, f"w{number}", until))
            group.create_task(storm.work(engine, f"v{number}", until))
            group.create_task(storm.steer(engine, until))
            group.create_task(storm.steer(engine, until))
        group.create_task(storm.watch(engines[0], until))
    await asyncio.sleep(1.2)  # the server's statistics are written once a second
    assert deadlocks(process) == before
    assert storm.calls > 50
    assert storm.looks_taken > 5
    await engines[0].sweep()
    assert audit(await engines[0].snapshot()) == []
