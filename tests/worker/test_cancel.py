from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from headgate.engine.contract import Stopped
from headgate.hooks.context import current_job
from headgate.job import JobState
from headgate.retry import Retry
from headgate.worker.bell import Bell
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.threads import Threads
from tests.worker.stand_in import FailingEngine, StandIn, attempt, ended, put, runner_of, working


async def test_cancelling_a_running_coroutine_interrupts_it_and_ends_the_job_cancelled(engine):
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    task = StandIn("work", work, Retry(attempts=3))
    id = await put(engine, task)
    async with working(engine, task):
        await began.wait()
        await engine.cancel([id])
        (job,) = await ended(engine, id)
    assert (job.state, job.attempt) == (JobState.CANCELLED, 1)


async def test_a_cancel_is_heard_by_a_worker_that_has_no_free_capacity(engine):
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task, concurrency=1):
        await began.wait()
        await engine.cancel([id])
        (job,) = await ended(engine, id)
    assert job.state is JobState.CANCELLED


async def test_synchronous_code_sees_that_it_was_cancelled(engine):
    began = threading.Event()

    def work():
        began.set()
        while True:
            current_job().raise_if_cancelled()
            threading.Event().wait(0.005)

    task = StandIn("work", work)
    id = await put(engine, task)
    async with working(engine, task):
        await asyncio.to_thread(began.wait)
        await engine.cancel([id])
        (job,) = await ended(engine, id)
    assert job.state is JobState.CANCELLED


async def test_a_cancelled_job_that_then_fails_is_cancelled_and_not_retried(engine):
    began = asyncio.Event()

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    task = StandIn("work", work, Retry(attempts=3, delay=0))
    id = await put(engine, task)
    async with working(engine, task):
        await began.wait()
        await engine.cancel([id])
        (job,) = await ended(engine, id)
    assert (job.state, job.attempt) == (JobState.CANCELLED, 1)


async def test_a_cancel_that_comes_with_the_claim_ends_the_job_before_its_first_step():
    ran = []

    async def work():
        ran.append(True)

    loop = asyncio.get_running_loop()
    task, bell = StandIn("work", work), Bell(loop)
    outbox = Outbox(loop, bell)
    threads = Threads(1, "test")
    runner = runner_of(loop, task, outbox, threads)
    runner.start(attempt("j", "work"))
    runner.cancel(["j", "unknown"])
    await bell.sleep(5)
    assert outbox.take() == [Stopped("j", 1)]
    assert ran == []


@pytest.mark.parametrize("heard_in", ["exchange", "heartbeat", "resume_worker"])
async def test_a_cancel_is_heard_in_every_answer(failing: FailingEngine, heard_in: str):
    began = asyncio.Event()

    async def work():
        began.set()
        await asyncio.Event().wait()

    async def nothing():
        pass

    def deafen(verb):
        call = getattr(failing, verb)

        async def deaf(*args, **kwargs):
            return msgspec.structs.replace(await call(*args, **kwargs), cancelling=())

        setattr(failing, verb, deaf)

    for verb in {"exchange", "heartbeat", "resume_worker"} - {heard_in}:
        deafen(verb)
    task, other = StandIn("work", work), StandIn("other", nothing)
    id = await put(failing, task)
    async with asyncio.timeout(8), working(failing, task, other, lease=1.5, grace=0.02):
        await began.wait()
        await failing.cancel([id])
        failing.lose_answers = int(heard_in == "resume_worker")
        await put(failing, other)
        (job,) = await ended(failing, id)
    assert job.state is JobState.CANCELLED
