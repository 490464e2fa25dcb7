"""Costs that are known afterwards: an estimate is spent at the start, and corrected when the truth is known."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Algorithm, Spent
from tests.support.world import World

ALGORITHMS: list[Algorithm] = ["token_bucket", "sliding_window"]


@pytest.fixture(params=ALGORITHMS)
async def tokens(request: pytest.FixtureRequest, world: World) -> World:
    """A rate of 60 tokens a minute whose costs are estimates."""
    await world.rate("tokens", 60, per=60, algorithm=request.param, estimated=True)
    return world


async def left(world: World) -> int | None:
    return (await world.status("tokens")).tokens


async def test_what_was_not_needed_is_given_back_at_once(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 50))
    await tokens.enqueue("b", ("tokens", 40))
    assert await tokens.claim() == ["a"]
    assert await left(tokens) == 10
    await tokens.spent("a", "tokens", 20)
    assert await left(tokens) == 40
    assert await tokens.claim() == ["b"]


async def test_what_was_spent_beyond_the_estimate_is_a_debt_that_later_starts_wait_for(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 50))
    await tokens.claim()
    await tokens.spent("a", "tokens", 90)
    assert await left(tokens) == -30
    await tokens.enqueue("b", ("tokens", 10))
    assert await tokens.claim() == []
    await tokens.later(39.9)
    assert await tokens.claim() == []
    await tokens.later(60)
    assert await tokens.claim() == ["b"]


async def test_the_last_word_counts(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 50))
    await tokens.claim()
    await tokens.spent("a", "tokens", 10)
    await tokens.spent("a", "tokens", 30)
    await tokens.spent("a", "tokens", 25)
    assert await left(tokens) == 35


async def test_an_attempt_that_said_nothing_keeps_its_estimate(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 30))
    await tokens.enqueue("b", ("tokens", 20))
    await tokens.claim()
    await tokens.fail("a")
    await tokens.lose()
    assert await left(tokens) == 10


async def test_a_retry_spends_anew(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 30))
    await tokens.claim()
    await tokens.spent("a", "tokens", 5)
    await tokens.fail("a", retry=0)
    assert await tokens.claim() == ["a"]
    assert await left(tokens) == 25
    await tokens.spent("a", "tokens", 0)
    assert await left(tokens) == 55


async def test_what_time_has_given_back_is_not_given_back_twice(world: World) -> None:
    await world.rate("tokens", 60, per=60, estimated=True)
    await world.enqueue("a", ("tokens", 40))
    await world.claim()
    await world.later(30)
    assert await left(world) == 50
    await world.spent("a", "tokens", 0)
    assert await left(world) == 60
    await world.enqueue("b", ("tokens", 60))
    assert await world.claim() == ["b"]
    await world.later(50)
    await world.spent("b", "tokens", 0)
    assert await left(world) == 60


async def test_a_bucket_that_was_full_in_between_gives_nothing_back(world: World) -> None:
    await world.rate("tokens", 10, per=10, estimated=True)
    await world.enqueue("a", ("tokens", 10))
    await world.claim()
    await world.later(10)
    await world.enqueue("b", ("tokens", 10))
    assert await world.claim() == ["b"]
    await world.spent("a", "tokens", 0)
    assert await left(world) == 0, "else twenty would start at one instant"


async def test_corrections_of_several_starts_do_not_count_twice(world: World) -> None:
    await world.rate("tokens", 20, per=20, estimated=True)
    await world.enqueue("a", ("tokens", 10))
    await world.enqueue("b", ("tokens", 10))
    await world.claim()
    await world.spent("a", "tokens", 0)
    await world.later(8)
    await world.enqueue("c", ("tokens", 18))
    assert await world.claim() == ["c"]
    before = await left(world)
    assert before == 0
    await world.spent("b", "tokens", 0)
    assert await left(world) == 2, "of the ten that b spent, time had given back eight"


async def test_what_was_given_back_in_a_busy_period_does_not_count_in_the_next(world: World) -> None:
    await world.rate("tokens", 20, per=20, estimated=True)
    await world.enqueue("a", ("tokens", 10))
    await world.enqueue("b", ("tokens", 10))
    await world.claim()
    await world.spent("a", "tokens", 0)
    await world.later(12)
    await world.enqueue("c", ("tokens", 5))
    assert await world.claim() == ["c"]
    await world.spent("b", "tokens", 0)
    assert await left(world) == 15, "time had given back all of it before"


async def test_a_window_knows_when_a_start_was(world: World) -> None:
    await world.rate("tokens", 10, per=10, algorithm="sliding_window", estimated=True)
    await world.enqueue("a", ("tokens", 10))
    await world.claim()
    await world.later(9)
    await world.spent("a", "tokens", 3)
    assert await left(world) == 7
    await world.later(1)
    assert await left(world) == 10


async def test_a_leaky_rate_takes_a_debt(world: World) -> None:
    await world.rate("tokens", 6, per=60, algorithm="leaky", estimated=True)
    await world.fill(2, "tokens")
    await world.claim()
    await world.spent("j1", "tokens", 3)
    await world.later(20)
    assert await world.claim() == []
    await world.later(10)
    assert await world.claim() == ["j2"]


async def test_only_a_running_attempt_can_say_what_it_spent(tokens: World) -> None:
    await tokens.enqueue("a", ("tokens", 50))
    await tokens.claim()
    await tokens.end("a")
    answer = await tokens.exchange(Spent("a", 1, "tokens", 0))
    assert answer.refused == (("a", 1),)
    assert await left(tokens) == 10


async def test_what_a_job_does_not_use_is_passed_over(tokens: World) -> None:
    await tokens.enqueue("a")
    await tokens.claim()
    await tokens.spent("a", "tokens", 7)
    await tokens.spent("a", "unheard", 7)
    await tokens.end("a")
