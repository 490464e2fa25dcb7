"""A service said: not now. Its key is closed for everybody for a while, and then opens like a bucket that fills."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Algorithm
from headgate.job import JobState
from tests.support.world import World


async def test_the_job_comes_back_uncounted_at_its_old_place(world: World) -> None:
    await world.rate("api", 60, per=60)
    await world.enqueue("a", "api")
    await world.claim()
    await world.enqueue("b", "api")
    await world.throttle("a", 12)
    assert await world.claim() == []
    job = await world.get("a")
    assert (job.state, job.tries, job.attempt) == (JobState.WAITING, 0, 1)
    assert job.history[-1].outcome == "throttled"
    await world.later(12)
    assert await world.claim() == ["a"]


@pytest.mark.parametrize("algorithm", ["token_bucket", "sliding_window", "leaky"])
async def test_a_rate_is_closed_for_everybody_and_opens_like_a_bucket(
    world: World, algorithm: Algorithm
) -> None:
    await world.rate("api", 60, per=60, algorithm=algorithm)
    await world.fill(119, "api")
    first = (await world.claim())[0]
    await world.throttle(first, 12)
    await world.later(11.9)
    assert await world.claim() == []
    started = 0
    for _ in range(13):
        await world.later(1)
        found = await world.claim()
        assert len(found) <= 5, "no herd"
        started += len(found)
    assert 10 <= started <= 16 or algorithm == "sliding_window", (
        "its tokens of before come back a minute after them"
    )


async def test_several_that_are_told_the_same_close_it_once(world: World) -> None:
    await world.rate("api", 60, per=60, algorithm="sliding_window")
    await world.fill(8, "api")
    running = await world.claim()
    for number, id in enumerate(running):
        world.move(0.01)
        await world.throttle(id, 10 + number / 100)
    await world.later(9.9)
    assert await world.claim() == []
    await world.later(0.3)
    assert len(await world.claim()) == 3, "one part of twenty"
    await world.later(3)
    assert len(await world.claim()) == 3


async def test_a_window_that_is_closed_for_a_moment_forgets_nothing_that_it_has_seen(world: World) -> None:
    await world.rate("api", 10, per=10, algorithm="sliding_window")
    await world.fill(1, "api")
    await world.claim()
    world.move(9)
    await world.fill(20, "api", prefix="later")
    running = await world.claim()
    assert len(running) == 9
    await world.throttle(running[0], 1.5)
    started = 0
    for _ in range(9):
        await world.later(1)
        started += len(await world.claim())
    assert started == 1, "nine have started in these ten seconds"
    await world.later(1.1)
    assert len(await world.claim()) == 8, "then all but what has not opened yet"


async def test_what_was_spent_before_a_window_was_closed_is_given_back_by_time_alone(world: World) -> None:
    await world.rate("api", 10, per=10, algorithm="sliding_window", estimated=True)
    await world.enqueue("a", ("api", 8))
    await world.claim()
    await world.enqueue("b", ("api", 2))
    (b,) = await world.claim()
    await world.throttle(b, 1)
    await world.spent("a", "api", 1)
    await world.later(9)
    assert await world.claim() == [], "its eight tokens come back ten seconds after it"
    await world.later(1.1)
    assert await world.claim() == ["b"]


async def test_a_concurrency_key_is_closed_and_opens_slot_by_slot(world: World) -> None:
    await world.limit("crm", 8)
    await world.fill(20, "crm")
    running = await world.claim()
    assert len(running) == 8
    await world.throttle(running[0], 8)
    await world.end(*running[1:])
    assert await world.claim() == []
    assert (await world.status("crm")).opens_at == world.now + 8_000_000
    await world.later(7.9)
    assert await world.claim() == []
    opened = []
    await world.later(0.1)
    for _ in range(9):
        found = await world.claim()
        opened.append(len(found))
        await world.later(1)
    assert opened == [1] * 8 + [0]
    assert (await world.status("crm")).opens_at is None
    await world.end(*[id for id in world.claimed if await world.state(id) is JobState.RUNNING])
    assert len(await world.claim()) == 5, "as wide as before"


async def test_keys_of_another_value_are_not_closed(world: World) -> None:
    await world.limit("crm", 2)
    await world.enqueue("a", "crm=1")
    await world.claim()
    await world.throttle("a", 10)
    await world.enqueue("b", "crm=2")
    assert await world.claim() == ["b"]


async def test_without_a_name_rates_are_closed_before_slots(world: World) -> None:
    await world.limit("crm", 2)
    await world.rate("api", 60, per=60)
    await world.enqueue("a", "crm", "api")
    await world.claim()
    await world.throttle("a", 10)
    await world.enqueue("slot", "crm")
    await world.enqueue("token", "api")
    assert await world.claim() == ["slot"]
    await world.later(10)
    assert await world.claim() == ["a"]


async def test_a_name_says_which_limit_is_meant(world: World) -> None:
    await world.limit("crm", 2)
    await world.rate("api", 60, per=60)
    await world.enqueue("a", "crm", "api")
    await world.claim()
    await world.throttle("a", 10, "crm")
    await world.enqueue("slot", "crm")
    await world.enqueue("token", "api")
    assert await world.claim() == ["token"]


async def test_a_job_without_such_a_key_is_snoozed(world: World) -> None:
    await world.limit("task:t", 5)
    await world.enqueue("a")
    await world.claim()
    await world.throttle("a", 10)
    job = await world.get("a")
    assert (job.state, job.tries) == (JobState.SCHEDULED, 0)
    await world.enqueue("b")
    assert await world.claim() == ["b"], "the cap of its task is none of the service's"
    await world.later(10)
    assert await world.claim() == ["a"]


async def test_a_cancelled_job_that_is_throttled_ends(world: World) -> None:
    await world.limit("crm", 2)
    await world.enqueue("a", "crm")
    await world.claim()
    await world.cancel("a")
    await world.throttle("a", 10)
    assert await world.state("a") is JobState.CANCELLED


async def test_a_throttled_job_takes_its_old_place(world: World) -> None:
    await world.rate("api", 60, per=60)
    await world.enqueue("a", "api")
    await world.claim()
    world.move(1)
    await world.enqueue("b", "api")
    world.move(1)
    await world.throttle("a", 12)
    assert await world.claim() == []
    await world.later(12)
    assert await world.claim() == ["a"]


async def test_a_shorter_throttle_leaves_a_longer_one(world: World) -> None:
    await world.limit("crm", 8)
    await world.fill(10, "crm")
    running = await world.claim()
    await world.throttle(running[0], 20)
    await world.throttle(running[1], 5)
    await world.end(*running[2:])
    await world.later(6)
    assert await world.claim() == []
