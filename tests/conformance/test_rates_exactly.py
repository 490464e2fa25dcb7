"""Rates to the microsecond: where an interval and a window end, when the one timer rings, and for whom."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Algorithm
from tests.conformance.spending import ALGORITHMS, EXACT, MICROSECOND, rings, spend
from tests.support.world import World

# ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_interval_that_does_not_divide_is_rounded_up(world: World) -> None:
    await world.rate("R", 7, per=60)
    await world.fill(9, "R")
    assert len(await world.claim()) == 7
    assert await rings(world) == 8.571_429
    await world.later(8.571_429)
    assert await world.claim() == ["j8"]
    assert await rings(world) == 8.571_429


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_token_is_back_at_its_very_time_and_not_a_microsecond_before(
    world: World, algorithm: Algorithm
) -> None:
    await world.rate("R", 1, per=10, algorithm=algorithm)
    await spend(world, 1)
    world.move(10 - MICROSECOND)
    await world.enqueue("early", "R")
    assert await world.claim() == []
    assert await rings(world) == MICROSECOND
    await world.cancel("early")
    world.move(MICROSECOND)
    await world.enqueue("in time", "R")
    assert await world.claim() == ["in time"], "also without a sweep"


async def test_a_part_of_an_interval_counts_for_the_next_token(world: World) -> None:
    await world.rate("R", 2, per=20)
    await spend(world, 1, 1, every=9)
    await world.fill(2, "R")
    assert await world.claim() == []
    assert await rings(world) == 1, "the first token was taken nine seconds ago"
    await world.later(1)
    assert await world.claim() == ["j1"]
    assert await rings(world) == 10


async def test_an_idle_bucket_holds_its_burst_and_no_more(world: World) -> None:
    await world.rate("R", 2, per=10, burst=3)
    await spend(world, 1, 1)
    world.move(1000)
    await world.fill(5, "R")
    assert len(await world.claim()) == 3


@pytest.mark.parametrize("algorithm", EXACT)
async def test_sweeps_forget_nothing_that_still_counts(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 4, per=20, algorithm=algorithm)
    await spend(world, 1, 1, 1, 1)
    await world.enqueue("due", delay=20 - MICROSECOND)
    assert (await world.later(20 - MICROSECOND)).due == 1, "a sweep that has other work, too"
    await world.fill(4, "R")
    assert len(await world.claim()) == 1 + (3 if algorithm == "token_bucket" else 0)


async def test_a_window_counts_what_was_spent_and_not_how_many_started(world: World) -> None:
    await world.rate("R", 5, per=10, algorithm="sliding_window")
    await spend(world, 3, 1, every=4)
    await world.enqueue("costly", ("R", 4))
    assert await world.claim() == []
    assert await rings(world) == 6, "the first three come back then, and four are there"
    await world.later(6)
    assert await world.claim() == ["costly"]


async def test_a_window_waits_for_as_many_of_many_starts_as_are_needed(world: World) -> None:
    """More starts than a store looks at in one piece."""
    await world.rate("R", 60, per=100, algorithm="sliding_window")
    await spend(world, *[1] * 60, every=1)
    await world.enqueue("costly", ("R", 57))
    assert await world.claim() == []
    assert await rings(world) == 100 + 56 - 59, "57 of the 60 must have left"


async def test_starts_of_one_step_leave_a_window_together(world: World) -> None:
    await world.rate("R", 4, per=10, algorithm="sliding_window")
    await spend(world, 1)
    world.move(3)
    await world.fill(3, "R")
    await world.enqueue("costly", ("R", 3), priority=60)
    assert await world.claim() == ["j1", "j2", "j3"]
    assert await rings(world) == 10
    await world.later(7)
    assert await world.claim() == []
    await world.later(3)
    assert await world.claim() == ["costly"]


# ── for whom the timer rings ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("algorithm", EXACT)
async def test_the_timer_waits_for_all_tokens_that_the_head_costs(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 5, per=10, algorithm=algorithm)
    await spend(world, 2, 3, every=1)
    await world.enqueue("costly", ("R", 4))
    await world.claim()
    assert await rings(world) == (7 if algorithm == "token_bucket" else 10)


async def test_the_timer_rings_for_the_queue_whose_head_comes_first(world: World) -> None:
    await world.rate("R", 10, per=10)
    await spend(world, 10)
    for queue, cost in (("a", 5), ("b", 2), ("c", 7)):
        await world.enqueue(queue, ("R", cost), queue=queue)
    await world.claim()
    assert await rings(world) == 2
    await world.later(2)
    assert await world.states("a", "b", "c") == ["waiting", "ready", "waiting"]


async def test_a_cheap_job_that_becomes_the_head_brings_the_timer_forward(world: World) -> None:
    await world.rate("R", 10, per=10)
    await spend(world, 10)
    await world.enqueue("costly", ("R", 8))
    await world.claim()
    assert await rings(world) == 8
    await world.enqueue("urgent", ("R", 1), priority=10)
    assert await rings(world) == 1
    await world.later(1)
    assert await world.claim() == ["urgent"]
    assert await rings(world) == 8


async def test_a_costly_job_that_becomes_the_head_puts_the_timer_back(world: World) -> None:
    await world.rate("R", 10, per=10)
    await spend(world, 10)
    await world.enqueue("cheap", "R")
    await world.claim()
    await world.enqueue("urgent", ("R", 8), priority=10)
    assert await rings(world) == 8
    await world.later(7)
    assert await world.claim() == [], "the cheap one does not pass it"
    await world.later(1)
    assert await world.claim() == ["urgent"]


async def test_a_head_that_is_cancelled_leaves_its_tokens_to_the_next_at_once(world: World) -> None:
    await world.rate("R", 10, per=10)
    await spend(world, 10)
    await world.enqueue("costly", ("R", 8))
    await world.enqueue("cheap", ("R", 2))
    await world.enqueue("last", ("R", 2))
    await world.claim()
    await world.later(3)
    assert await world.claim() == []
    await world.cancel("costly")
    assert await world.states("cheap", "last") == ["ready", "waiting"]
    assert await rings(world) == 1


async def test_an_offered_job_that_is_cancelled_leaves_its_tokens_to_the_next(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(3, "R")
    await world.claim()
    await world.later(10)
    assert await world.states("j2", "j3") == ["ready", "waiting"]
    await world.cancel("j2")
    assert await world.state("j3") == "ready"
    assert await world.claim() == ["j3"]


# ── tokens of jobs that another key refuses ──────────────────────────────────────────────────────────────────────────


async def test_a_job_that_its_second_rate_refuses_leaves_the_first_as_it_is(world: World) -> None:
    await world.rate("Q", 1, per=100)
    await world.rate("R", 1, per=10)
    await spend(world, 1)
    await world.enqueue("both", "Q", "R")
    assert await world.claim() == []
    assert await world.waiting_on("both") == "R"
    await world.enqueue("other", "Q")
    assert await world.claim() == ["other"], "the token of Q is still there"
    await world.later(10)
    assert await world.claim() == []
    assert await world.waiting_on("both") == "Q"
    await world.enqueue("next", "R")
    assert await world.claim() == ["next"], "nor is the token of R gone"


async def test_a_token_that_was_offered_to_a_job_that_another_key_refuses_goes_to_the_next(
    world: World,
) -> None:
    await world.limit("A", 1)
    await world.rate("R", 1, per=10)
    await spend(world, 1)
    await world.enqueue("first", "A", "R")
    await world.enqueue("second", "R")
    assert await world.claim() == []
    await world.enqueue("holder", "A", priority=10)
    assert await world.claim() == ["holder"]
    await world.later(10)
    assert await world.claim() == ["second"]
    assert await world.waiting_on("first") == "A"
    await world.end("holder")
    assert await world.claim() == []
    assert await world.waiting_on("first") == "R"
    assert await world.held("A") == []
    assert await rings(world) == 10


@pytest.mark.parametrize("how", ["release", "fail", "lose", "snooze"])
async def test_a_start_costs_its_tokens_however_the_attempt_ends(world: World, how: str) -> None:
    await world.rate("R", 2, per=20)
    await world.enqueue("j1", ("R", 2))
    await world.claim()
    match how:
        case "release":
            await world.release("j1")
        case "fail":
            await world.fail("j1", retry=0)
        case "snooze":
            await world.snooze("j1", 0)
        case _:
            await world.lose()
    await world.later(10)
    assert await world.claim() == []
    await world.later(10)
    assert await world.claim() == ["j1"]


# ── a clock that goes back ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_window_keeps_its_limit_while_the_clock_goes_back(world: World) -> None:
    await world.rate("R", 2, per=10, algorithm="sliding_window")
    await spend(world, 1)
    world.move(-5)
    await spend(world, 1)
    await world.fill(2, "R")
    assert await world.claim() == []
    assert await rings(world) == 10, "the start that the clock calls the earlier one leaves first"
    await world.later(10)
    assert await world.claim() == ["j1"]
    assert await rings(world) == 5
    await world.later(5)
    assert await world.claim() == ["j2"]


async def test_a_bucket_keeps_its_rate_while_the_clock_goes_back(world: World) -> None:
    await world.rate("R", 1, per=10)
    await spend(world, 1)
    world.move(-5)
    await world.fill(1, "R")
    assert await world.claim() == []
    assert await rings(world) == 15
    await world.later(15)
    assert await world.claim() == ["j1"]
