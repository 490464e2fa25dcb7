from __future__ import annotations

import asyncio

import pytest

from headgate.errors import EngineUnavailable, SchemaMismatch
from headgate.job import JobState
from headgate.worker import Worker
from headgate.worker.engine_status import LONGEST_BACKOFF, Backoff
from tests.support.waiting import turns
from tests.worker.stand_in import FailingEngine, StandIn, Watcher, ended, put, tasks, working


async def test_outcomes_are_kept_while_the_engine_cannot_be_reached(failing: FailingEngine, caplog):
    began, finish = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        await finish.wait()
        return 1

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task) as (_, watcher):
        await began.wait()
        failing.cut = True
        finish.set()
        await watcher.seen("unavailable")
        failing.cut = False
        (job,) = await ended(failing, id)
        await watcher.seen("recovered")
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)
    lines = [record.message for record in caplog.records if "reached" in record.message]
    assert len(lines) == 2


async def test_a_worker_starts_while_the_engine_is_away_and_works_when_it_is_back(
    failing: FailingEngine, caplog
):
    caplog.set_level("INFO", "headgate.worker")

    async def work():
        return 1

    task = StandIn("work", work)
    id = await put(failing, task)

    async def away(*args, **kwargs):
        failing._check()
        return await FailingEngine.register(failing, *args, **kwargs)

    failing.register, failing.cut = away, True
    worker = Worker(failing, tasks(task))
    watcher = Watcher(worker)
    async with worker:
        assert f"worker {worker.options.name} started" in caplog.text, "it has no id yet"
        await watcher.seen("unavailable")
        failing.cut = False
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED


async def test_jobs_claimed_in_an_answer_that_was_lost_are_given_back_and_run(failing: FailingEngine, caplog):
    async def work():
        return 1

    task = StandIn("work", work)
    ids = [await put(failing, task) for _ in range(3)]
    failing.lose_answers = 1
    async with working(failing, task):
        jobs = await ended(failing, *ids)
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert {job.tries for job in jobs} == {1}
    assert "3 jobs that were claimed in an answer that never arrived" in caplog.text


async def test_an_outcome_whose_answer_was_lost_counts_once(failing: FailingEngine):
    finish = asyncio.Event()

    async def work():
        await finish.wait()
        return 1

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task) as (_, watcher):
        await watcher.seen("idle")
        failing.lose_answers = 1
        finish.set()
        await watcher.seen("recovered")
        (job,) = await ended(failing, id)
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)


async def test_what_no_waiting_will_mend_ends_the_worker_with_its_reason(failing: FailingEngine):
    async def newer(*args, **kwargs):
        raise SchemaMismatch("the store is newer than this code")

    failing.register = newer
    with pytest.raises(SchemaMismatch):
        await Worker(failing, {}).run()


async def test_a_crash_at_work_is_logged_at_once_and_raised_at_the_end(failing: FailingEngine, caplog):
    async def broken(*args, **kwargs):
        raise SchemaMismatch("the store was migrated away")

    worker = Worker(failing, {})
    watcher = Watcher(worker)
    await worker.__aenter__()
    failing.exchange = broken
    await failing.resume("default")
    await watcher.seen("stopped")
    await turns()  # the callbacks of the task that just ended
    with pytest.raises(SchemaMismatch):
        await worker.__aexit__(None, None, None)
    assert "the worker ended" in caplog.text


def test_the_back_off_doubles_to_its_limit_and_begins_anew_after_success():
    backoff = Backoff()
    waits = [backoff.wait() for _ in range(12)]
    assert all(0.05 <= wait <= LONGEST_BACKOFF for wait in waits)
    assert waits[-1] >= LONGEST_BACKOFF / 2
    backoff.reset()
    assert backoff.wait() <= 0.1


@pytest.mark.slow
async def test_trouble_that_concerns_exchanges_alone_is_said_once(failing: FailingEngine, caplog):
    """Sweeps and heartbeats get through meanwhile, as they do when the store's disk is full."""
    finish = asyncio.Event()

    async def work():
        await finish.wait()
        return 1

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task, lease=6) as (_, watcher):
        await watcher.seen("exchanged", 2)
        exchange = failing.exchange

        async def full(*args, **kwargs):
            raise EngineUnavailable("the disk is full")

        failing.exchange = full
        finish.set()
        await watcher.seen("unavailable")
        sweeps, beats = watcher.count("swept"), watcher.count("beat")
        await watcher.seen("swept", sweeps + 2)
        await watcher.seen("beat", beats + 1)
        failing.exchange = exchange
        (job,) = await ended(failing, id)
        await watcher.seen("recovered")
    assert job.state is JobState.SUCCEEDED
    assert watcher.count("unavailable") == watcher.count("recovered") == 1
