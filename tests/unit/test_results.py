"""Waiting for many jobs with few questions."""

from __future__ import annotations

import asyncio

import pytest

from headgate.app.open_store import OpenStore
from headgate.engine.contract import Settings, Succeeded, Worker
from headgate.engine.memory import MemoryEngine
from headgate.errors import EngineUnavailable, SchemaMismatch
from headgate.job import Job, JobState, NewJob
from tests.support.waiting import turns, until


class Counting(MemoryEngine):
    """Counts how often it is asked, and tells when."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.asked: list[int] = []
        self.fetched = 0
        self.was_asked = asyncio.Event()
        self.broken = False
        self.refused = 0

    async def states(self, ids: object) -> list[JobState | None]:
        if self.broken:
            self.refused += 1
            raise EngineUnavailable("gone")
        found = await super().states(ids)  # pyright: ignore[reportArgumentType]
        self.asked.append(len(found))
        self.was_asked.set()
        return found

    async def get(self, ids: object) -> list[Job | None]:
        self.fetched += 1
        return await super().get(ids)  # pyright: ignore[reportArgumentType]


async def finish(engine: MemoryEngine, ids: list[str]) -> None:
    await engine.register(Worker("w", frozenset({"t"})))
    attempts = (await engine.exchange("w", (), len(ids))).attempts
    await engine.exchange("w", [Succeeded(one.job, one.number) for one in attempts], 0)


@pytest.fixture
def engine() -> Counting:
    return Counting()


async def test_a_hundred_waiters_share_one_question(engine: Counting):
    ids = [f"j{n}" for n in range(100)]
    await engine.enqueue([NewJob(id, "t") for id in ids])
    store = OpenStore(engine)
    waiting = [asyncio.create_task(store.ended(id)) for id in ids]
    await engine.was_asked.wait()
    assert engine.asked == [100]
    await finish(engine, ids)
    ended = await asyncio.gather(*waiting)
    assert [job.state for job in ended if job] == ["succeeded"] * 100
    assert engine.fetched == 1


async def test_two_waiters_of_one_job_are_both_told(engine: Counting):
    await engine.enqueue([NewJob("j", "t")])
    store = OpenStore(engine)
    waiting = [asyncio.create_task(store.ended("j")) for _ in range(2)]
    await engine.was_asked.wait()
    await finish(engine, ["j"])
    assert len({job.id for job in await asyncio.gather(*waiting) if job}) == 1


async def test_an_unknown_job_has_no_result(engine: Counting):
    assert await OpenStore(engine).ended("nobody") is None


async def test_a_waiter_that_gives_up_leaves_nothing_behind(engine: Counting):
    await engine.enqueue([NewJob("j", "t")])
    store = OpenStore(engine)
    waiter = asyncio.create_task(store.ended("j"))
    await engine.was_asked.wait()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert not engine._sleepers.for_ended


async def test_a_store_that_goes_away_and_comes_back_is_waited_for(
    engine: Counting, caplog: pytest.LogCaptureFixture
):
    await engine.enqueue([NewJob("j", "t")])
    engine.broken = True
    waiter = asyncio.create_task(OpenStore(engine).ended("j"))
    await until(lambda: engine.refused >= 3, patience=10)
    assert not waiter.done()
    engine.broken = False
    await finish(engine, ["j"])
    job = await asyncio.wait_for(waiter, 5)
    assert job is not None
    assert job.state is JobState.SUCCEEDED
    assert len([line for line in caplog.messages if "cannot be reached" in line]) == 1


async def test_a_store_that_cannot_be_used_is_reported_to_all_waiters(engine: Counting):
    async def newer(ids: object) -> list[JobState | None]:
        raise SchemaMismatch("newer")

    engine.states = newer
    store = OpenStore(engine)
    waiting = [asyncio.create_task(store.ended(id)) for id in ("a", "b")]
    for waiter in waiting:
        with pytest.raises(SchemaMismatch):
            await waiter


def test_each_loop_has_its_own_watcher(engine: Counting):
    store = OpenStore(engine)
    asyncio.run(engine.enqueue([NewJob("j", "t")]))

    async def wait() -> Job | None:
        waiter = asyncio.create_task(store.ended("j"))
        await turns()
        await finish(engine, ["j"])
        return await waiter

    first, second = asyncio.run(wait()), asyncio.run(store.ended("j"))
    assert first is not None
    assert first == second
