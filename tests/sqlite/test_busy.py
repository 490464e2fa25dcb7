"""Another process is in the way: operations wait their turn, and give up only past the busy timeout."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, Settings, Worker
from headgate.engine.deadline import within
from headgate.engine.sqlite import SqliteEngine
from headgate.engine.sqlite.transaction import Transaction
from headgate.errors import EngineUnavailable
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine
from tests.support.child import Child
from tests.support.sqlite_lock import HOLD, hold
from tests.support.waiting import stays

IMPATIENT = Settings(busy_timeout=SECOND // 5)


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t")


async def test_operations_wait_for_another_process_and_succeed(engine: SqliteEngine, path: Path):
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    with Child(HOLD, path) as other:
        await hold(other, 1.5)
        began = time.monotonic()
        uses = (Use(Key("A").ident),)
        await asyncio.gather(*(engine.enqueue([NewJob(id=f"j{n}", task="t", uses=uses)]) for n in range(20)))
        assert time.monotonic() - began >= 1
        assert len((await engine.exchange("w", [], 20)).attempts) == 1


async def test_reading_does_not_wait_for_a_process_that_writes(engine: SqliteEngine, path: Path):
    await engine.enqueue([job("j")])
    with Child(HOLD, path) as other:
        await hold(other, None)
        assert await engine.states(["j"]) == [JobState.READY]
        assert await engine.count(Filter()) == 1
        assert (await engine.sweep()).due == 0, "a sweep that finds nothing needs no lock either"
        other.tell("go")
        other.hear()


async def test_past_the_busy_timeout_nothing_is_half_done_and_the_next_one_works(
    open_engine: OpenEngine, path: Path
):
    engine = await open_engine(IMPATIENT)
    with Child(HOLD, path) as other:
        await hold(other, None)
        with pytest.raises(EngineUnavailable, match="busy timeout"):
            await engine.enqueue([job("a"), job("b")])
        other.tell("go")
        assert await asyncio.to_thread(other.hear) == "let go"
        assert await engine.states(["a", "b"]) == [None, None]
        await engine.enqueue([job("a"), job("b")])
        assert await engine.states(["a", "b"]) == [JobState.READY] * 2


async def test_a_group_gives_up_together_and_not_one_timeout_after_another(
    open_engine: OpenEngine, path: Path
):
    engine = await open_engine(IMPATIENT)
    with Child(HOLD, path) as other:
        await hold(other, None)
        began = time.monotonic()
        results = await asyncio.gather(
            *(engine.enqueue([job(f"j{n}")]) for n in range(50)), return_exceptions=True
        )
        took = time.monotonic() - began
        other.tell("go")
        other.hear()
    assert all(isinstance(result, EngineUnavailable) for result in results)
    assert len({id(result) for result in results}) == 50, "each caller has an exception of its own"
    assert took < 50 * 0.2 / 2
    assert await engine.count(Filter()) == 0


async def test_opening_waits_for_nobody_once_the_file_is_there(engine: SqliteEngine, path: Path):
    await engine.enqueue([job("j")])
    with Child(HOLD, path) as other:
        await hold(other, None)
        second = SqliteEngine(path, IMPATIENT)
        await second.open()
        assert await second.states(["j"]) == [JobState.READY]
        await second.close()
        other.tell("go")
        other.hear()


async def test_a_process_that_dies_in_its_transaction_blocks_nobody(engine: SqliteEngine, path: Path):
    with Child(HOLD, path) as other:
        await hold(other, None)
        enqueueing = asyncio.ensure_future(engine.enqueue([job("j")]))
        done, _ = await asyncio.wait([enqueueing], timeout=0.1)
        assert not done
        other.kill()
        await asyncio.wait_for(enqueueing, 5)
    assert await engine.states(["j"]) == [JobState.READY]


async def test_a_verb_ends_at_its_deadline_and_never_takes_effect_later(engine: SqliteEngine, path: Path):
    with Child(HOLD, path) as other:
        await hold(other, None)
        began = time.monotonic()
        with within(0.2), pytest.raises(EngineUnavailable):
            await engine.enqueue([job("first")])
        assert time.monotonic() - began < 2
        patient = asyncio.ensure_future(engine.enqueue([job("patient")]))
        await stays(lambda: not patient.done(), "the writer's thread waits for the lock with it", 0.05)
        with within(0.2), pytest.raises(EngineUnavailable, match="nothing was done"):
            await engine.enqueue([job("impatient")])
        other.tell("go")
        assert await asyncio.to_thread(other.hear) == "let go"
        await patient
    assert await engine.states(["first", "impatient", "patient"]) == [None, None, JobState.READY]


async def test_verbs_that_wait_together_end_each_at_its_own_deadline(engine: SqliteEngine, path: Path):
    began = time.monotonic()

    async def ends_after(seconds: float) -> float:
        with within(seconds), pytest.raises(EngineUnavailable):
            await engine.enqueue([job(f"after {seconds}")])
        return time.monotonic() - began

    with Child(HOLD, path) as other:
        await hold(other, None)
        began = time.monotonic()
        times = await asyncio.gather(*map(ends_after, (0.9, 0.1, 0.5)))
        other.tell("go")
    assert [at >= after for at, after in zip(times, (0.9, 0.1, 0.5), strict=True)] == [True] * 3
    assert times[1] < times[2] < times[0] < 5


async def test_a_verb_whose_step_runs_past_its_deadline_says_that_its_effect_is_not_known(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    enqueue = Transaction.enqueue

    def slow(transaction: Transaction, jobs: list[NewJob]) -> object:
        time.sleep(0.4)
        return enqueue(transaction, jobs)

    monkeypatch.setattr(Transaction, "enqueue", slow)
    jobs = [job(f"j{number}") for number in range(10)]
    with within(0.1), pytest.raises(EngineUnavailable, match="not known whether it took effect"):
        await engine.enqueue(jobs)


async def test_reads_have_the_timeout_of_the_settings(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
):
    engine = await open_engine(Settings(timeout=SECOND // 10))
    monkeypatch.setattr("headgate.engine.sqlite.reading.count", lambda *_: time.sleep(0.5))
    with pytest.raises(EngineUnavailable, match="gave no answer"):
        await engine.count(Filter())
