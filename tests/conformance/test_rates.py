"""Rates: tokens are spent by starts alone, come back with time, and go to waiters in order."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Algorithm, Limit
from headgate.errors import ConfigError
from headgate.job import JobState
from tests.support.world import World


async def starts(world: World, seconds: float, step: float = 1.0) -> list[float]:
    """Claim and end every `step`; the seconds at which jobs started."""
    begin, found = world.now, []
    while world.now - begin <= seconds * SECOND:
        for job in await world.claim_all():
            found.append((world.now - begin) / SECOND)
            await world.end(job)
        await world.later(step)
    return found


async def test_a_token_bucket_lets_its_burst_through_and_then_one_per_interval(world: World) -> None:
    await world.rate("R", 4, per=20)
    await world.fill(8, "R")
    assert await starts(world, 20) == [0, 0, 0, 0, 5, 10, 15, 20]


async def test_a_smaller_burst_lets_fewer_through_at_once(world: World) -> None:
    await world.rate("R", 4, per=20, burst=2)
    await world.fill(5, "R")
    assert await starts(world, 20) == [0, 0, 5, 10, 15]


async def test_a_leaky_rate_spreads_its_starts_evenly(world: World) -> None:
    await world.rate("R", 4, per=20, algorithm="leaky")
    await world.fill(5, "R")
    assert await starts(world, 20) == [0, 5, 10, 15, 20]


async def test_a_sliding_window_never_sees_more_than_its_limit_wherever_it_begins(world: World) -> None:
    await world.rate("R", 3, per=10, algorithm="sliding_window")
    await world.fill(2, "R", prefix="early")
    assert await starts(world, 5) == [0, 0]
    await world.fill(8, "R", prefix="late")
    found = await starts(world, 30)
    assert found == [0, 4, 4, 10, 14, 14, 20, 24]


@pytest.mark.parametrize("algorithm", ["token_bucket", "sliding_window"])
async def test_a_job_spends_as_many_tokens_as_it_costs(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 10, per=10, algorithm=algorithm)
    await world.enqueue("big", ("R", 7))
    await world.enqueue("small", ("R", 3))
    await world.enqueue("next", ("R", 1))
    assert await world.claim() == ["big", "small"]
    assert await world.waiting_on("next") == "R"


async def test_a_costly_head_is_not_passed_by_cheap_newcomers(world: World) -> None:
    await world.rate("R", 10, per=10)
    await world.enqueue("first", ("R", 8))
    await world.claim()
    assert await world.enqueue("costly", ("R", 5)) is JobState.WAITING, (
        "two tokens are left, and it needs five"
    )
    assert await world.enqueue("cheap", ("R", 1)) is JobState.WAITING, "it stands behind it"
    assert await world.claim() == []
    assert await world.waiting_on("cheap") == "R"
    await world.later(3)
    assert await world.claim() == ["costly"]
    await world.later(1)
    assert await world.claim() == ["cheap"]


async def test_a_costly_newcomer_is_not_passed_by_cheap_ones_of_the_same_call(world: World) -> None:
    await world.rate("R", 3, per=3)
    costs = {"first": 1, "costly": 3, "cheap": 1}
    await world.enqueue_all(*(world.job(id, ("R", cost)) for id, cost in costs.items()))
    assert await world.claim() == ["first"]
    assert [await world.state(id) for id in ("costly", "cheap")] == [JobState.WAITING] * 2


async def test_newcomers_of_one_call_wait_for_all_tokens_that_each_costs(world: World) -> None:
    await world.rate("R", 10, per=10)
    await world.enqueue("first", ("R", 8))
    await world.claim()
    enqueued = await world.enqueue_all(*(world.job(id, ("R", 5)) for id in ("costly", "later")))
    assert [each.state for each in enqueued] == [JobState.WAITING] * 2
    await world.later(3)
    assert await world.claim() == ["costly"]


async def test_a_costly_head_is_not_starved_by_jobs_that_another_key_offers(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 5, per=5)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.fill(8, "A", "R", prefix="pair")
    await world.enqueue("spender", ("R", 5))
    assert await world.claim() == ["spender"]
    await world.enqueue("costly", ("R", 5), priority=10)
    await world.end("holder")
    started: list[str] = []
    for _ in range(6):
        await world.later(1)
        started += await world.claim_all()
        await world.end(*[id for id in started if id != "costly" and id in world.claimed])
    assert started[0] == "costly"


async def test_a_newcomer_does_not_pass_the_waiters_when_the_token_is_there_before_the_sweep(
    world: World,
) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(2, "R")
    await world.claim()
    world.move(10)
    await world.enqueue("newcomer", "R")
    await world.sweep()
    assert await world.claim() == ["j2"]


async def test_a_job_that_costs_more_than_the_burst_waits_until_the_limit_is_raised(world: World) -> None:
    await world.rate("R", 2, per=10)
    await world.enqueue("huge", ("R", 5))
    assert await world.claim() == []
    await world.later(1000)
    assert await world.claim() == []
    assert (await world.snapshot()).timers == {}, "it can never come, so nothing rings"
    await world.rate("R", 5, per=10)
    assert await world.claim() == ["huge"]


async def test_waiting_cancelling_and_being_refused_cost_no_token(world: World) -> None:
    await world.limit("A", 0)
    await world.rate("R", 1, per=100)
    await world.enqueue("refused", "A", "R")
    assert await world.claim() == []
    await world.enqueue("cancelled", "R")
    await world.cancel("cancelled")
    await world.enqueue("delayed", "R", delay=1000)
    await world.enqueue("runs", "R")
    assert await world.claim() == ["runs"], "the one token is still there"


async def test_a_finished_job_does_not_give_its_token_back(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(2, "R")
    await world.claim()
    await world.end("j1")
    assert await world.claim() == []
    await world.later(10)
    assert await world.claim() == ["j2"]


async def test_a_retry_spends_a_token_of_its_own(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.enqueue("j1", "R")
    await world.claim()
    await world.fail("j1", retry=1)
    await world.later(1)
    assert await world.state("j1") is JobState.WAITING
    await world.later(9)
    assert await world.claim() == ["j1"]


async def test_each_token_starts_exactly_one_of_ten_thousand_waiters(world: World) -> None:
    await world.rate("R", 1, per=1)
    await world.fill(10_000, "R")
    assert await world.claim(100) == ["j1"]
    for number in range(2, 30):
        swept = await world.later(1)
        assert swept.offered == 1, "the work per token does not grow with the number waiting"
        assert await world.claim(100) == [f"j{number}"]
    assert len((await world.snapshot()).timers) == 1


async def test_a_rate_key_keeps_one_timer_for_all_its_waiters_and_queues(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(4, "R", queue="x", prefix="x")
    await world.fill(4, "R", queue="y", prefix="y")
    await world.claim(1)
    assert (await world.snapshot()).timers == {world.ident("R"): world.at(10)}


async def test_the_timer_rings_for_the_first_token_and_is_set_anew(world: World) -> None:
    await world.rate("R", 2, per=10)
    await world.fill(4, "R")
    await world.claim()
    swept = await world.later(5)
    assert swept.offered == 1
    assert await world.claim() == ["j3"]
    assert (await world.snapshot()).timers == {world.ident("R"): world.at(10)}
    await world.later(5)
    assert await world.claim() == ["j4"]
    assert (await world.snapshot()).timers == {}


async def test_a_token_offered_and_not_claimed_does_not_make_the_timer_ring_over_and_over(
    world: World,
) -> None:
    await world.rate("R", 2, per=10)
    await world.fill(4, "R")
    await world.claim()
    assert (await world.later(5)).next_due == world.at(10), "the head's own token comes after the offered one"
    await world.later(5)
    assert await world.states("j3", "j4") == ["ready", "ready"]
    assert (await world.snapshot()).timers == {}


async def test_a_queue_that_nobody_works_does_not_hold_up_a_rate(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.enqueue("spender", "R", queue="west")
    await world.claim(queues=["west"])
    await world.fill(3, "R", queue="deserted", prefix="d")
    await world.fill(2, "R", queue="west", prefix="w")
    for waiter in ("w1", "w2"):
        await world.later(10)
        assert await world.claim(5, queues=["west"]) == [waiter]


async def test_two_rates_are_both_needed_and_both_spent(world: World) -> None:
    await world.rate("Minute", 2, per=60)
    await world.rate("Second", 1, per=1)
    await world.fill(3, "Minute", "Second")
    assert await world.claim() == ["j1"]
    await world.later(1)
    assert await world.claim() == ["j2"]
    await world.later(1)
    assert await world.claim() == []
    assert await world.waiting_on("j3") == "Minute"
    await world.later(28)
    assert await world.claim() == ["j3"]


async def test_keys_of_one_rate_are_spent_apart(world: World) -> None:
    await world.rate("R", 1, per=60)
    await world.fill(2, "R=a", prefix="a")
    await world.fill(2, "R=b", prefix="b")
    assert await world.claim() == ["a1", "b1"]


async def test_a_rate_of_nought_closes_the_key(world: World) -> None:
    await world.rate("R", 0, per=60)
    await world.enqueue("j1", "R")
    await world.later(10_000)
    assert await world.claim() == []
    await world.rate("R", 1, per=60)
    assert await world.claim() == ["j1"]


async def test_a_lifted_rate_lets_everybody_through(world: World) -> None:
    await world.rate("R", 1, per=60)
    await world.fill(5, "R")
    assert await world.claim() == ["j1"]
    await world.override("R", None)
    assert await world.claim() == ["j2", "j3", "j4", "j5"]
    assert (await world.snapshot()).timers == {}


@pytest.mark.parametrize("algorithm", ["token_bucket", "sliding_window"])
async def test_starts_while_a_rate_is_lifted_cost_nothing_later(world: World, algorithm: Algorithm) -> None:
    await world.rate("R", 2, per=60, algorithm=algorithm)
    await world.override("R", None)
    await world.fill(5, "R")
    assert len(await world.claim()) == 5
    await world.clear("R")
    await world.fill(3, "R", prefix="later")
    assert await world.claim() == ["later1", "later2"]


async def test_a_raised_rate_brings_its_waiters_forward(world: World) -> None:
    await world.rate("R", 1, per=60)
    await world.fill(3, "R")
    await world.claim()
    await world.override("R", 60)
    await world.later(1)
    assert await world.claim() == ["j2"]
    await world.later(1)
    assert await world.claim() == ["j3"]


async def test_another_algorithm_for_a_rate_in_use_works_on(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(3, "R")
    await world.claim()
    await world.declare(Limit("R", "rate", 1, 10 * SECOND, algorithm="sliding_window"))
    await world.end("j1")
    assert await world.run_all() == ["j2", "j3"]
    await world.nothing_left()


async def test_a_limit_declared_as_another_kind_is_refused_and_nothing_is_written(world: World) -> None:
    await world.rate("R", 1, per=10_000)
    await world.fill(3, "R")
    await world.claim()
    for kind in ("concurrency", "floating"):
        with pytest.raises(ConfigError, match="'R' is declared as rate"):
            await world.engine.declare([Limit("B", "concurrency", 1), Limit("R", kind, 5)], now=world.now)
        with pytest.raises(ConfigError, match="'R' is declared as rate"):
            await world.engine.enqueue([world.job("x")], limits=[Limit("R", kind, 5)], now=world.now)
    assert [limit.name for limit in await world.engine.limits(now=world.now) if limit.key == limit.name] == [
        "R"
    ]
    assert await world.state("x") is None
    assert await world.claim() == []


@pytest.mark.parametrize("swept", [False, True])
async def test_another_algorithm_begins_anew_and_the_first_one_forgets_when_it_has_spent(
    world: World, swept: bool
) -> None:
    """There and back without a start in between changes nothing."""

    async def becomes(algorithm: Algorithm) -> int:
        await world.rate("R", 2, per=100, algorithm=algorithm)
        if swept:
            await world.later(1)
        return len(await world.claim_all())

    await world.rate("R", 2, per=100)
    await world.fill(20, "R")
    assert await becomes("token_bucket") == 2
    await world.rate("R", 2, per=100, algorithm="sliding_window")
    assert await becomes("token_bucket") == 0
    assert await becomes("sliding_window") == 2
    await world.rate("R", 2, per=100, algorithm="token_bucket")
    assert await becomes("sliding_window") == 0
    assert await becomes("token_bucket") == 2
    assert await becomes("sliding_window") == 2


async def test_tokens_are_offered_to_as_many_waiters_as_they_suffice_for(world: World) -> None:
    await world.rate("R", 10, per=10)
    await world.enqueue("first", ("R", 10))
    assert await world.claim() == ["first"]
    for id in ("a", "b"):
        await world.enqueue(id, ("R", 3))
    await world.later(5)
    assert await world.states("a", "b") == ["ready", "waiting"], "five tokens are there, six would be needed"
    await world.later(1)
    assert await world.states("a", "b") == ["ready", "ready"]
