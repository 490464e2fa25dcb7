"""Periodic ticks: compare-and-set, so that one of many workers enqueues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headgate.engine.contract import Engine
from headgate.errors import ConfigError
from headgate.keys import Key, Use
from tests.support.world import World


async def test_the_first_tick_is_taken_by_who_saw_none(world: World) -> None:
    assert await world.engine.ticks(["nightly"]) == {}
    assert await world.engine.tick("nightly", None, 100, [world.job("j1")], now=world.now)
    assert await world.engine.ticks(["nightly", "unknown"]) == {"nightly": 100}
    assert await world.claim() == ["j1"]


async def test_a_tick_that_somebody_else_has_moved_is_refused_and_enqueues_nothing(world: World) -> None:
    await world.engine.tick("nightly", None, 100, [], now=world.now)
    assert not await world.engine.tick("nightly", None, 200, [world.job("j1")], now=world.now)
    assert not await world.engine.tick("nightly", 99, 200, [world.job("j1")], now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": 100}
    assert await world.state("j1") is None


async def test_a_tick_moves_on_from_what_was_seen(world: World) -> None:
    await world.engine.tick("nightly", None, 100, [], now=world.now)
    jobs = [world.job("j1"), world.job("j2")]
    assert await world.engine.tick("nightly", 100, 300, jobs, now=world.now)
    assert await world.engine.ticks(["nightly"]) == {"nightly": 300}
    assert await world.claim() == ["j1", "j2"]


async def test_many_workers_that_tick_at_once_enqueue_one_run(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    engines = [await another_engine() for _ in range(8)]
    taken = await asyncio.gather(
        *(
            engine.tick("nightly", None, 100, [world.job(f"j{number}")], now=world.now)
            for number, engine in enumerate(engines)
        )
    )
    assert sum(taken) == 1
    assert len(await world.claim()) == 1


async def test_ticks_of_different_names_are_apart(world: World) -> None:
    assert await world.engine.tick("a", None, 1, [], now=world.now)
    assert await world.engine.tick("b", None, 2, [], now=world.now)
    assert await world.engine.ticks(["b", "a"]) == {"a": 1, "b": 2}


async def test_a_tick_whose_jobs_cannot_be_enqueued_does_not_move(world: World) -> None:
    bad = type(world.job("x"))(id="bad", task="t", uses=(Use(Key("undeclared").ident),))
    with pytest.raises(ConfigError):
        await world.engine.tick("nightly", None, 100, [world.job("j1"), bad], now=world.now)
    assert await world.engine.ticks(["nightly"]) == {}
    assert await world.state("j1") is None


async def test_jobs_of_a_tick_obey_limits(world: World) -> None:
    await world.limit("A", 1)
    jobs = [world.job("j1", "A"), world.job("j2", "A")]
    await world.engine.tick("nightly", None, 100, jobs, now=world.now)
    assert await world.claim() == ["j1"]
