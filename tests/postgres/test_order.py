"""The order of starts: one worker, one job at a time, strict queues, several keys.

Where newcomers are met at once it is that of the memory engine. In production claims meet them, so that several that
came since the last claim stand in the line of their key by priority, whichever came first. A claim must look at them
before it decides what is next, whatever else came back in the same step.
"""

from __future__ import annotations

import random

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Engine, Failed, Limit, Report, Succeeded, Worker
from headgate.engine.memory import MemoryEngine
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.job import NewJob
from headgate.keys import Key, Use, canonical
from tests.support.postgres_met import MetPostgresEngine
from tests.support.postgres_server import PostgresProcess

START = 1_000 * SECOND
QUEUES = ["x", "y"]
KEYS = [Key("A", str(number)) for number in range(4)] + [Key("B")]


class Walk:
    """The same random commands for every engine; notes who holds what, and who starts."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.random = random.Random(seed)
        self.now = START
        self.number = 0
        self.running: tuple[str, int] | None = None
        self.notes: list[object] = []

    async def run(self, steps: int) -> list[object]:
        await self.engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 2)], now=self.now)
        await self.engine.register(Worker("w", frozenset({"t"}), lease=10**12), now=self.now)
        for _ in range(steps):
            await self._step()
        while self.running is not None:
            await self._exchange()
        assert audit(await self.engine.snapshot(now=self.now)) == []
        return self.notes

    async def _step(self) -> None:
        self.now += self.random.randrange(SECOND)
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3:
                await self._enqueue(1)
            case 4:
                await self._enqueue(self.random.randrange(2, 6))
            case 5:
                await self.engine.sweep(now=self.now)
            case _:
                await self._exchange()

    async def _enqueue(self, most: int) -> None:
        jobs: list[NewJob] = []
        for _ in range(most):
            self.number += 1
            keys = self.random.sample(KEYS, self.random.choice([0, 1, 1, 1, 2]))
            jobs.append(
                NewJob(
                    f"j{self.number}", "t", queue=self.random.choice(QUEUES), uses=canonical((key, 1) for key in keys),
                    priority=self.random.choice([10, 50, 50, 90]), delay=self.random.choice([0, 0, 0, SECOND]),
                )
            )  # fmt: skip
        await self.engine.enqueue(jobs, now=self.now)

    async def _exchange(self) -> None:
        reports: list[Report] = []
        if self.running is not None:
            job, attempt = self.running
            again = self.random.random() < 0.2
            reports.append(
                Failed(job, attempt, "no", 0) if again and attempt < 3 else Succeeded(job, attempt)
            )
            self.running = None
        answer = await self.engine.exchange("w", reports, 1, QUEUES, now=self.now)
        while not answer.attempts and answer.more:
            answer = await self.engine.exchange("w", [], 1, QUEUES, now=self.now)
        for attempt in answer.attempts:
            self.running = (attempt.job, attempt.number)
            self.notes.append((self.now, attempt.job, attempt.number))
        holders = (await self.engine.snapshot(now=self.now)).holders
        self.notes.append({key: dict(held) for key, held in holders.items()})


@pytest.mark.parametrize("seed", range(6))
async def test_jobs_start_in_the_order_of_the_memory_engine(
    process: PostgresProcess, schema: str, seed: int
) -> None:
    engine = MetPostgresEngine(process.dsn, schema=schema)
    await engine.open()
    expected = await Walk(MemoryEngine(), seed).run(150)
    found = await Walk(engine, seed).run(150)
    await engine.close()
    first = next((n for n, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    assert first is None, f"{expected[max(0, first - 2) : first + 1]}\n{found[max(0, first - 2) : first + 1]}"
    assert len(expected) == len(found)


async def test_an_urgent_newcomer_on_an_idle_key_starts_before_the_waiters_of_a_key_that_came_back(
    engine: PostgresEngine,
) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use("c0:A=busy"),)) for n in range(5)])
    (first,) = (await engine.exchange("w", [], 1)).attempts
    for n in range(8):
        await engine.enqueue([NewJob(f"late{n}", "t", uses=(Use("c0:A=busy"),), priority=5)])
    await engine.enqueue([NewJob("urgent", "t", uses=(Use("c0:A=idle"),), priority=1)])
    answer = await engine.exchange("w", [Succeeded(first.job, 1)], 1)
    assert [attempt.job for attempt in answer.attempts] == ["urgent"]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("seed", range(3))
async def test_a_walk_with_newcomers_that_claims_meet_starts_every_job_and_holds_nothing_longer(
    engine: PostgresEngine, seed: int
) -> None:
    walk = Walk(engine, seed)
    await walk.run(150)
    walk.now += 10 * SECOND
    await engine.sweep(now=walk.now)
    for _ in range(2 * walk.number):
        await walk._exchange()
    snapshot = await engine.snapshot(now=walk.now)
    assert (snapshot.jobs, dict(snapshot.holders)) == ((), {})


@pytest.mark.parametrize("queues", [None, ["default"]])
async def test_ready_jobs_and_those_that_slots_are_passed_on_to_start_in_one_order(
    engine: PostgresEngine, queues: list[str] | None
) -> None:
    """More keys have work than the worker has places: what is ready comes before the waiters of what came back, but
    for an urgent one."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(f"c0:A={n}"),)) for n in range(6)])
    running = (await engine.exchange("w", [], 2, queues)).attempts
    await engine.enqueue([NewJob("late", "t", uses=(Use("c0:A=1"),))])
    await engine.enqueue([NewJob("urgent", "t", uses=(Use("c0:A=0"),), priority=1)])
    starts = [attempt.job for attempt in running]
    while running:
        reports = [Succeeded(attempt.job, attempt.number) for attempt in running]
        running = (await engine.exchange("w", reports, 2, queues)).attempts
        starts += [attempt.job for attempt in running]
        assert audit(await engine.snapshot()) == []
    assert starts == ["j0", "j1", "urgent", "j2", "j3", "j4", "j5", "late"]


async def test_a_ready_job_whose_key_was_lowered_meanwhile_waits_for_it(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 2)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use("c0:A"),)) for n in range(3)])
    (first,) = (await engine.exchange("w", [], 1)).attempts
    await engine.sweep()
    await engine.declare([Limit("A", "concurrency", 1)])
    assert (await engine.exchange("w", [], 1)).attempts == ()
    answer = await engine.exchange("w", [Succeeded(first.job, first.number)], 2)
    assert [attempt.job for attempt in answer.attempts] == ["j1"]
    assert audit(await engine.snapshot()) == []
