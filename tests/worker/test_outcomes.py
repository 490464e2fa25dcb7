from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from headgate.engine.memory import MemoryEngine
from headgate.errors import CancelJob, FailJob, RetryLater, Snooze
from headgate.job import JobState
from headgate.retry import Retry
from headgate.worker import run_until_idle
from tests.support.waiting import turns
from tests.worker.stand_in import StandIn, error_of, put, stored, tasks


async def run(engine: MemoryEngine, fn, *, retry: Retry | None = None, **fields):
    """Run one job of `fn` and return it as it then stands."""
    task = StandIn("work", fn, retry or Retry(attempts=1))
    id = await put(engine, task, **fields)
    await run_until_idle(engine, tasks(task))
    return await stored(engine, id)


def raising(error: BaseException):
    async def work():
        raise error

    return work


async def test_what_a_task_returns_is_the_job_result(engine):
    async def add(a, b):
        return {"sum": a + b}

    job = await run(engine, add, args={"a": 1, "b": 2})
    assert (job.state, job.result) == (JobState.SUCCEEDED, '{"sum":3}')


async def test_an_exception_fails_the_job_with_its_type_message_and_place(engine):
    job = await run(engine, raising(ValueError("no such thing")))
    assert job.state is JobState.FAILED
    assert error_of(job).startswith("ValueError: no such thing\nTraceback")
    assert "in work" in error_of(job)
    assert "runner.py" not in error_of(job)


async def test_a_covered_exception_is_retried_after_the_back_off(engine):
    job = await run(engine, raising(OSError("x")), retry=Retry(attempts=3, delay=60, jitter=0, on=OSError))
    assert (job.state, job.tries) == (JobState.SCHEDULED, 1)
    assert job.due - job.history[0].ended_at == 60_000_000


async def test_an_exception_that_the_policy_does_not_cover_ends_the_job(engine):
    job = await run(engine, raising(ValueError("x")), retry=Retry(attempts=3, on=OSError))
    assert job.state is JobState.FAILED


async def test_attempts_are_used_up_one_by_one(engine):
    job = await run(engine, raising(ValueError("x")), retry=Retry(attempts=3, delay=0))
    assert (job.state, job.attempt, job.tries) == (JobState.FAILED, 3, 3)


async def test_retry_later_counts_and_takes_its_own_delay(engine):
    job = await run(engine, raising(RetryLater(delay=timedelta(hours=1))), retry=Retry(attempts=2))
    assert (job.state, job.tries) == (JobState.SCHEDULED, 1)
    assert job.due - job.history[0].ended_at == 3600_000_000


async def test_retry_later_fails_the_job_when_the_attempts_are_used_up(engine):
    job = await run(engine, raising(RetryLater(delay=0)), retry=Retry(attempts=2))
    assert (job.state, job.tries) == (JobState.FAILED, 2)


async def test_snooze_does_not_count(engine):
    job = await run(engine, raising(Snooze(delay=30)), retry=Retry(attempts=1))
    assert (job.state, job.tries, job.attempt) == (JobState.SCHEDULED, 0, 1)


async def test_a_snooze_with_a_senseless_delay_is_a_failure(engine):
    async def work():
        raise Snooze(delay=-1)

    job = await run(engine, work)
    assert job.state is JobState.FAILED
    assert "Snooze(delay=)" in error_of(job)
    assert "raise Snooze(delay=-1)" in error_of(job)


async def test_cancel_job_ends_the_job_as_cancelled(engine):
    job = await run(engine, raising(CancelJob("not needed")))
    assert job.state is JobState.CANCELLED


async def test_fail_job_ends_the_job_whatever_the_policy_says(engine):
    job = await run(engine, raising(FailJob("hopeless")), retry=Retry(attempts=5))
    assert (job.state, job.error) == (JobState.FAILED, "hopeless")


async def test_a_result_that_cannot_travel_fails_the_job_without_a_retry(engine):
    async def work():
        return object()

    job = await run(engine, work, retry=Retry(attempts=3, delay=0))
    assert (job.state, job.tries) == (JobState.FAILED, 1)
    assert "PayloadError" in error_of(job)


async def test_arguments_that_do_not_decode_fail_the_job_without_a_retry(engine):
    async def work(): ...

    task = StandIn("work", work, Retry(attempts=3, delay=0))
    await engine.enqueue([task.job().__class__(id="j", task="work", args="[1, 2]")])
    await run_until_idle(engine, tasks(task))
    job = await stored(engine, "j")
    assert (job.state, job.tries) == (JobState.FAILED, 1)
    assert "PayloadError" in error_of(job)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_nothing_that_a_task_raises_ends_the_worker(engine, error):
    async def fine():
        return 1

    bad, good = StandIn("bad", raising(error), Retry(attempts=1)), StandIn("good", fine)
    failing = await put(engine, bad)
    succeeding = await put(engine, good)
    assert await run_until_idle(engine, tasks(bad, good)) == 2
    assert (await stored(engine, failing)).state is JobState.FAILED
    assert (await stored(engine, succeeding)).state is JobState.SUCCEEDED


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_nothing_that_a_thread_raises_ends_the_worker(engine, error):
    def work():
        raise error

    assert (await run(engine, work)).state is JobState.FAILED


async def test_a_huge_error_is_cut_and_keeps_its_first_line_and_its_end(engine, caplog):
    caplog.set_level(logging.CRITICAL, "headgate")  # what pytest captures must be UTF-8

    def deep(n):
        if n == 0:
            raise ValueError("bottom " + "x" * 5000 + "\udcff\0")
        deep(n - 1)

    async def work():
        deep(200)

    job = await run(engine, work)
    assert error_of(job).startswith("ValueError: bottom xxx")
    assert len(error_of(job).encode()) <= 8192


async def test_an_exception_whose_text_cannot_be_made_is_still_a_failure(engine):
    class Strange(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    job = await run(engine, raising(Strange()))
    assert job.state is JobState.FAILED
    assert "Strange" in error_of(job)


async def test_outcomes_that_are_not_sent_yet_count_as_work_and_cannot_pile_up(engine, monkeypatch):
    """A worker that settles a handful at a time must not claim more than it settles."""
    most, out = 0, 0
    exchange = type(engine).exchange

    async def counted(self, worker, reports, want, queues=None, **more):
        nonlocal most, out
        answer = await exchange(self, worker, reports, want, queues, **more)
        out += len(answer.attempts) - len(reports)
        most = max(most, out)
        return answer

    async def work(n):
        await turns(n % 3)

    monkeypatch.setattr(type(engine), "exchange", counted)
    task = StandIn("work", work)
    for n in range(600):
        await put(engine, task, args={"n": n})
    await run_until_idle(engine, tasks(task), concurrency=50)
    assert out == 0
    assert most == 50


async def test_an_exception_waits_for_the_delay_of_its_own(engine):
    retry = Retry(attempts=2, delay=1, on=lambda error: True, delays={TimeoutError: 90}, jitter=0)
    job = await run(engine, raising(ExceptionGroup("two", [TimeoutError(), ValueError()])), retry=retry)
    assert (job.state, job.tries) == (JobState.SCHEDULED, 1)
    assert job.due - job.history[0].ended_at == 90_000_000


async def test_a_function_that_cannot_say_whether_to_retry_fails_the_job(engine):
    retry = Retry(attempts=2, delay=0, on=lambda error: {}[error])
    job = await run(engine, raising(ValueError("broken")), retry=retry)
    assert (job.state, job.tries) == (JobState.FAILED, 1)
    assert error_of(job).startswith("ValueError: broken")
    assert "not retried: the function in Retry(on=…) raised KeyError" in error_of(job)
