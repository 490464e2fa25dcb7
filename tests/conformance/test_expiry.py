"""Jobs that must start by a time or not at all."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.job import JobState
from tests.support.world import World

EXPIRED = "expired: it was not started in time"


async def test_a_job_that_has_not_started_in_time_ends(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("runs", "A")
    await world.claim()
    await world.enqueue("waits", "A", start_within=10 * SECOND)
    await world.enqueue("future", delay=60, start_by=world.at(10))
    await world.enqueue("lasting", "A")
    await world.later(9.9)
    assert await world.states("waits", "future") == ["waiting", "scheduled"]
    await world.later(0.1)
    for id in ("waits", "future"):
        job = await world.get(id)
        assert (job.state, job.error, job.attempt) == (JobState.CANCELLED, EXPIRED, 0)
    await world.end("runs")
    assert await world.claim() == ["lasting"]


async def test_a_claim_never_starts_what_is_too_late(world: World) -> None:
    await world.fill(3, start_within=5 * SECOND)
    await world.enqueue("free")
    world.move(5)
    assert await world.claim() == ["free"], "no sweep has come by"
    assert (await world.get("j1")).error == EXPIRED


async def test_one_that_started_in_time_is_tried_again_later(world: World) -> None:
    await world.enqueue("a", start_within=5 * SECOND)
    assert (await world.get("a")).start_by == world.at(5)
    await world.claim()
    assert (await world.get("a")).start_by is None
    await world.fail("a", retry=60)
    await world.later(60)
    assert await world.claim() == ["a"]


async def test_the_next_sweep_is_due_when_the_first_is_too_late(world: World) -> None:
    await world.enqueue("a", start_within=7 * SECOND)
    await world.enqueue("b", start_within=3 * SECOND)
    answer = await world.exchange(want=0)
    assert answer.next_due == world.at(3)


async def test_a_restart_has_all_the_time_there_is(world: World) -> None:
    await world.enqueue("a", start_within=1 * SECOND)
    await world.later(1)
    assert await world.state("a") is JobState.CANCELLED
    await world.restart("a")
    await world.later(100)
    assert await world.claim() == ["a"]


async def test_an_expired_offer_passes_on(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(1, "A", start_within=2 * SECOND)
    await world.enqueue("next", "A")
    await world.met()
    await world.later(2)
    assert await world.claim() == ["next"]


async def test_many_end_in_slices(world: World) -> None:
    await world.fill(2500, start_within=2 * SECOND)
    await world.later(2)
    assert await world.claim() == []
    assert await world.unfinished() == {}
