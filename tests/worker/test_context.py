from __future__ import annotations

import pytest

from headgate.errors import HeadgateError, PayloadError
from headgate.hooks.context import current_job
from headgate.job import JobState
from headgate.retry import Retry
from headgate.worker import run_until_idle
from tests.support.waiting import turns
from tests.worker.stand_in import FailingEngine, StandIn, put, stored, tasks, until, working


async def test_a_job_can_ask_who_it_is(engine):
    seen = {}

    async def work():
        job = current_job()
        seen.update(
            id=job.id,
            attempt=job.attempt,
            tries=job.tries,
            last=job.last_try,
            task=job.task,
            queue=job.queue,
            tenant=job.tenant,
            metadata=job.metadata,
            cancelled=job.cancelled,
            priority=job.priority,
        )
        assert job.enqueued_at <= job.started_at

    task = StandIn("work", work, Retry(attempts=2))
    await put(engine, task, id="j", queue="mail", tenant="acme", metadata='{"a":1}')
    await run_until_idle(engine, tasks(task))
    assert seen == {
        "id": "j",
        "attempt": 1,
        "tries": 1,
        "last": False,
        "task": "work",
        "queue": "mail",
        "tenant": "acme",
        "metadata": {"a": 1},
        "cancelled": False,
        "priority": 50,
    }


def test_outside_of_a_job_there_is_no_current_job():
    with pytest.raises(HeadgateError, match="outside of a job"):
        current_job()


async def test_jobs_that_run_side_by_side_do_not_mix_up_who_they_are(engine):

    async def work():
        mine = current_job().id
        await turns()
        assert current_job().id == mine

    task = StandIn("work", work)
    ids = [await put(engine, task) for _ in range(20)]
    await run_until_idle(engine, tasks(task))
    assert set(await engine.states(ids)) == {JobState.SUCCEEDED}


async def test_progress_that_is_overtaken_is_not_sent():
    engine = FailingEngine()

    async def work():
        for step in range(50):
            current_job().progress(step)

    task = StandIn("work", work)
    id = await put(engine, task)
    await run_until_idle(engine, tasks(task))
    assert (await stored(engine, id)).progress == "49"
    assert sum(len(reports) for reports in engine.exchanges) == 2  # one progress, one outcome


async def test_the_next_attempt_finds_the_progress_of_the_last_one(engine):
    found = []

    async def work():
        found.append(current_job().previous_progress)
        current_job().progress(7)
        if len(found) == 1:
            raise ValueError

    task = StandIn("work", work, Retry(attempts=2, delay=0))
    await put(engine, task)
    await run_until_idle(engine, tasks(task))
    assert found == [None, 7]


async def test_progress_of_a_coroutine_is_seen_while_it_runs(engine):
    import asyncio

    go_on = asyncio.Event()

    async def work():
        current_job().progress("half")
        await go_on.wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task):
        await until(engine, lambda job: job.progress == '"half"', id)
        go_on.set()


async def test_progress_that_is_not_json_is_refused_where_it_is_reported(engine):
    async def work():
        with pytest.raises(PayloadError, match="progress"):
            current_job().progress(object())

    task = StandIn("work", work)
    id = await put(engine, task)
    await run_until_idle(engine, tasks(task))
    assert (await stored(engine, id)).state is JobState.SUCCEEDED
