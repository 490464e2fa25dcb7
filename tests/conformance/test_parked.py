"""An exchange says which limits refused what it wanted to start."""

from __future__ import annotations

from headgate.engine.contract import Exchanged, Succeeded
from tests.support.world import World


async def lowered(world: World, *names: str) -> None:
    """Operators close limits that ready jobs were offered by."""
    for name in names:
        await world.override(name, 0)


async def test_a_limit_that_refuses_ready_jobs_is_named_with_how_many(world: World) -> None:
    await world.limit("A", 5)
    await world.limit("B", 5)
    await world.fill(3, "A=1", prefix="a")
    await world.fill(2, "B", prefix="b")
    await world.enqueue("other", "A=2")
    await lowered(world, "A=1", "B")
    answer = await world.exchange(want=10)
    assert [attempt.job for attempt in answer.attempts] == ["other"]
    assert answer.parked == (("A", 3), ("B", 2))


async def test_keys_of_one_limit_are_summed_also_across_tenants(world: World) -> None:
    await world.limit("A", 5)
    await world.enqueue("one", "A=1")
    await world.enqueue("two", "A=2", tenant="acme")
    await lowered(world, "A")
    assert (await world.exchange(want=10)).parked == (("A", 2),)


async def test_a_rate_that_is_spent_is_named(world: World) -> None:
    await world.rate("R", 3)
    await world.fill(3, "R")
    await world.rate("R", 1)
    answer = await world.exchange(want=10)
    assert [attempt.job for attempt in answer.attempts] == ["j1"]
    assert answer.parked == (("R", 2),)


async def test_the_caps_of_tasks_and_queues_are_named(world: World) -> None:
    await world.fill(2)
    await world.override("task:t", 1)
    assert (await world.exchange(want=10)).parked == (("task:t", 1),)


async def test_the_first_limit_that_refuses_is_the_one_that_counts(world: World) -> None:
    await world.limit("A", 5)
    await world.limit("B", 5)
    await world.enqueue("j", "A", "B")
    await lowered(world, "A", "B")
    assert (await world.exchange(want=1)).parked == (("A", 1),)


async def test_jobs_that_wait_already_and_newcomers_that_park_are_not_named(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    assert await world.claim() == ["first"]
    await world.fill(3, "A")
    assert await _settled(world) == ()
    answer = await world.exchange(Succeeded("first", 1), want=10)
    assert [attempt.job for attempt in answer.attempts] == ["j1"]
    assert answer.parked == ()


async def test_an_exchange_that_wants_nothing_names_nothing(world: World) -> None:
    await world.limit("A", 5)
    await world.fill(3, "A")
    await lowered(world, "A")
    assert (await world.exchange(want=0)).parked == ()


async def _settled(world: World) -> tuple[tuple[str, int], ...]:
    """What is left to be named once newcomers have parked: on PostgreSQL the claim that meets them does it."""
    answer: Exchanged | None = None
    while answer is None or answer.more or answer.parked:
        answer = await world.exchange(want=10)
    return answer.parked
