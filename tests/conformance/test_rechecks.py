"""Self-healing (rule 20): a healthy store has nothing to mend, and looking changes nothing."""

from __future__ import annotations

from headgate.job import JobState
from tests.support.world import World


async def recheck_all(world: World, most: int = 3) -> tuple[list[str], int]:
    """Every slice; returns what was healed and how many slices there were."""
    healed: list[str] = []
    after: str | None = None
    for slices in range(1, 1000):
        answer = await world.engine.recheck(after, most=most, now=world.now)
        healed += answer.healed
        after = answer.after
        if after is None:
            return healed, slices
    raise AssertionError("the slices do not end")


async def test_an_empty_store_has_nothing_to_mend(world: World) -> None:
    assert await recheck_all(world) == ([], 1)


async def test_a_busy_store_has_nothing_to_mend_and_looking_changes_nothing(world: World) -> None:
    await world.limit("A", 2)
    await world.limit("B", 1)
    await world.rate("R", 1, per=10)
    for number in range(4):
        await world.enqueue(f"a{number}", f"A={number % 2}", queue=f"q{number % 2}")
        await world.enqueue(f"ab{number}", "A", "B")
        await world.enqueue(f"r{number}", "R", "A=5", delay=number % 2)
    await world.claim(5)
    await world.later(1)
    await world.cancel("ab1")
    before = await world.snapshot()
    healed, slices = await recheck_all(world)
    assert healed == []
    assert slices > 1
    assert await world.snapshot() == before


async def test_tokens_that_came_with_time_are_the_timers_business(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(2, "R")
    assert await world.claim() == ["j1"]
    world.move(11)
    assert (await recheck_all(world))[0] == []
    await world.sweep()
    assert await world.claim() == ["j2"]


async def test_a_rate_that_can_never_admit_the_first_waiter_is_left_alone(world: World) -> None:
    await world.rate("R", 5, per=10)
    await world.enqueue("too-much", ("R", 50))
    assert await world.claim() == []
    world.move(100)
    assert (await recheck_all(world))[0] == []
    assert await world.state("too-much") is JobState.WAITING


async def test_every_key_is_looked_at_once(world: World) -> None:
    await world.limit("A", 1)
    for number in range(10):
        await world.enqueue(f"j{number}", f"A={number}")
    await world.claim(100)
    assert await recheck_all(world, most=4) == ([], 3)
