from __future__ import annotations

import asyncio

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import Limit
from headgate.engine.memory import MemoryEngine
from headgate.job import JobState
from headgate.keys import Key, canonical
from headgate.periodic import schedule
from headgate.retry import Retry
from headgate.worker import Worker, run_until_idle
from tests.support.waiting import turns
from tests.worker.stand_in import FailingEngine, StandIn, Watcher, ended, put, stored, tasks


async def nothing():
    pass


async def test_every_ready_job_is_run_and_counted(engine):
    task = StandIn("work", nothing)
    ids = [await put(engine, task) for _ in range(250)]
    assert await run_until_idle(engine, tasks(task), concurrency=7) == 250
    assert set(await engine.states(ids)) == {JobState.SUCCEEDED}
    assert await engine.workers() == []


async def test_an_empty_engine_is_idle_at_once(engine):
    assert await run_until_idle(engine, {}) == 0


async def test_jobs_that_jobs_enqueue_are_run_too(engine):
    async def parent():
        await put(engine, child, id="child")

    child = StandIn("child", nothing)
    task = StandIn("parent", parent)
    await put(engine, task)
    assert await run_until_idle(engine, tasks(task, child)) == 2
    assert (await stored(engine, "child")).state is JobState.SUCCEEDED


async def test_jobs_behind_a_limit_are_run_one_after_the_other(engine):
    running, most = 0, 0

    async def work():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turns()
        running -= 1

    task, uses = StandIn("work", work), canonical([(Key("A"), 1)])
    await engine.declare([Limit("A", "concurrency", 1)])
    for _ in range(20):
        await put(engine, task, uses=uses)
    assert await run_until_idle(engine, tasks(task)) == 20
    assert most == 1


async def test_what_needs_time_is_left(engine):
    async def fail():
        raise ValueError

    fails, task = StandIn("fails", fail, Retry(attempts=2, delay=60)), StandIn("work", nothing)
    await engine.declare([Limit("R", "rate", 1, period=3600 * SECOND)])
    rate = canonical([(Key("R", rate=True), 1)])
    later = await put(engine, task, delay=60 * SECOND)
    retried = await put(engine, fails)
    ids = [await put(engine, task, uses=rate) for _ in range(2)]
    assert await run_until_idle(engine, tasks(task, fails)) == 2
    assert await engine.states([later, retried]) == [JobState.SCHEDULED] * 2
    assert await engine.states(ids) == [JobState.SUCCEEDED, JobState.WAITING]


async def test_jobs_of_unknown_tasks_and_of_other_queues_are_left(engine):
    known, unknown = StandIn("known", nothing), StandIn("unknown", nothing)
    stranger = await put(engine, unknown)
    elsewhere = await put(engine, known, queue="other")
    assert await run_until_idle(engine, tasks(known), queues=["default"]) == 0
    assert await engine.states([stranger, elsewhere]) == [JobState.READY] * 2


async def test_moving_the_clock_makes_scheduled_jobs_and_ticks_due():
    now = 1_700_000_000 * SECOND
    engine = MemoryEngine(clock=lambda: now)
    task = StandIn("tick", nothing, schedule=schedule(every=3600))
    assert await run_until_idle(engine, tasks(task)) == 0  # the first deployment begins with the next tick
    later = await put(engine, task, delay=1800 * SECOND)
    assert await run_until_idle(engine, tasks(task)) == 0
    now += 3600 * SECOND
    assert await run_until_idle(engine, tasks(task)) == 2
    assert (await stored(engine, later)).state is JobState.SUCCEEDED


async def test_a_worker_asks_again_at_once_where_there_is_more(failing: FailingEngine):
    exchange, finish, idle = failing.exchange, asyncio.Event(), []

    async def one_at_a_time(worker, reports, want, *args, **kwargs):
        idle.append(watcher.count("idle"))
        answer = await exchange(worker, reports, min(want, 1), *args, **kwargs)
        if len(idle) == 5:
            finish.set()
        return msgspec.structs.replace(answer, more=bool(answer.attempts))

    failing.exchange = one_at_a_time
    task = StandIn("work", finish.wait)
    ids = [await put(failing, task) for _ in range(5)]
    worker = Worker(failing, tasks(task))
    watcher = Watcher(worker)
    async with worker:
        await ended(failing, *ids)
    assert idle[:5] == [0] * 5
