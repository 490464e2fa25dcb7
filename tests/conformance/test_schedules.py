"""Periodic tasks that operators pause: they do not tick, and what fell into the pause is passed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headgate.engine.contract import Engine
from headgate.job import JobState
from tests.support.world import World


async def test_no_schedule_is_paused_at_first(world: World) -> None:
    assert await world.engine.paused_schedules() == frozenset()


async def test_a_paused_schedule_does_not_tick(world: World) -> None:
    await world.engine.tick("nightly", None, 100, [], now=world.now)
    assert await world.engine.pause_schedule("nightly", now=world.now)
    assert not await world.engine.tick("nightly", 100, 200, [world.job("j1")], now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": 100}
    assert await world.state("j1") is None


async def test_a_schedule_can_be_paused_before_its_first_tick(world: World) -> None:
    assert await world.engine.pause_schedule("nightly", now=world.now)
    assert not await world.engine.tick("nightly", None, 100, [world.job("j1")], now=world.now)
    assert await world.engine.ticks(["nightly"]) == {}
    assert await world.state("j1") is None


async def test_a_pause_concerns_one_schedule_and_is_seen_by_all(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    await world.engine.pause_schedule("nightly", now=world.now)
    await world.engine.pause_schedule("weekly", now=world.now)
    other = await another_engine()
    assert await other.paused_schedules() == {"nightly", "weekly"}
    assert not await other.tick("nightly", None, 100, [], now=world.now)
    assert await other.tick("hourly", None, 100, [world.job("j1")], now=world.now)
    assert await world.claim() == ["j1"]


async def test_pausing_and_resuming_say_whether_that_is_new(world: World) -> None:
    assert await world.engine.pause_schedule("nightly", now=world.now)
    assert not await world.engine.pause_schedule("nightly", now=world.now)
    assert await world.engine.resume_schedule("nightly", now=world.now)
    assert not await world.engine.resume_schedule("nightly", now=world.now)
    assert await world.engine.paused_schedules() == frozenset()


async def test_a_resumed_schedule_goes_on_from_now_and_not_from_what_it_missed(world: World) -> None:
    await world.engine.tick("nightly", None, world.now, [], now=world.now)
    await world.engine.pause_schedule("nightly", now=world.now)
    before = world.now
    world.move(100_000)
    await world.engine.resume_schedule("nightly", now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": world.now}
    assert not await world.engine.tick("nightly", before, world.now, [world.job("j1")], now=world.now)
    assert await world.engine.tick("nightly", world.now, world.at(200_000), [world.job("j2")], now=world.now)
    assert await world.engine.states(["j1", "j2"]) == [None, JobState.READY]


async def test_a_schedule_that_never_ticked_begins_with_its_resumption(world: World) -> None:
    await world.engine.pause_schedule("nightly", now=world.now)
    await world.engine.resume_schedule("nightly", now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": world.now}


async def test_a_resumption_of_what_was_not_paused_moves_no_tick(world: World) -> None:
    await world.engine.tick("nightly", None, 100, [], now=world.now)
    assert not await world.engine.resume_schedule("nightly", now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": 100}


async def test_jobs_that_a_schedule_has_made_go_on_while_it_is_paused(world: World) -> None:
    await world.engine.tick("nightly", None, 100, [world.job("j1")], now=world.now)
    await world.engine.pause_schedule("nightly", now=world.now)
    assert await world.claim() == ["j1"]
    await world.end("j1")
