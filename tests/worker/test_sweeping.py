from __future__ import annotations

import asyncio
from itertools import pairwise

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Worker
from headgate.job import JobState
from headgate.keys import Key, canonical
from tests.support.waiting import turns
from tests.worker.stand_in import StandIn, ended, lateness, put, working


async def nothing():
    pass


async def test_a_delayed_job_is_run_when_its_time_comes(engine):
    task = StandIn("work", nothing)
    async with working(engine, task) as (_, watcher):
        await watcher.seen("idle")
        id = await put(engine, task, delay=SECOND // 20)
        (job,) = await ended(engine, id)
    assert 0 <= lateness(job) < SECOND


async def test_a_due_time_that_comes_nearer_is_not_slept_through(engine):
    task = StandIn("work", nothing)
    async with working(engine, task) as (_, watcher):
        far = await put(engine, task, delay=3600 * SECOND)
        await watcher.seen("swept")
        near = await put(engine, task, delay=SECOND // 50)
        (job,) = await ended(engine, near)
        assert await engine.states([far]) == [JobState.SCHEDULED]
    assert lateness(job) < SECOND


async def test_a_rate_lets_its_waiters_go_one_by_one(engine):
    task = StandIn("work", nothing)
    await engine.declare([Limit("R", "rate", 50, period=SECOND, burst=1)])
    uses = canonical([(Key("R", rate=True), 1)])
    async with working(engine, task):
        jobs = await ended(engine, *[await put(engine, task, uses=uses) for _ in range(10)])
    starts = sorted(job.history[0].started_at for job in jobs)
    assert all(later - earlier >= SECOND // 50 for earlier, later in pairwise(starts))


async def test_the_jobs_of_a_dead_worker_are_taken_over(engine):
    task = StandIn("work", nothing)
    id = await put(engine, task)
    await engine.register(Worker("dead", frozenset({"work"}), lease=SECOND // 10))
    await engine.exchange("dead", (), 1)
    async with working(engine, task):
        (job,) = await ended(engine, id)
    assert [past.outcome for past in job.history] == ["lost", "succeeded"]


def recorded(engine) -> list[str]:
    """The exchanges and sweeps that the engine is asked for from now on."""
    calls: list[str] = []

    def record(name, verb):
        async def call(*args, **kwargs):
            calls.append(name)
            return await verb(*args, **kwargs)

        return call

    engine.exchange, engine.sweep = record("exchange", engine.exchange), record("sweep", engine.sweep)
    return calls


async def test_a_worker_looks_for_work_first_and_sweeps_at_once_if_something_is_due(failing):
    task = StandIn("work", nothing)
    id = await put(failing, task, delay=1)
    calls = recorded(failing)
    begun = asyncio.get_running_loop().time()
    async with working(failing, task):
        await ended(failing, id)
    assert calls[:2] == ["exchange", "sweep"]
    assert asyncio.get_running_loop().time() - begun < 0.5


async def test_an_idle_worker_asks_the_engine_about_twice_a_second_at_most(failing):
    calls = recorded(failing)
    async with working(failing, StandIn("work", nothing)) as (_, watcher):
        await watcher.seen("swept", 3)
        await turns()
    assert len(calls) <= 9
