"""A rate whose numbers change: what was spent counts on, and the one timer follows at once."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Algorithm
from tests.conformance.spending import EXACT, rings, spend
from tests.support.world import World


async def starts_now(world: World, prefix: str) -> int:
    """How many of many newcomers start at once."""
    ids = await world.fill(12, "R", prefix=prefix)
    found = await world.claim_all()
    await world.end(*found)
    await world.cancel(*[id for id in ids if id not in found])
    return len(found)


# ── the burst ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_override_leaves_a_declared_burst_as_it_is(world: World) -> None:
    await world.rate("R", 2, per=10, burst=3)
    await world.override("R", 10)
    assert await starts_now(world, "a") == 3
    await world.fill(1, "R")
    assert await world.claim() == []
    assert await rings(world) == 1, "the tokens come faster"


async def test_without_a_declared_burst_an_override_is_the_burst_too(world: World) -> None:
    await world.rate("R", 2, per=10)
    await world.override("R", 5)
    assert await starts_now(world, "a") == 5


async def test_an_override_of_a_leaky_rate_spreads_its_starts_too(world: World) -> None:
    await world.rate("R", 2, per=10, algorithm="leaky")
    await world.override("R", 5)
    assert await starts_now(world, "a") == 1
    await world.fill(1, "R")
    assert await world.claim() == []
    assert await rings(world) == 2


async def test_a_burst_that_grows_is_there_at_once_and_one_that_shrinks_is_gone(world: World) -> None:
    await world.rate("R", 1, per=10, burst=2)
    await spend(world, 1)
    await world.rate("R", 1, per=10, burst=4)
    assert await starts_now(world, "a") == 3
    await world.later(20)
    await world.rate("R", 1, per=10, burst=1)
    assert await starts_now(world, "b") == 0, "two of four tokens are there, one is less than none of one"
    await world.later(20)
    assert await starts_now(world, "c") == 1


async def test_a_head_that_a_smaller_burst_can_never_admit_waits_without_a_timer(world: World) -> None:
    await world.rate("R", 4, per=40)
    await spend(world, 4)
    await world.enqueue("costly", ("R", 3))
    await world.claim()
    assert await rings(world) == 30
    await world.rate("R", 4, per=40, burst=2)
    assert await rings(world) is None
    await world.later(100)
    assert await world.claim() == []
    await world.rate("R", 4, per=40, burst=3)
    assert await world.claim() == ["costly"]


# ── the number ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("algorithm", EXACT)
async def test_the_timer_follows_each_change_of_the_number(world: World, algorithm: Algorithm) -> None:
    exact = algorithm == "sliding_window"
    await world.rate("R", 2, per=10, algorithm=algorithm)
    await spend(world, 2)
    await world.enqueue("j", "R")
    await world.claim()
    assert await rings(world) == (10 if exact else 5)
    await world.override("R", 1)
    assert await rings(world) == 10
    await world.override("R", 0)
    assert await rings(world) is None
    await world.later(20)
    assert await world.state("j") == "waiting"
    await world.clear("R")
    assert await world.claim() == ["j"]


async def test_the_timer_follows_an_override_that_runs_out(world: World) -> None:
    await world.rate("R", 4, per=20)
    await spend(world, 4)
    await world.enqueue("costly", ("R", 3))
    await world.override("R", 1, until=5)
    assert await world.claim() == []
    assert await rings(world) is None, "three tokens are never there"
    await world.later(5)
    assert await rings(world) == 10
    await world.later(10)
    assert await world.claim() == ["costly"]


async def test_an_override_of_one_key_leaves_the_timers_of_others(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(2, "R=a", prefix="a")
    await world.fill(2, "R=b", prefix="b")
    assert await world.claim() == ["a1", "b1"]
    await world.override("R=a", 10)
    assert (await rings(world, "R=a"), await rings(world, "R=b")) == (1, 10)
    await world.override("R=a", None)
    assert await world.claim() == ["a2"]
    assert (await rings(world, "R=a"), await rings(world, "R=b")) == (None, 10)


@pytest.mark.parametrize("algorithm", EXACT)
async def test_a_lowered_number_counts_what_was_spent_before(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 10, per=10, algorithm=algorithm)
    await spend(world, 4)
    await world.rate("R", 3, per=10, algorithm=algorithm)
    assert await starts_now(world, "a") == (1 if algorithm == "token_bucket" else 0)


@pytest.mark.parametrize("algorithm", EXACT)
async def test_a_raised_number_counts_what_was_spent_before(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 4, per=8, algorithm=algorithm)
    await spend(world, 4)
    await world.rate("R", 8, per=8, algorithm=algorithm)
    assert await starts_now(world, "a") == (0 if algorithm == "token_bucket" else 4)
    await world.later(1)
    assert await starts_now(world, "b") == (1 if algorithm == "token_bucket" else 0)


# ── the period ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_window_that_becomes_longer_sees_the_starts_that_are_in_it(world: World) -> None:
    await world.rate("R", 2, per=10, algorithm="sliding_window")
    await spend(world, 1, 1, every=1)
    await world.rate("R", 2, per=60, algorithm="sliding_window")
    await world.later(11)
    await world.fill(2, "R")
    assert await world.claim() == []
    assert await rings(world) == 48
    await world.later(48)
    assert await world.claim() == ["j1"]
    assert await rings(world) == 1


async def test_a_window_that_becomes_shorter_lets_its_waiters_through_at_once(world: World) -> None:
    await world.rate("R", 2, per=60, algorithm="sliding_window")
    await spend(world, 1, 1, every=5)
    await world.fill(2, "R")
    await world.claim()
    assert await rings(world) == 55
    await world.later(5)
    await world.rate("R", 2, per=10, algorithm="sliding_window")
    assert await world.claim() == ["j1"]
    assert await rings(world) == 5


async def test_a_bucket_whose_period_changes_keeps_the_time_at_which_it_is_full(world: World) -> None:
    await world.rate("R", 2, per=20)
    await spend(world, 2)
    await world.fill(2, "R")
    await world.claim()
    assert await rings(world) == 10
    await world.rate("R", 2, per=2)
    assert await rings(world) == 19
    await world.rate("R", 2, per=200)
    assert await rings(world) == 20, "of two hundred seconds twenty are missing: one token is there"
    assert await world.claim() == ["j1"]
    assert await rings(world) == 20
