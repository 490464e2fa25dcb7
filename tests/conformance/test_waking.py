"""Waking: a sleeper is called when a job may have become ready, a cancel was asked, a job may have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headgate.engine.contract import Engine, ImportedJob, Override, Progress, Succeeded
from tests.support.world import World


class Sleeper:
    """Counts calls, from whichever thread they come."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.called = asyncio.Event()

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.called.set)

    async def hears(self, doing: Awaitable[object]) -> bool:
        """Whether a call comes within a second of this."""
        self.called.clear()
        await doing
        try:
            await asyncio.wait_for(self.called.wait(), 1)
        except TimeoutError:
            return False
        return True


@pytest.fixture
async def sleeper(world: World) -> AsyncIterator[Sleeper]:
    sleeper = Sleeper()
    stop = world.engine.watch_work(sleeper.wake)
    yield sleeper
    stop()


@pytest.fixture
async def waiter(world: World) -> AsyncIterator[Sleeper]:
    waiter = Sleeper()
    stop = world.engine.watch_ended(waiter.wake)
    yield waiter
    stop()


async def test_an_enqueue_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    assert await sleeper.hears(world.enqueue("j1"))


async def test_a_nearer_due_time_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    assert await sleeper.hears(world.enqueue("j1", delay=100))


async def test_a_slot_that_comes_back_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    assert await sleeper.hears(world.end("j1"))


async def test_a_raised_limit_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.limit("A", 0)
    await world.enqueue("j1", "A")
    assert await sleeper.hears(world.engine.override(Override("A", 1), now=world.now))


async def test_a_cancel_of_a_running_job_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.enqueue("j1")
    await world.claim()
    assert await sleeper.hears(world.cancel("j1"))


async def test_a_resumed_queue_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.engine.pause("default", now=world.now)
    await world.enqueue("j1")
    assert await sleeper.hears(world.engine.resume("default", now=world.now))


async def test_a_due_job_wakes_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.enqueue("j1", delay=5)
    assert await sleeper.hears(world.later(5))


async def test_a_restart_an_expedite_and_an_import_wake_a_worker(world: World, sleeper: Sleeper) -> None:
    await world.enqueue("j1", delay=50)
    assert await sleeper.hears(world.expedite("j1"))
    await world.cancel("j1")
    assert await sleeper.hears(world.restart("j1"))
    assert await sleeper.hears(world.take_over(ImportedJob(world.job("j2"))))


async def test_a_worker_of_one_queue_is_called_for_that_queue(world: World) -> None:
    mine = Sleeper()
    stop = world.engine.watch_work(mine.wake, ["mine"])
    assert await mine.hears(world.enqueue("j1", queue="mine"))
    stop()


async def test_an_enqueue_by_another_engine_wakes_a_worker(
    world: World, sleeper: Sleeper, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    other = await another_engine()
    assert await sleeper.hears(other.enqueue([world.job("j1")], now=world.now))


async def test_who_waits_for_results_is_called_when_a_job_ends(world: World, waiter: Sleeper) -> None:
    await world.fill(3)
    await world.claim(2)
    assert await waiter.hears(world.end("j1"))
    assert await waiter.hears(world.fail("j2"))
    assert await waiter.hears(world.cancel("j3"))


async def test_who_waits_for_results_is_called_by_progress(world: World, waiter: Sleeper) -> None:
    await world.enqueue("j1")
    await world.claim()
    assert await waiter.hears(world.exchange(Progress("j1", 1, "0.5")))


async def test_who_waits_for_results_is_called_for_another_engines_report(
    world: World, waiter: Sleeper, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    await world.enqueue("j1")
    await world.claim()
    other = await another_engine()
    assert await waiter.hears(other.exchange("w", [Succeeded("j1", 1)], 0, now=world.now))


async def test_a_watch_that_was_ended_is_not_called(world: World) -> None:
    calls: list[int] = []
    stop_work = world.engine.watch_work(lambda: calls.append(1))
    stop_ended = world.engine.watch_ended(lambda: calls.append(2))
    stop_work()
    stop_ended()
    calls.clear()  # who begins to watch may be called once, in case something happened just before
    await world.enqueue("j1")
    await world.claim()
    await world.end("j1")
    assert calls == []
