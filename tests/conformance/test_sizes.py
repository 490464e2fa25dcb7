"""Slots with a size: a job takes as many units as it says, and a large one at the head of its line is not overtaken."""

from __future__ import annotations

from headgate.job import JobState
from tests.support.world import World


async def test_held_is_the_sum_of_the_units_of_its_holders(world: World) -> None:
    await world.limit("gpu", 64, sized=True)
    await world.enqueue("large", ("gpu", 40))
    await world.enqueue("small", ("gpu", 20))
    await world.enqueue("late", ("gpu", 10))
    assert await world.claim() == ["large", "small"]
    assert (await world.status("gpu")).held == 60
    assert await world.waiting_on("late") == "gpu"
    await world.end("small")
    assert await world.claim() == ["late"]
    assert (await world.status("gpu")).held == 50
    await world.end("large", "late")
    await world.nothing_left()


async def test_a_large_job_at_the_head_of_its_line_is_not_overtaken(world: World) -> None:
    await world.limit("gpu", 4, sized=True)
    await world.enqueue("a", ("gpu", 2))
    await world.enqueue("b", ("gpu", 2))
    await world.claim()
    await world.enqueue("large", ("gpu", 4))
    await world.enqueue("small", ("gpu", 1))
    await world.end("a")
    assert await world.claim() == [], "two units are free, but the line waits for its head"
    await world.enqueue("newcomer", ("gpu", 1))
    assert await world.claim() == [], "nor does a newcomer pass"
    await world.end("b")
    assert await world.claim() == ["large"]
    await world.end("large")
    assert await world.claim() == ["small", "newcomer"]


async def test_when_a_large_head_leaves_the_next_ones_start(world: World) -> None:
    await world.limit("gpu", 4, sized=True)
    await world.enqueue("a", ("gpu", 3))
    await world.claim()
    await world.enqueue("large", ("gpu", 4))
    await world.enqueue("small", ("gpu", 1))
    assert await world.claim() == []
    await world.cancel("large")
    assert await world.claim() == ["small"]


async def test_passers_by_of_another_key_do_not_take_what_a_large_head_waits_for(world: World) -> None:
    await world.limit("gpu", 4, sized=True)
    await world.limit("B", 1)
    await world.enqueue("b", "B")
    await world.enqueue("a", ("gpu", 2))
    await world.claim()
    await world.enqueue("large", ("gpu", 4))
    await world.enqueue("passer", "B", ("gpu", 1))
    assert await world.claim() == []
    assert await world.waiting_on("passer") == "B"
    await world.end("b")
    assert await world.claim() == []
    assert await world.waiting_on("passer") == "gpu"
    await world.end("a")
    assert await world.claim() == ["large"]
    await world.end("large")
    assert await world.claim() == ["passer"]


async def test_lines_of_two_queues_share_the_units(world: World) -> None:
    await world.limit("gpu", 4, sized=True)
    await world.enqueue("a", ("gpu", 4))
    await world.claim()
    await world.enqueue("x", ("gpu", 3), queue="x")
    await world.enqueue("y", ("gpu", 3), queue="y")
    await world.end("a")
    assert len(await world.claim()) == 1, "both are offered the units, one gets them"


async def test_raising_and_lowering_count_units(world: World) -> None:
    await world.limit("gpu", 4, sized=True)
    await world.enqueue("a", ("gpu", 3))
    await world.claim()
    await world.enqueue("b", ("gpu", 3))
    await world.override("gpu", 6)
    assert await world.claim() == ["b"]
    await world.override("gpu", 1)
    assert await world.states("a", "b") == ["running", "running"]
    await world.end("a", "b")
    await world.enqueue("c", ("gpu", 3))
    assert await world.claim() == [], "its cost is above the number in force"
    assert await world.state("c") is JobState.WAITING
    await world.clear("gpu")
    assert await world.claim() == ["c"]


async def test_a_reservation_keeps_all_its_units(world: World) -> None:
    """Rule 7: a job that is passed over again and again keeps what it needs of the first key."""
    await world.limit("A", 3, sized=True)
    await world.limit("B", 1)
    await world.enqueue("b0", "B")
    await world.claim()
    await world.enqueue("both", ("A", 2), "B")
    for number in range(1, 12):
        await world.enqueue(f"b{number}", "B", priority=0)
        await world.enqueue(f"a{number}", ("A", 2), priority=0)
        await world.end(*[id for id in world.claimed if await world.state(id) is JobState.RUNNING])
        await world.claim()
        if await world.state("both") is JobState.RUNNING:
            break
    for _ in range(30):
        running = [id for id in world.claimed if await world.state(id) is JobState.RUNNING]
        await world.end(*running)
        if "both" in await world.claim():
            break
    assert "both" in world.claimed


async def test_units_come_back_however_the_attempt_ends(world: World) -> None:
    await world.limit("gpu", 5, sized=True)
    for number, ends in enumerate(("end", "fail", "stop", "release")):
        id = f"j{number}"
        await world.enqueue(id, ("gpu", 5))
        assert await world.claim() == [id]
        await getattr(world, ends)(id)
        await world.cancel(id)
    await world.enqueue("lost", ("gpu", 5))
    await world.claim()
    await world.lose()
    await world.cancel("lost")
    await world.nothing_left()
