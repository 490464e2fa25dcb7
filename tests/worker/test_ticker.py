from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from headgate.clock import SECOND, instant_us
from headgate.engine.contract import Filter
from headgate.engine.memory import MemoryEngine
from headgate.hooks.context import current_job
from headgate.hooks.enqueueing import Enqueueing
from headgate.job import NewJob
from headgate.periodic import CatchUp, schedule
from headgate.worker import run_until_idle
from headgate.worker.duties.ticker import LONGEST_PAUSE, Ticker
from headgate.worker.events import Events
from tests.worker.stand_in import StandIn, ended, stored, tasks, working

HOUR = 3600 * SECOND
NOON = instant_us(datetime(2026, 11, 16, 12, tzinfo=UTC), "test")


async def nothing():
    pass


class Clock:
    def __init__(self) -> None:
        self.now = NOON + 5 * SECOND

    def __call__(self) -> int:
        return self.now


def hourly(catch_up: CatchUp = "one") -> StandIn:
    return StandIn("report", nothing, schedule=schedule(cron="0 * * * *", catch_up=catch_up))


def ticker(engine: MemoryEngine, *stand_ins: StandIn) -> Ticker:
    return Ticker(engine, stand_ins, Events())


async def ids(engine: MemoryEngine) -> list[str]:
    return sorted(job.id for job in await engine.find(Filter(), limit=2000))


async def test_the_first_deployment_begins_with_the_next_tick():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    duty = ticker(engine, hourly())
    await duty.run_once()
    assert await ids(engine) == []
    clock.now = NOON + HOUR
    await duty.run_once()
    assert await ids(engine) == ["report@2026-11-16T13:00:00Z"]


async def test_each_tick_becomes_one_job_however_many_workers_see_it():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    duties = [ticker(engine, hourly()) for _ in range(5)]
    for _ in range(4):
        await asyncio.gather(*(duty.run_once() for duty in duties))
        clock.now += HOUR
    assert await ids(engine) == [f"report@2026-11-16T{hour}:00:00Z" for hour in (13, 14, 15)]


async def test_a_worker_that_compares_too_late_changes_nothing():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    first, second = ticker(engine, hourly()), ticker(engine, hourly())
    await first.run_once()
    clock.now += HOUR
    seen = await engine.ticks(["report"])
    await first.run_once()
    assert first.found

    async def stale(names):
        return seen

    engine.ticks = stale
    await second.run_once()
    assert not second.found
    assert len(await ids(engine)) == 1


@pytest.mark.parametrize(("policy", "count"), [("one", 1), ("none", 0), ("all", 5)])
async def test_after_an_outage_the_policy_decides_what_is_run(policy: CatchUp, count: int):
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    duty = ticker(engine, hourly(policy))
    await duty.run_once()
    clock.now += 5 * HOUR + 120 * SECOND
    await duty.run_once()
    assert len(await ids(engine)) == count
    await duty.run_once()
    assert len(await ids(engine)) == count


async def test_it_comes_back_for_the_next_tick_and_at_least_every_minute():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    assert await ticker(engine, hourly()).run_once() == LONGEST_PAUSE
    clock.now = NOON + HOUR - 7 * SECOND
    assert await ticker(engine, hourly()).run_once() == 7


async def test_the_task_finds_its_tick_in_its_metadata():
    clock, found = Clock(), []

    async def report():
        found.append(current_job().metadata["tick"])

    engine = MemoryEngine(clock=clock)
    task = StandIn("report", report, schedule=schedule(every=3600))
    await run_until_idle(engine, tasks(task))
    clock.now += HOUR
    await run_until_idle(engine, tasks(task))
    assert found == ["2026-11-16T13:00:00Z"]


async def test_a_running_worker_ticks_by_itself(engine):
    task = StandIn("report", nothing, schedule=schedule(every=1))
    async with working(engine, task) as (_, watcher):
        ticked = await watcher.seen("ticked")
        (id,) = ticked.facts["jobs"]
        await ended(engine, id)
    assert (await stored(engine, id)).task == "report"


async def test_one_task_that_cannot_make_its_job_does_not_keep_others_from_ticking():
    class Broken(StandIn):
        def job(self, **args):
            raise ValueError("no job")

    clock = Clock()
    engine = MemoryEngine(clock=clock)
    duty = ticker(engine, Broken("broken", nothing, schedule=schedule(every=3600)), hourly())
    await duty.run_once()
    clock.now += HOUR
    await duty.run_once()
    assert await ids(engine) == ["report@2026-11-16T13:00:00Z"]


async def test_a_paused_task_does_not_tick_and_its_jobs_are_not_even_prepared():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    prepared: list[str] = []

    class Prepares(Enqueueing):
        async def prepare(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
            prepared.extend(job.id for job in jobs)
            return await super().prepare(jobs)

    duty = Ticker(engine, [hourly("all")], Events(), Prepares())
    await duty.run_once()
    await engine.pause_schedule("report")
    clock.now += 3 * HOUR
    assert 0 < await duty.run_once() <= LONGEST_PAUSE
    assert (await ids(engine), prepared, duty.found) == ([], [], False)
    await engine.resume_schedule("report")
    await duty.run_once()
    assert await ids(engine) == [], "what fell into the pause is passed over"
    clock.now += HOUR
    await duty.run_once()
    assert await ids(engine) == prepared == ["report@2026-11-16T16:00:00Z"]


async def test_a_pause_of_one_task_lets_the_others_tick():
    clock = Clock()
    engine = MemoryEngine(clock=clock)
    other = StandIn("other", nothing, schedule=schedule(cron="0 * * * *"))
    duty = ticker(engine, hourly(), other)
    await duty.run_once()
    await engine.pause_schedule("report")
    clock.now += HOUR
    await duty.run_once()
    assert await ids(engine) == ["other@2026-11-16T13:00:00Z"]
