from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from headgate.errors import EngineUnavailable, HeadgateError
from headgate.hooks.context import current_job
from headgate.hooks.hooks import Hooks
from headgate.job import JobState
from headgate.periodic import schedule
from headgate.worker import Worker
from headgate.worker.events import Events
from headgate.worker.options import options
from headgate.worker.run.worker_run import WorkerRun
from tests.support.waiting import turns, until
from tests.worker.stand_in import FailingEngine, StandIn, Watcher, put, stored, tasks, working


async def test_a_stopping_worker_waits_for_what_runs_and_claims_no_more(engine):
    began, finish = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        await finish.wait()

    task = StandIn("work", work)
    running = await put(engine, task)
    worker = Worker(engine, tasks(task), concurrency=1)
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await began.wait()
    later = await put(engine, task)
    worker.stop()
    await watcher.seen("stopping")
    finish.set()
    await working
    assert (await stored(engine, running)).state is JobState.SUCCEEDED
    assert (await stored(engine, later)).state is JobState.READY
    assert await engine.workers() == []


async def test_jobs_that_come_after_the_stop_are_given_back_while_others_run_on(failing: FailingEngine):
    began, finish, claimed, stopped = (asyncio.Event() for _ in range(4))
    exchange = failing.exchange

    async def slow(*args, **kwargs):
        answer = await exchange(*args, **kwargs)
        if answer.attempts and began.is_set():
            claimed.set()
            await stopped.wait()
        return answer

    async def work():
        began.set()
        await finish.wait()

    failing.exchange = slow
    task = StandIn("work", work)
    await put(failing, task)
    worker = Worker(failing, tasks(task), concurrency=2)
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await began.wait()
    later = await put(failing, task)
    await claimed.wait()
    worker.stop()
    await watcher.seen("stopping")
    exchanges = watcher.count("exchanged")
    stopped.set()
    await watcher.seen("exchanged", exchanges + 2)
    job = await stored(failing, later)
    assert (job.state, job.tries, job.history[0].outcome) == (JobState.READY, 0, "released")
    assert not working.done()
    finish.set()
    await working


async def test_after_its_grace_a_worker_gives_jobs_back_uncounted(engine):
    async def work():
        await asyncio.Event().wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    worker = Worker(engine, tasks(task), grace=0.02)
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await watcher.seen("exchanged")
    worker.stop()
    await working
    job = await stored(engine, id)
    assert (job.state, job.tries, job.history[0].outcome) == (JobState.READY, 0, "released")


async def test_a_second_stop_ends_the_waiting(engine):
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    worker = Worker(engine, tasks(task), grace=1000)
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await began.wait()
    worker.stop()
    await watcher.seen("stopping")
    worker.stop()
    await working
    assert (await stored(engine, id)).tries == 0


class Stubborn:
    """A synchronous task that goes on until the test lets it end."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.finish = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.task = StandIn("work", self.work)

    def work(self) -> str:
        self._loop.call_soon_threadsafe(self.began.set)
        self.finish.wait(20)
        return "asked" if current_job().cancelled else "unasked"


@pytest.mark.parametrize("stops", [1, 2])
async def test_an_embedded_worker_waits_for_a_thread_that_does_not_end_and_says_so(
    engine, caplog, monkeypatch, stops
):
    monkeypatch.setattr("headgate.worker.run.worker_run.LAST_CALL", 0.05)
    monkeypatch.setattr("headgate.worker.run.worker_run.REMINDER", 0.05)
    stubborn = Stubborn()
    id = await put(engine, stubborn.task)
    worker = Worker(engine, tasks(stubborn.task), grace=0.02, lease=1.5)
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await stubborn.began.wait()
    begun = time.monotonic()
    for _ in range(stops):
        worker.stop()
    await watcher.seen("stopping")
    beats = watcher.count("beat")
    await watcher.seen("beat", beats + 2)  # renewals go on, and would for ever
    worker.stop()
    assert not working.done()
    assert (await stored(engine, id)).state is JobState.RUNNING, "it holds its slots"
    stubborn.finish.set()
    await working
    assert (await stored(engine, id)).result == '"asked"'
    lines = [line for line in caplog.messages if "waiting for it, since it holds its slots" in line]
    assert 2 <= len(lines) <= (time.monotonic() - begun) / 0.05 + 1
    assert f"job {id} (work)" in lines[0]


async def test_a_worker_that_is_cancelled_does_not_give_back_what_a_thread_runs(failing: FailingEngine):
    stubborn = Stubborn()
    started = asyncio.Event()

    async def wait():
        started.set()
        await asyncio.Event().wait()

    async_task = StandIn("wait", wait)
    kept, given_back = await put(failing, stubborn.task), await put(failing, async_task)
    worker = Worker(failing, tasks(stubborn.task, async_task))
    await worker.__aenter__()
    await stubborn.began.wait()
    await started.wait()
    assert worker._work is not None
    worker._work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker._work
    assert (await stored(failing, kept)).state is JobState.RUNNING, "until the lease lapses"
    assert (await stored(failing, given_back)).history[0].outcome == "released"
    stubborn.finish.set()


async def test_a_worker_that_owns_its_process_leaves_a_stubborn_thread_to_its_end(
    engine, caplog, monkeypatch
):
    monkeypatch.setattr("headgate.worker.run.worker_run.LAST_CALL", 0.05)
    stubborn = Stubborn()
    id = await put(engine, stubborn.task)
    worker = Worker(engine, tasks(stubborn.task), grace=0.02)
    working = asyncio.create_task(worker.run(signals=True))
    await stubborn.began.wait()
    worker.stop()
    await working
    assert (await stored(engine, id)).state is JobState.RUNNING, "not before the process is gone"
    assert "it ends with the process" in caplog.text
    stubborn.finish.set()


async def test_a_thread_that_ends_in_the_last_moment_counts(engine):
    def work():
        while not current_job().cancelled:
            threading.Event().wait(0.005)
        return "just in time"

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task, grace=0.02) as (_, watcher):
        await watcher.seen("exchanged")
    assert (await stored(engine, id)).result == '"just in time"'


async def claimed(engine: FailingEngine, id: str) -> None:
    """Return once the worker has claimed the job, of which it may know nothing yet."""

    async def running() -> bool:  # the claim rings no bell
        return (await stored(engine, id)).state is JobState.RUNNING

    await until(running, f"job {id} to run", 20)


async def test_jobs_that_arrive_after_the_stop_are_given_back_unrun(failing: FailingEngine):
    ran = []

    async def work():
        ran.append(True)

    task = StandIn("work", work)
    async with working(failing, task) as (worker, watcher):
        failing.open_gate.clear()
        id = await put(failing, task)
        await claimed(failing, id)
        worker.stop()
        await watcher.seen("stopping")
        failing.open_gate.set()
    job = await stored(failing, id)
    assert (job.state, job.tries, ran) == (JobState.READY, 0, [])


async def test_a_worker_whose_engine_never_answers_still_stops(failing: FailingEngine, monkeypatch):
    monkeypatch.setattr("headgate.worker.run.worker_run.LAST_CALL", 0.05)
    async with working(failing, grace=0.02) as (_, watcher):
        failing.open_gate.clear()
        before = watcher.count("idle")
        await failing.resume("default")
        await turns()
        assert watcher.count("idle") == before


async def test_the_lease_is_renewed_while_a_worker_waits_for_its_jobs(engine):
    began, finish = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        await finish.wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task, lease=0.3) as (worker, watcher):
        await began.wait()
        worker.stop()
        beats = watcher.count("beat")
        await watcher.seen("beat", beats + 4)
        finish.set()
    assert (await stored(engine, id)).state is JobState.SUCCEEDED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_a_worker_that_owns_the_process(engine, number):
    worker = Worker(engine, {})
    watcher = Watcher(worker)
    before = signal.getsignal(number)
    working = asyncio.create_task(worker.run(signals=True))
    await watcher.seen("idle")
    os.kill(os.getpid(), number)
    await working
    assert signal.getsignal(number) is before


async def test_a_signal_that_comes_before_the_worker_has_begun_stops_it(engine, monkeypatch):
    def signalled(*args, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return WorkerRun(*args, **options)

    monkeypatch.setattr("headgate.worker.worker.WorkerRun", signalled)
    await asyncio.wait_for(Worker(engine, {}).run(signals=True), 20)
    assert await engine.workers() == []


async def test_an_embedded_worker_leaves_signals_alone(engine):
    before = signal.getsignal(signal.SIGTERM)
    async with working(engine):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_a_worker_can_be_stopped_from_another_thread(engine):
    worker = Worker(engine, {})
    watcher = Watcher(worker)
    working = asyncio.create_task(worker.run())
    await watcher.seen("idle")
    await asyncio.to_thread(worker.stop)
    await working


async def test_cancelling_the_task_of_a_worker_stops_it_without_waiting(engine):
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    working = asyncio.create_task(Worker(engine, tasks(task), grace=1000).run())
    await began.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert (await stored(engine, id)).tries == 0
    assert await engine.workers() == []


async def test_a_worker_runs_once_at_a_time_and_again_afterwards(engine):
    worker = Worker(engine, {})
    async with worker:
        with pytest.raises(HeadgateError, match="running already"):
            await worker.run()
    async with worker:
        assert worker.id


@pytest.mark.parametrize("verb", ["exchange", "heartbeat", "sweep", "clock"])
async def test_a_worker_whose_cancel_is_lost_in_a_broken_connection_ends_all_the_same(
    failing: FailingEngine, verb: str
):
    asked = asyncio.Event()

    async def breaks(*args, **kwargs):
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise EngineUnavailable("the connection was lost") from None

    async def nothing():
        pass

    setattr(failing, verb, breaks)
    ticking = StandIn("report", nothing, schedule=schedule(every=3600))
    chosen = options(lease=0.5)
    run = WorkerRun(failing, tasks(ticking), (), chosen, Events(), Hooks())
    work = asyncio.create_task(run.work())
    await asyncio.wait_for(asked.wait(), 20)
    work.cancel()
    done, _ = await asyncio.wait([work], timeout=20)
    assert done, "it goes on for ever"
