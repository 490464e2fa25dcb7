"""Who is next, and when: priorities, due times, delayed jobs, blocked jobs in front, clocks."""

from __future__ import annotations

import random

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Succeeded
from headgate.engine.rules.admission import LOOK_MORE
from headgate.job import JobState
from tests.support.world import World


async def test_delayed_jobs_hold_nothing_so_that_an_immediate_one_runs_now(world: World) -> None:
    await world.limit("A", 3)
    await world.fill(3, "A", delay=60, prefix="delayed")
    await world.enqueue("now", "A")
    assert await world.claim() == ["now"]
    snapshot = await world.snapshot()
    assert snapshot.holders == {world.ident("A"): {"now": False}}
    assert [view.waiting_on for view in snapshot.jobs] == [None] * 4


async def test_waiters_start_in_order_of_priority_then_due_time_then_arrival(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A", priority=0)
    await world.claim()
    await world.enqueue("third", "A", priority=50)
    await world.enqueue("fourth", "A", priority=50)
    await world.enqueue("second", "A", priority=50, at=world.at(-5))
    await world.enqueue("first", "A", priority=10)
    await world.enqueue("last", "A", priority=99, at=world.at(-100))
    await world.end("holder")
    assert await world.run_all() == ["first", "second", "third", "fourth", "last"]


async def test_waiters_keep_their_order_however_often_they_were_parked(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("a", "A")
    await world.enqueue("b", "B")
    await world.claim()
    await world.enqueue("both1", "A", "B")
    await world.enqueue("both2", "A", "B")
    await world.enqueue("b2", "B")
    await world.end("a")
    assert await world.claim() == []
    assert await world.waiting_on("both1") == "B"
    await world.enqueue("both3", "A", "B")
    await world.claim()
    await world.end("b")
    assert await world.run_all() == ["both1", "both2", "b2", "both3"]


async def test_ready_jobs_are_claimed_by_priority_then_due_time_then_arrival(world: World) -> None:
    dice = random.Random(1)
    expected: list[tuple[int, int, int, str]] = []
    for number in range(40):
        priority, at = dice.choice([0, 50, 99]), world.at(-dice.randint(0, 3))
        await world.enqueue(f"j{number}", priority=priority, at=at)
        expected.append((priority, at, number, f"j{number}"))
    assert await world.claim(40) == [id for *_, id in sorted(expected)]


async def test_unrelated_jobs_run_at_once_behind_five_thousand_blocked_ones(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.fill(5000, "A", prefix="blocked", priority=0)
    await world.fill(3, prefix="free")
    assert await world.claim(10) == ["free1", "free2", "free3"]


async def test_unrelated_jobs_run_soon_behind_many_that_a_late_cap_blocks(world: World) -> None:
    await world.fill(2 * LOOK_MORE, task="t", priority=0, prefix="blocked")
    await world.limit("task:t", 0)
    await world.worker("w", tasks=["t", "other"])
    await world.enqueue("free", task="other")
    looks = 0
    while not (answer := await world.exchange(want=1)).attempts:
        assert answer.more, "an exchange that gives up early says so"
        looks += 1
    assert [attempt.job for attempt in answer.attempts] == ["free"]
    assert looks <= 2


async def test_a_claim_looks_at_a_bounded_number_of_jobs(world: World) -> None:
    await world.fill(3 * LOOK_MORE)
    await world.limit("task:t", 0)
    answer = await world.exchange(want=10)
    assert answer.attempts == ()
    assert answer.more
    assert (await world.status("task:t")).waiting <= LOOK_MORE + 10


async def test_an_exchange_that_found_all_there_is_says_that_there_is_no_more(world: World) -> None:
    await world.fill(2)
    answer = await world.exchange(want=10)
    assert len(answer.attempts) == 2
    assert not answer.more


async def test_an_exchange_that_wants_nothing_claims_nothing(world: World) -> None:
    await world.fill(2)
    assert await world.claim(0) == []


@pytest.mark.parametrize("ahead", [-300, 300])
async def test_clocks_of_workers_decide_nothing(world: World, ahead: int) -> None:
    """All that a worker sends are ids and durations: the times stored are the store's."""
    await world.limit("A", 1)
    await world.worker("wrong", lease=15)
    await world.fill(2, "A")
    assert await world.claim(worker="wrong") == ["j1"]
    world.move(ahead if ahead > 0 else 1)
    job = await world.get("j1")
    assert job.started_at == world.at(0)
    assert (await world.engine.workers(now=world.now))[0].lease_until == world.at(15)


async def test_the_store_has_a_clock_of_its_own(world: World) -> None:
    before = await world.engine.clock()
    answer = await world.engine.sweep()
    assert before <= answer.now <= await world.engine.clock()
    await world.engine.enqueue([world.job("j1")])
    assert before <= (await world.get("j1")).enqueued_at <= await world.engine.clock()
    await world.cancel("j1")


async def test_a_delayed_job_is_claimed_when_it_is_due_and_not_before(world: World) -> None:
    await world.enqueue("j1", delay=10)
    assert await world.state("j1") is JobState.SCHEDULED
    swept = await world.later(9.999999)
    assert (swept.due, swept.next_due) == (0, world.at(10))
    assert await world.claim() == []
    swept = await world.later(0.000001)
    assert swept.due == 1
    assert await world.claim() == ["j1"]


async def test_a_point_in_time_beats_a_delay(world: World) -> None:
    await world.enqueue("j1", delay=10, at=world.at(99))
    assert (await world.get("j1")).due == world.at(99)


async def test_a_point_in_the_past_is_due_at_once_and_keeps_its_place_in_line(world: World) -> None:
    await world.enqueue("young")
    await world.enqueue("old", at=world.at(-100))
    assert await world.claim() == ["old", "young"]


async def test_a_due_job_waits_like_a_newcomer_when_its_key_is_full(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.enqueue("delayed", "A", delay=10)
    await world.enqueue("waiter", "A", at=world.at(5))
    await world.later(10)
    await world.end("holder")
    assert await world.claim() == ["waiter"]
    await world.end("waiter")
    assert await world.claim() == ["delayed"]


async def test_more_due_jobs_than_one_sweep_takes_are_taken_by_the_next(world: World) -> None:
    await world.fill(2500, delay=5)
    world.move(5)
    first = await world.engine.sweep(now=world.now)
    assert first.more
    assert 0 < first.due < 2500
    rest = await world.sweep()
    assert first.due + rest.due == 2500
    assert len(await world.claim(2500)) == 2500


async def test_the_exchange_tells_when_a_sweep_will_next_have_work(world: World) -> None:
    await world.worker("w", lease=1000)
    await world.enqueue("j1", delay=30)
    assert (await world.exchange(want=1)).next_due == world.at(30)
    await world.rate("R", 1, per=20)
    await world.fill(2, "R", prefix="r")
    assert (await world.exchange(want=1)).next_due == world.at(20)
    await world.worker("short", lease=10)
    assert (await world.exchange(want=1)).next_due == world.at(10)


async def test_several_queues_are_worked_in_the_order_given(world: World) -> None:
    await world.enqueue("low", queue="low", priority=0)
    await world.enqueue("high1", queue="high", priority=90)
    await world.enqueue("high2", queue="high", priority=80)
    assert await world.claim(2, queues=["high", "low"]) == ["high2", "high1"]
    assert await world.claim(2, queues=["high", "low"]) == ["low"]


async def test_all_queues_together_are_worked_in_one_order(world: World) -> None:
    await world.enqueue("b", queue="x", priority=20)
    await world.enqueue("c", queue="y", priority=30)
    await world.enqueue("a", queue="z", priority=10)
    await world.enqueue("d", queue="x", priority=40)
    assert await world.claim(10) == ["a", "b", "c", "d"]


async def test_only_the_named_queues_are_worked(world: World) -> None:
    await world.enqueue("x", queue="x")
    await world.enqueue("y", queue="y")
    assert await world.claim(10, queues=["y"]) == ["y"]
    assert await world.claim(10, queues=["nothing here"]) == []
    assert await world.state("x") is JobState.READY


async def test_a_queue_named_twice_is_worked_once(world: World) -> None:
    await world.fill(2, queue="x")
    assert await world.claim(10, queues=["x", "x"]) == ["j1", "j2"]


async def test_a_waiter_offered_in_an_exchange_is_claimed_before_later_ready_jobs_of_its_queue(
    world: World,
) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    await world.enqueue("free")
    answer = await world.exchange(Succeeded("j1", 1), want=1)
    assert [attempt.job for attempt in answer.attempts] == ["j2"]


async def test_the_oldest_due_time_wins_over_arrival_after_a_retry(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("retrying", "A")
    await world.claim()
    await world.fail("retrying", retry=2)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.later(1)
    await world.enqueue("between", "A")
    await world.later(1)
    await world.enqueue("after", "A", at=world.now + SECOND)
    await world.later(1)
    await world.end("holder")
    assert await world.run_all() == ["between", "retrying", "after"]


async def test_a_released_job_takes_its_old_place(world: World) -> None:
    await world.enqueue("first")
    await world.claim()
    world.move(5)
    await world.enqueue("second")
    world.move(5)
    await world.release("first")
    assert await world.claim() == ["first", "second"]


async def test_an_attempt_says_since_when_it_could_have_started(world: World) -> None:
    """What it waited for since then is a limit, or a worker: not its own delay, nor the back-off of a retry."""
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.enqueue("delayed", "A", delay=10)
    due = world.at(10)
    await world.claim()
    await world.later(15)
    await world.end("holder")
    (attempt,) = (await world.exchange(want=10)).attempts
    assert (attempt.job, attempt.due) == ("delayed", due)
    await world.fail("delayed", retry=5)
    await world.later(7)
    (attempt,) = (await world.exchange(want=10)).attempts
    assert (attempt.job, attempt.due) == ("delayed", world.at(20))
