from __future__ import annotations

import asyncio
import threading

from headgate.errors import LeaseLost
from headgate.hooks.context import current_job
from headgate.job import JobState
from headgate.retry import Retry
from tests.worker.stand_in import FailingEngine, StandIn, ended, put, stored, working


async def test_the_lease_is_renewed_three_times_in_its_length(engine):
    async with working(engine, StandIn("work", print), lease=0.3) as (worker, watcher):
        first = worker.id
        await watcher.seen("beat", 6)
        assert worker.id == first
        assert watcher.count("fenced") == 0


async def test_a_worker_whose_lease_lapsed_cancels_what_it_runs_and_goes_on_under_a_new_id(
    failing: FailingEngine,
):
    interrupted, runs = asyncio.Event(), []

    async def work():
        runs.append(current_job().attempt)
        if len(runs) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                interrupted.set()

    task = StandIn("work", work, Retry(attempts=3))
    id = await put(failing, task)
    async with working(failing, task, lease=0.3) as (worker, watcher):
        first = worker.id
        failing.lapse = True
        fenced = await watcher.seen("fenced")
        await interrupted.wait()
        await watcher.seen("registered", 2)
        assert worker.id != first
        assert fenced.facts["abandoned"] == 1
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [1, 2]


async def test_what_a_fenced_attempt_still_reports_is_dropped(failing: FailingEngine):
    async def work():
        if current_job().attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "from the first"
        return "from the second"

    task = StandIn("work", work, Retry(attempts=3))
    id = await put(failing, task)
    async with working(failing, task, lease=0.3) as (_, watcher):
        failing.lapse = True
        await watcher.seen("fenced")
        (job,) = await ended(failing, id)
    assert job.result == '"from the second"'


async def test_a_worker_that_cannot_renew_fences_itself_by_its_own_clock(failing: FailingEngine):
    began, interrupted = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    task = StandIn("work", work)
    await put(failing, task)
    async with working(failing, task, lease=0.3) as (_, watcher):
        await began.wait()
        failing.cut = True
        fenced = await watcher.seen("fenced")
        await interrupted.wait()
        assert "could not be renewed" in fenced.facts["why"]
        failing.cut = False
        await watcher.seen("registered", 2)


async def test_a_worker_whose_engine_hangs_fences_itself_and_ignores_the_late_answer(failing: FailingEngine):
    runs = []

    async def work():
        runs.append(current_job().attempt)

    task = StandIn("work", work, Retry(attempts=3))
    async with working(failing, task, lease=0.3) as (_, watcher):
        failing.open_gate.clear()
        id = await put(failing, task)  # claimed, but the answer does not come
        await watcher.seen("fenced")
        assert (await stored(failing, id)).state is JobState.RUNNING
        failing.open_gate.set()
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [2]  # the first attempt was lost with the lease, and never run


async def test_a_thread_that_outlives_its_lease_is_told_to_end_and_its_outcome_dropped(
    failing: FailingEngine,
):
    told = threading.Event()

    def work():
        if current_job().attempt == 1:
            while not current_job().cancelled:
                threading.Event().wait(0.005)
            told.set()
            return "from the first"
        return "from the second"

    task = StandIn("work", work, Retry(attempts=3))
    id = await put(failing, task)
    async with working(failing, task, lease=0.3) as (_, watcher):
        failing.lapse = True
        await watcher.seen("fenced")
        await asyncio.to_thread(told.wait)
        (job,) = await ended(failing, id)
    assert job.result == '"from the second"'


async def test_what_an_answer_brings_after_the_lease_was_lost_is_not_run(failing: FailingEngine):
    exchange, fenced, runs = failing.exchange, asyncio.Event(), []

    async def late(*args, **kwargs):
        answer = await exchange(*args, **kwargs)
        if answer.attempts and not fenced.is_set():
            failing.lapse = True
            await fenced.wait()
        return answer

    async def work():
        runs.append(current_job().attempt)

    task = StandIn("work", work)
    failing.exchange = late
    id = await put(failing, task)
    async with working(failing, task, lease=0.3) as (_, watcher):
        await watcher.seen("fenced")
        fenced.set()
        await watcher.seen("registered", 2)
        assert 1 not in runs
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [2]


async def test_a_lease_that_an_exchange_finds_lapsed_is_lost_at_once(failing: FailingEngine):
    exchange, lapsed = failing.exchange, []

    async def lapse(*args, **kwargs):
        if not lapsed:
            lapsed.append(True)
            raise LeaseLost("lapsed")
        return await exchange(*args, **kwargs)

    failing.exchange = lapse
    async with asyncio.timeout(8), working(failing, StandIn("work", print), lease=600) as (_, watcher):
        await watcher.seen("fenced")
        await watcher.seen("registered", 2)
