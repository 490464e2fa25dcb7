from __future__ import annotations

import asyncio
import threading

from headgate.hooks.context import current_job
from headgate.job import JobState
from headgate.worker import run_until_idle
from headgate.worker.run.threads import Threads
from tests.worker.stand_in import StandIn, attempt, ended, put, stored, tasks, until, working


async def test_a_synchronous_task_runs_in_a_thread_and_knows_its_job(engine):
    def work():
        return [threading.current_thread() is threading.main_thread(), current_job().id]

    task = StandIn("work", work)
    id = await put(engine, task, id="j1")
    await run_until_idle(engine, tasks(task))
    assert (await stored(engine, id)).result == '[false,"j1"]'


async def test_a_worker_claims_no_more_synchronous_jobs_than_it_has_threads_for(engine):
    began, release = threading.Semaphore(0), threading.Event()

    def work():
        began.release()
        release.wait(20)

    task = StandIn("work", work)
    ids = [await put(engine, task) for _ in range(5)]
    async with working(engine, task, threads=2, concurrency=10) as (worker, watcher):
        for _ in range(2):
            await asyncio.to_thread(began.acquire)
        await watcher.seen("idle", watcher.count("idle") + 1)
        assert len(worker.running) == 2
        states = await engine.states(ids)
        assert states.count(JobState.RUNNING) == 2
        release.set()
        await ended(engine, *ids)


async def test_jobs_of_the_event_loop_do_not_wait_for_threads(engine):
    began, release = threading.Semaphore(0), threading.Event()

    def work():
        began.release()
        release.wait(20)

    async def walk(): ...

    threaded, quick = StandIn("work", work), StandIn("walk", walk)
    slow = [await put(engine, threaded) for _ in range(5)]
    behind = await put(engine, quick)
    async with working(engine, threaded, quick, threads=2, concurrency=10):
        for _ in range(2):
            await asyncio.to_thread(began.acquire)
        await ended(engine, behind)
        await ended(engine, await put(engine, quick))
        assert (await engine.states(slow)).count(JobState.RUNNING) == 2
        release.set()
        await ended(engine, *slow)


async def test_a_job_that_comes_too_late_for_its_thread_is_given_back(engine):
    def work(): ...

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task, threads=1) as (worker, _):
        await ended(engine, id)
        run = worker._worker_run
        assert run is not None
        (part,) = run.parts
        part.runner._threads.reserve()  # as another part of the store does meanwhile
        late = attempt("late", "work")
        assert part.exchange._start([late]) == 1
        assert "late" not in part.runner.running
        part.runner._threads.done()


async def test_threads_are_started_when_needed_and_used_again():
    threads, seen = Threads(3, "test"), set[str]()
    loop = asyncio.get_running_loop()
    for _ in range(10):
        done = asyncio.Event()

        def work(done=done):
            seen.add(threading.current_thread().name)
            loop.call_soon_threadsafe(done.set)

        threads.submit(work)
        await done.wait()
        threads.done()
    assert len(seen) <= 3
    assert all(name.startswith("test-thread-") for name in seen)
    threads.close()


async def test_progress_from_a_thread_reaches_the_engine_while_it_runs(engine):
    go_on = threading.Event()

    def work():
        for step in range(100):
            current_job().progress({"step": step})
        go_on.wait(20)

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task):
        (job,) = await until(engine, lambda job: job.progress == '{"step":99}', id)
        assert job.state is JobState.RUNNING
        go_on.set()
        await ended(engine, id)
