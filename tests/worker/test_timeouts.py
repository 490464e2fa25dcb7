from __future__ import annotations

import asyncio
import threading

from headgate.job import JobState
from headgate.retry import Retry
from tests.worker.stand_in import StandIn, ended, error_of, put, stored, until, working

SHORT = 20_000  # microseconds


async def test_a_coroutine_past_its_timeout_is_cancelled_and_fails(engine):
    cancelled = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    task = StandIn("work", work, Retry(attempts=1))
    id = await put(engine, task, timeout=SHORT)
    async with working(engine, task):
        (job,) = await ended(engine, id)
    assert cancelled == [True]
    assert job.state is JobState.FAILED
    assert error_of(job).startswith("TimeoutError: the attempt did not end within its timeout of 0.02 s")


async def test_a_timeout_is_retried_if_the_policy_covers_it(engine):
    async def work():
        await asyncio.Event().wait()

    task = StandIn("work", work, Retry(attempts=2, delay=0, on=TimeoutError))
    id = await put(engine, task, timeout=SHORT)
    async with working(engine, task):
        (job,) = await ended(engine, id)
    assert (job.state, job.tries) == (JobState.FAILED, 2)


async def test_what_a_coroutine_returns_after_its_timeout_comes_too_late(engine):
    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"

    task = StandIn("work", work, Retry(attempts=1))
    id = await put(engine, task, timeout=SHORT)
    async with working(engine, task):
        (job,) = await ended(engine, id)
    assert job.state is JobState.FAILED


async def test_a_job_that_ends_in_time_leaves_no_timer_behind(engine):
    async def work():
        return 1

    task = StandIn("work", work)
    id = await put(engine, task, timeout=SHORT)
    async with working(engine, task):
        (job,) = await ended(engine, id)
    assert job.state is JobState.SUCCEEDED


async def test_a_thread_past_its_timeout_keeps_its_job_running_until_it_really_ends(engine, caplog):
    release = threading.Event()

    def work():
        release.wait(20)
        return "late"

    task = StandIn("work", work, Retry(attempts=1))
    id = await put(engine, task, timeout=SHORT)
    async with working(engine, task) as (worker, watcher):
        await watcher.seen("overrun")
        assert worker.overrun == [id]
        assert (await stored(engine, id)).state is JobState.RUNNING
        assert "keeps its slots until it ends" in caplog.text
        release.set()
        (job,) = await until(engine, lambda job: job.state.ended, id)
    assert job.state is JobState.FAILED
    assert "TimeoutError" in error_of(job)
