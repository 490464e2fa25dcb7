"""Numbered messages (rule 13): what was overtaken changes nothing, and a worker in doubt says what it has."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Failed, Progress, Released, Succeeded
from headgate.errors import LeaseLost, StaleMessage
from headgate.job import JobState
from tests.support.world import World


async def test_a_number_that_is_not_larger_than_the_last_is_refused_whole(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.exchange(want=1, number=5)
    for number in (5, 4, 1):
        with pytest.raises(StaleMessage):
            await world.exchange(Succeeded("j1", 1), want=1, number=number)
    assert await world.state("j1") is JobState.RUNNING
    assert await world.held("A") == ["j1"]
    answer = await world.exchange(Succeeded("j1", 1), want=1, number=6)
    assert [attempt.job for attempt in answer.attempts] == ["j2"]


async def test_a_stale_message_is_refused_although_its_reports_would_be_too_late_anyway(world: World) -> None:
    await world.exchange(number=3)
    with pytest.raises(StaleMessage):
        await world.exchange(Progress("nothing", 1, "1"), number=2)


async def test_numbers_belong_to_a_registration(world: World) -> None:
    await world.fill(2)
    await world.exchange(number=9)
    await world.exchange(number=1, worker="other")
    await world.worker("w")
    assert len((await world.exchange(want=2, number=1)).attempts) == 2


async def test_a_lapsed_lease_is_told_before_a_stale_number(world: World) -> None:
    await world.worker("w", lease=15)
    await world.exchange(number=3)
    world.move(16)
    with pytest.raises(LeaseLost):
        await world.exchange(number=2)
    with pytest.raises(LeaseLost):
        await world.resume(2)


async def test_resuming_takes_back_what_the_worker_does_not_name(world: World) -> None:
    await world.limit("A", 3)
    await world.fill(4, "A")
    await world.exchange(want=3, number=1)
    resumed = await world.resume(2, ("j1", 1), ("j3", 1))
    assert (resumed.alive, resumed.taken_back) == ((("j1", 1), ("j3", 1)), 1)
    assert await world.held("A") == ["j1", "j3"]
    job = await world.get("j2")
    assert (job.state, job.attempt, job.tries, job.lost) == (JobState.READY, 1, 0, 0)
    assert [past.outcome for past in job.history] == ["released"]
    answer = await world.exchange(want=2, number=3)
    assert [(attempt.job, attempt.number) for attempt in answer.attempts] == [("j2", 2)]


async def test_attempts_are_compared_and_not_jobs(world: World) -> None:
    """A failure with an immediate retry is reported, the same job is claimed again, and the answer is lost."""
    await world.limit("A", 1)
    await world.enqueue("j1", "A")
    await world.exchange(want=1, number=1)
    lost = await world.exchange(Failed("j1", 1, "boom", 0), want=1, number=2)
    assert [(attempt.job, attempt.number) for attempt in lost.attempts] == [("j1", 2)]
    resumed = await world.resume(3, ("j1", 1))
    assert (resumed.alive, resumed.taken_back) == ((), 1)
    answer = await world.exchange(want=1, number=4)
    assert [(attempt.job, attempt.number) for attempt in answer.attempts] == [("j1", 3)]


async def test_a_claim_that_arrives_after_the_worker_resumed_changes_nothing(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A")
    await world.exchange(number=1)
    await world.resume(3)
    with pytest.raises(StaleMessage):
        await world.exchange(want=1, number=2)
    assert await world.held("A") == []
    assert await world.claim(worker="other") == ["j1"]


async def test_a_repeated_or_late_resume_is_refused_whole(world: World) -> None:
    await world.fill(2)
    await world.exchange(want=2, number=1)
    await world.resume(2, ("j1", 1), ("j2", 1))
    for number in (2, 1):
        with pytest.raises(StaleMessage):
            await world.resume(number)
    assert await world.states("j1", "j2") == ["running", "running"]


async def test_resuming_with_everything_known_changes_nothing(world: World) -> None:
    await world.limit("A", 2)
    await world.fill(3, "A")
    await world.exchange(want=2, number=1)
    before = await world.snapshot()
    resumed = await world.resume(2, ("j1", 1), ("j2", 1))
    assert (resumed.taken_back, resumed.cancelling, resumed.now) == (0, (), world.now)
    assert await world.snapshot() == before


async def test_resuming_names_what_is_no_longer_the_workers_own_and_leaves_other_workers_alone(
    world: World,
) -> None:
    await world.fill(3)
    await world.exchange(want=1, number=1)
    await world.exchange(want=1, worker="other")
    resumed = await world.resume(2, ("j1", 1), ("j1", 2), ("j2", 1), ("nothing", 1))
    assert (resumed.alive, resumed.taken_back) == ((("j1", 1),), 0)
    assert await world.states("j1", "j2") == ["running", "running"]


async def test_a_job_that_was_asked_to_stop_and_is_taken_back_ends_as_cancelled(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.exchange(want=1, number=1)
    await world.cancel("j1")
    assert (await world.resume(2, ("j1", 1))).cancelling == ("j1",)
    await world.resume(3)
    assert await world.state("j1") is JobState.CANCELLED
    assert await world.claim() == ["j2"], "its slot went to the next in line"


async def test_what_is_taken_back_passes_its_slot_on_in_the_same_step(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("late", "A", priority=60)
    await world.exchange(want=1, number=1)
    await world.enqueue("urgent", "A", priority=10)
    await world.resume(2)
    assert await world.claim(1) == ["urgent"]


async def test_a_released_attempt_is_not_blamed_by_a_later_loss(world: World) -> None:
    await world.enqueue("j1")
    await world.exchange(want=1)
    await world.exchange(Released("j1", 1))
    await world.lose()
    assert (await world.get("j1")).suspicion == 0


async def test_resuming_does_not_renew_the_lease(world: World) -> None:
    await world.worker("w", lease=15)
    world.move(10)
    await world.resume(1)
    (status,) = await world.engine.workers(now=world.now)
    assert status.lease_until == world.at(15)


async def test_an_unknown_worker_cannot_resume(world: World) -> None:
    with pytest.raises(LeaseLost):
        await world.resume(1, worker="stranger")


async def test_a_thousand_attempts_are_taken_back_in_one_step(world: World) -> None:
    await world.limit("A", 2000)
    await world.fill(1200, "A")
    claimed: list[tuple[str, int]] = []
    for number in range(1, 14):
        answer = await world.exchange(want=100, number=number)
        claimed += [(attempt.job, attempt.number) for attempt in answer.attempts]
    assert len(claimed) == 1200
    resumed = await world.resume(20, *claimed[:100])
    assert (len(resumed.alive), resumed.taken_back) == (100, 1100)
    assert len(await world.held("A")) == 100
