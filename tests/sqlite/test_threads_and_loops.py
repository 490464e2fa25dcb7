"""One engine, many event loops and threads; closing and dying loops while work is in flight."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.engine.contract import Exchanged, Filter, Limit, Succeeded, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.errors import EngineUnavailable
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine
from tests.support.waiting import eventually, stays, turns

A = (Use(Key("A").ident),)


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t", uses=A)


async def test_loops_of_several_threads_share_an_engine(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 3)])

    async def work(name: str) -> list[str]:
        """Enqueue, claim and settle, many at a time."""
        await engine.register(Worker(name, frozenset({"t"})))
        await asyncio.gather(*(engine.enqueue([job(f"{name}-{n}")]) for n in range(50)))
        done: list[str] = []
        reports: list[Succeeded] = []
        while True:
            answer: Exchanged = await engine.exchange(name, reports, 5)
            assert len(answer.attempts) <= 3
            reports = [Succeeded(attempt.job, attempt.number) for attempt in answer.attempts]
            done += [attempt.job for attempt in answer.attempts]
            if not reports and await engine.count(Filter(states=(JobState.SUCCEEDED,))) == 300:
                return done

    with ThreadPoolExecutor(6) as pool:
        loops = [pool.submit(asyncio.run, work(f"w{n}")) for n in range(6)]
        done = [id for future in loops for id in await asyncio.wrap_future(future)]
    assert sorted(done) == sorted(f"w{n}-{k}" for n in range(6) for k in range(50))


async def test_two_engines_of_one_process_see_each_other_at_once(open_engine: OpenEngine):
    one, other = await open_engine(), await open_engine()
    await one.declare([Limit("A", "concurrency", 1)])
    await other.enqueue([job("j")])
    await one.register(Worker("w", frozenset({"t"})))
    assert [attempt.job for attempt in (await one.exchange("w", [], 5)).attempts] == ["j"]
    await other.declare([Limit("A", "concurrency", 2)])
    await one.enqueue([job("k")])
    assert [attempt.job for attempt in (await one.exchange("w", [], 5)).attempts] == ["k"]


async def test_closing_waits_for_what_was_handed_in(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])
    tasks = [asyncio.ensure_future(engine.enqueue([job(f"j{n}")])) for n in range(300)]
    await turns()
    await engine.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    stored = [n for n, result in enumerate(results) if isinstance(result, list)]
    assert all(isinstance(result, list | EngineUnavailable) for result in results)
    states = await engine.states([f"j{n}" for n in range(300)])
    assert [n for n, state in enumerate(states) if state is not None] == stored


async def test_closing_twice_or_unopened_is_harmless(path: Path, engine: SqliteEngine):
    await engine.close()
    await engine.close()
    await SqliteEngine(path).close()


async def test_operations_that_race_with_closing_end_one_way_or_the_other(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])
    file = engine._file
    assert file is not None
    outcomes: list[object] = []

    async def many(name: str) -> None:
        for n in range(200):
            work = file.write(lambda step, id=f"{name}-{n}": step.enqueue([job(id)]), None)
            try:
                outcomes.append(await asyncio.wait_for(work, 10))
            except EngineUnavailable as error:
                outcomes.append(error)

    threads = [threading.Thread(target=asyncio.run, args=(many(f"t{n}"),)) for n in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(eventually, lambda: len(outcomes) > 40, "some work")
    await engine.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
    assert len(outcomes) == 800
    stored = sum(isinstance(outcome, list) for outcome in outcomes)
    assert await engine.count(Filter()) == stored


async def test_a_loop_that_ends_with_work_in_flight_harms_nobody(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])

    def abandon(name: str) -> None:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(engine.enqueue([job(f"{name}-{n}")])) for n in range(20)]
        loop.run_until_complete(turns())
        for task in tasks:
            task.cancel()
        loop.run_until_complete(turns())
        loop.close()

    await asyncio.gather(*(asyncio.to_thread(abandon, f"t{n}") for n in range(5)))
    await engine.enqueue([job("after")])
    assert await engine.states(["after"]) == [JobState.WAITING]


async def test_a_sleeper_that_cannot_be_woken_does_not_stop_the_engine(
    engine: SqliteEngine, caplog: pytest.LogCaptureFixture
):
    await engine.declare([Limit("A", "concurrency", 9)])
    woken = threading.Event()

    def broken() -> None:
        raise RuntimeError("no loop")

    ends = [engine.watch_work(broken), engine.watch_ended(broken), engine.watch_work(woken.set)]
    await engine.enqueue([job("j")])
    assert await asyncio.to_thread(woken.wait, 5)
    await engine.enqueue([job("k")])
    assert await engine.states(["j", "k"]) == [JobState.READY] * 2
    for end in ends:
        end()
    assert "could not be woken" in caplog.text


async def test_an_idle_engine_commits_nothing_and_wakes_nobody(engine: SqliteEngine, open_engine: OpenEngine):
    other = await open_engine()
    rings: list[float] = []
    end = other.watch_work(lambda: rings.append(time.monotonic()))
    await engine.declare([Limit("A", "concurrency", 1)])
    await asyncio.to_thread(eventually, lambda: rings, "the first ring")
    await asyncio.sleep(0.1)
    before = len(rings)
    for _ in range(10):
        assert (await engine.sweep()).due == 0
    await stays(lambda: len(rings) == before, "no ring")
    end()
