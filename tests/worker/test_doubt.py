"""Messages that are lost, late or doubled (rule 13): the store and the worker agree again on what runs."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headgate.engine.contract import Released
from headgate.errors import EngineUnavailable
from headgate.hooks.context import current_job
from headgate.job import JobState
from headgate.retry import Retry
from tests.worker.stand_in import FailingEngine, StandIn, ended, put, stored, working


async def test_every_exchange_has_a_larger_number_than_the_one_before(failing: FailingEngine):
    numbers, exchange = [], failing.exchange

    async def numbered(*args, number=None, **kwargs):
        numbers.append(number)
        return await exchange(*args, number=number, **kwargs)

    failing.exchange = numbered

    async def work():
        pass

    task = StandIn("work", work)
    async with working(failing, task):
        await ended(failing, *[await put(failing, task) for _ in range(20)])
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_job_that_failed_and_was_claimed_again_in_a_lost_answer_runs_again(failing: FailingEngine):
    """The worker knows the job, but not this attempt of it: pairs are compared, not jobs."""
    runs, fail = [], asyncio.Event()

    async def work():
        runs.append(current_job().attempt)
        if len(runs) == 1:
            await fail.wait()
            raise OSError("again, at once")

    task = StandIn("work", work, Retry(attempts=2, delay=0))
    id = await put(failing, task)
    async with working(failing, task, concurrency=1) as (_, watcher):
        await watcher.seen("idle")
        failing.lose_answers = 1
        fail.set()
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [1, 3]
    assert [past.outcome for past in job.history] == ["failed", "released", "succeeded"]


async def test_a_claim_that_takes_effect_after_it_was_given_up_changes_nothing(failing: FailingEngine):
    """A late packet: the store meets the older message after the worker has resumed."""
    late, exchange = [], failing.exchange

    async def delayed(*args, **kwargs):
        if args[2] and not late:
            late.append((args, kwargs))
            raise EngineUnavailable("given up")
        return await exchange(*args, **kwargs)

    failing.exchange = delayed
    runs = []

    async def work():
        runs.append(current_job().attempt)

    task = StandIn("work", work)
    async with working(failing, task) as (_, watcher):
        await watcher.seen("resumed")
        args, kwargs = late[0]
        id = await put(failing, task)
        with pytest.raises(Exception, match="came after"):
            await exchange(*args, **kwargs)
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [1]


async def test_after_a_doubt_the_worker_names_what_it_runs_and_what_it_has_to_report(failing: FailingEngine):
    finish, running = {"ends": asyncio.Event(), "runs": asyncio.Event()}, asyncio.Event()

    async def work(name):
        if name == "runs":
            running.set()
        await finish[name].wait()

    task = StandIn("work", work)
    ends, runs = (
        await put(failing, task, args={"name": "ends"}),
        await put(failing, task, args={"name": "runs"}),
    )
    async with working(failing, task) as (_, watcher):
        await running.wait()
        failing.lose_answers = 1  # the outcome arrives, its answer does not
        finish["ends"].set()
        await watcher.seen("resumed")
        assert set(failing.resumes[-1]) == {(ends, 1), (runs, 1)}
        finish["runs"].set()
        jobs = await ended(failing, ends, runs)
    assert [(job.state, job.attempt) for job in jobs] == [(JobState.SUCCEEDED, 1)] * 2
    assert sum(report.job == ends for reports in failing.exchanges for report in reports) == 1


async def test_what_the_store_no_longer_counts_as_ours_is_cancelled(failing: FailingEngine):
    began, interrupted = asyncio.Event(), asyncio.Event()

    async def work():
        if current_job().attempt > 1:
            return
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task) as (worker, watcher):
        await began.wait()
        # A message of this worker's that it knows nothing about gave the job back.
        await MemoryExchange(failing)(worker.id, [Released(id, 1)], 0)
        failing.lose_answers = 1
        await put(failing, task)
        resumed = await watcher.seen("resumed")
        await interrupted.wait()
        assert resumed.facts["abandoned"] == 1
        (job,) = await ended(failing, id)
    assert [past.outcome for past in job.history] == ["released", "released", "succeeded"]


def MemoryExchange(engine: FailingEngine):
    """The exchange behind the line that can be cut."""
    return super(FailingEngine, engine).exchange


async def test_a_message_that_was_doubled_on_its_way_leads_to_a_resumption(failing: FailingEngine):
    exchange, doubled = failing.exchange, []

    async def double(*args, **kwargs):
        answer = await exchange(*args, **kwargs)
        if answer.attempts and not doubled:
            doubled.append(True)
            return await exchange(*args, **kwargs)  # a driver that sent it twice hears the second answer
        return answer

    failing.exchange = double

    async def work():
        pass

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task):
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert [past.outcome for past in job.history] == ["released", "succeeded"]
    assert (await stored(failing, id)).tries == 1


async def test_what_an_answer_brings_after_the_lease_was_lost_is_not_run(failing: FailingEngine):
    runs = []

    async def work():
        runs.append(current_job().attempt)

    task = StandIn("work", work)

    async def wait():
        await failing.open_gate.wait()  # without a deadline

    failing._pass_gate = wait
    async with working(failing, task, lease=1.5) as (_, watcher):
        await watcher.seen("idle")
        failing.open_gate.clear()  # the claim takes effect, and its answer is under way
        failing.lapse = True
        id = await put(failing, task)
        await watcher.seen("fenced")
        failing.open_gate.set()
        (job,) = await ended(failing, id)
    assert job.state is JobState.SUCCEEDED
    assert runs == [2], "the first attempt was given back with the lease"


async def test_a_cancel_that_the_answer_to_a_resumption_brings_is_obeyed(failing: FailingEngine):
    began, interrupted = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    exchange = failing.exchange

    async def deaf(*args, **kwargs):
        """No other answer tells of the cancel."""
        answer = await exchange(*args, **kwargs)
        return msgspec.structs.replace(answer, cancelling=())

    failing.exchange = deaf
    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task, lease=1000, grace=0) as (_, watcher):
        await began.wait()
        failing.lose_answers = 1
        await failing.cancel([id])
        await put(failing, task)
        await watcher.seen("resumed")
        async with asyncio.timeout(10):
            await interrupted.wait()
        (job,) = await ended(failing, id)
    assert job.state is JobState.CANCELLED
