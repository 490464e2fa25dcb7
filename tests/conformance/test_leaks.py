"""Nothing outlives its attempt: lost workers, late and double reports, refusals, mixed loads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import (
    Failed,
    ImportedJob,
    Outcome,
    Progress,
    Released,
    Report,
    Snoozed,
    Stopped,
    Succeeded,
)
from headgate.errors import LeaseLost
from headgate.job import JobState, PastAttempt
from headgate.keys import Key
from tests.support.world import World

OUTCOMES: list[Outcome] = [
    Succeeded("j1", 1),
    Failed("j1", 1, "boom"),
    Failed("j1", 1, "boom", 5 * SECOND),
    Snoozed("j1", 1, 5 * SECOND),
    Stopped("j1", 1),
    Released("j1", 1),
]


async def test_a_lost_worker_with_fifty_attempts_frees_their_slots_for_the_waiters(world: World) -> None:
    await world.limit("A", 50)
    await world.limit("B", 1)
    await world.worker("lost", lease=15)
    await world.enqueue("b", "B")
    await world.fill(49, "A")
    assert len(await world.claim(50, worker="lost")) == 50
    await world.fill(3, "B", prefix="waiter")
    assert await world.claim() == []
    swept = await world.later(15.1)
    assert swept.lost == 50
    assert await world.claim(1) == ["b"], "it comes back to its old place"
    await world.end("b")
    claimed = await world.claim(60)
    assert "waiter1" in claimed
    await world.end(*claimed)
    assert await world.run_all() == ["waiter2", "waiter3"]
    await world.nothing_left()


async def test_an_attempt_is_safe_until_its_workers_lease_has_lapsed(world: World) -> None:
    await world.worker("w", lease=15)
    await world.enqueue("j1")
    await world.claim()
    assert (await world.later(14.9)).lost == 0
    assert await world.state("j1") is JobState.RUNNING


async def test_a_heartbeat_keeps_all_attempts_of_its_worker(world: World) -> None:
    await world.worker("w", lease=15)
    await world.fill(3)
    await world.claim()
    for _ in range(4):
        await world.later(10)
        await world.engine.heartbeat("w", now=world.now)
    assert await world.states("j1", "j2", "j3") == ["running"] * 3


async def test_a_heartbeat_after_the_lease_has_lapsed_is_refused(world: World) -> None:
    await world.worker("w", lease=15)
    world.move(15)
    with pytest.raises(LeaseLost, match="'w'"):
        await world.engine.heartbeat("w", now=world.now)


async def test_a_heartbeat_of_an_unknown_worker_is_refused(world: World) -> None:
    with pytest.raises(LeaseLost, match="stranger"):
        await world.engine.heartbeat("stranger", now=world.now)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("swept", [False, True], ids=["before the sweep", "after the sweep"])
async def test_a_report_after_the_lease_has_lapsed_changes_nothing(
    world: World, outcome: Outcome, swept: bool
) -> None:
    await world.limit("A", 1)
    await world.worker("w", lease=15)
    await world.fill(2, "A")
    await world.claim()
    world.move(15)
    if swept:
        await world.sweep()
    before, jobs = await world.snapshot(), await world.engine.get(["j1", "j2"])
    with pytest.raises(LeaseLost):
        await world.exchange(outcome, want=1)
    assert await world.snapshot() == before
    assert await world.engine.get(["j1", "j2"]) == jobs


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_the_same_outcome_reported_twice_is_refused_the_second_time(
    world: World, outcome: Outcome
) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    assert (await world.exchange(outcome)).refused == ()
    before, jobs = await world.snapshot(), await world.engine.get(["j1", "j2"])
    assert (await world.exchange(outcome)).refused == (("j1", 1),)
    assert await world.snapshot() == before
    assert await world.engine.get(["j1", "j2"]) == jobs


async def test_the_same_outcome_twice_in_one_exchange_counts_once(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    answer = await world.exchange(Succeeded("j1", 1), Succeeded("j1", 1))
    assert answer.refused == (("j1", 1),)
    assert await world.state("j1") is JobState.SUCCEEDED


REPORTS: list[Callable[[str, int], Report]] = [
    lambda job, attempt: Succeeded(job, attempt),
    lambda job, attempt: Failed(job, attempt, "boom", None),
    lambda job, attempt: Failed(job, attempt, "boom", 0),
    lambda job, attempt: Snoozed(job, attempt, SECOND),
    lambda job, attempt: Stopped(job, attempt),
    lambda job, attempt: Released(job, attempt),
    lambda job, attempt: Progress(job, attempt, "0.5"),
]
KINDS = ["succeeded", "failed", "retried", "snoozed", "stopped", "released", "progress"]


@pytest.mark.parametrize("report", REPORTS, ids=KINDS)
@pytest.mark.parametrize("attempt", [0, 2])
async def test_a_report_with_another_attempt_number_is_refused(
    world: World, attempt: int, report: Callable[[str, int], Report]
) -> None:
    await world.enqueue("j1")
    await world.claim()
    assert (await world.exchange(report("j1", attempt))).refused == (("j1", attempt),)
    job = await world.get("j1")
    assert (job.state, job.attempt, job.progress) == (JobState.RUNNING, 1, None)


@pytest.mark.parametrize("report", REPORTS, ids=KINDS)
async def test_a_report_by_another_worker_is_refused(
    world: World, report: Callable[[str, int], Report]
) -> None:
    await world.enqueue("j1")
    await world.claim(worker="owner")
    answer = await world.exchange(report("j1", 1), worker="thief")
    assert answer.refused == (("j1", 1),)
    job = await world.get("j1")
    assert (job.state, job.attempt, job.progress) == (JobState.RUNNING, 1, None)


async def test_successes_of_old_attempts_are_refused_among_many(world: World) -> None:
    ids = await world.fill(60)
    await world.claim()
    refused = [id for number, id in enumerate(ids) if number % 3 == 0]
    answer = await world.exchange(*(Succeeded(id, 0 if id in refused else 1) for id in ids))
    assert sorted(answer.refused) == sorted((id, 0) for id in refused)
    states = await world.engine.states(ids)
    assert [id for id, state in zip(ids, states, strict=True) if state is JobState.RUNNING] == refused


async def test_a_report_about_an_unknown_job_is_refused(world: World) -> None:
    assert (await world.exchange(Succeeded("nobody", 1))).refused == (("nobody", 1),)


async def test_one_refused_report_does_not_keep_its_neighbours_from_counting(world: World) -> None:
    await world.fill(2)
    await world.claim()
    answer = await world.exchange(Succeeded("j1", 9), Succeeded("j2", 1))
    assert answer.refused == (("j1", 9),)
    assert await world.states("j1", "j2") == ["running", "succeeded"]


async def test_progress_of_a_running_attempt_is_kept_and_ends_nothing(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A")
    await world.claim()
    assert (await world.report("j1", Progress, "0.5")).refused == ()
    job = await world.get("j1")
    assert (job.progress, job.state) == ("0.5", JobState.RUNNING)
    assert await world.held("A") == ["j1"]


async def test_progress_of_an_attempt_that_is_over_is_refused(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.end("j1")
    assert (await world.report("j1", Progress, "0.5")).refused == (("j1", 1),)
    assert (await world.get("j1")).progress is None


async def test_a_claim_whose_answer_never_arrived_is_claimed_again_after_the_lease(world: World) -> None:
    await world.limit("A", 1)
    await world.worker("vanished", lease=15)
    await world.fill(2, "A")
    assert await world.claim(1, worker="vanished") == ["j1"]
    await world.later(16)
    assert await world.claim() == ["j1"], "it comes back to its old place"
    job = await world.get("j1")
    assert (job.attempt, job.tries, job.lost) == (2, 1, 1), "a lost attempt does not count"
    await world.end("j1")
    assert await world.claim() == ["j2"]
    await world.end("j2")
    await world.nothing_left()


async def test_many_rate_refusals_before_a_start_cost_one_attempt_one_slot_and_one_token(
    world: World,
) -> None:
    await world.limit("A", 2)
    await world.rate("R", 2, per=10)
    for number in range(2):
        await world.enqueue(f"spender{number}", "R")
    await world.claim()
    await world.enqueue("patient", "A", "R")
    for _ in range(20):
        assert await world.claim() == []
        await world.later(0.1)
    await world.later(3)
    assert await world.claim() == ["patient"]
    job = await world.get("patient")
    assert (job.attempt, job.tries) == (1, 1)
    assert await world.held("A") == ["patient"]
    await world.enqueue("next", "R")
    assert await world.claim() == [], "the second token comes five seconds later"
    await world.later(5)
    assert await world.claim() == ["next"]


async def test_a_retiring_worker_gives_its_attempts_back_uncounted(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    await world.engine.retire("w", now=world.now)
    world.workers.discard("w")
    assert await world.engine.workers(now=world.now) == []
    assert await world.claim() == ["j1"], "it comes back to its old place"
    job = await world.get("j1")
    assert (job.attempt, job.tries) == (2, 1)
    assert job.history[0].outcome == "released"


async def test_retiring_an_unknown_worker_does_nothing(world: World) -> None:
    await world.engine.retire("stranger", now=world.now)


async def test_a_retired_worker_has_no_lease(world: World) -> None:
    await world.worker("w")
    await world.engine.retire("w", now=world.now)
    with pytest.raises(LeaseLost):
        await world.engine.exchange("w", [], 1, now=world.now)


async def test_an_exchange_of_an_unknown_worker_is_refused(world: World) -> None:
    await world.enqueue("j1")
    with pytest.raises(LeaseLost):
        await world.engine.exchange("stranger", [], 1, now=world.now)
    assert await world.state("j1") is JobState.READY


@pytest.mark.parametrize("seed", range(6))
async def test_a_mixed_load_leaves_nothing_behind(world: World, seed: int) -> None:
    dice = random.Random(seed)
    await world.limit("A", 2)
    await world.limit("B", 1)
    await world.rate("R", 3, per=5)
    needs = ["A", "B", "A=1", "B=1", "R"]
    live: dict[str, int] = {}

    def past(count: int) -> tuple[PastAttempt, ...]:
        return tuple(PastAttempt(n, "failed", n, n + 1, error="old") for n in range(1, count + 1))

    async def enqueue(number: int) -> None:
        delay = dice.choice([0, 0, 0, 3])
        chosen = dice.sample(needs, dice.randint(0, 3))
        await world.enqueue(
            f"j{number}", *chosen, delay=delay, priority=dice.choice([10, 50]), queue=dice.choice("xy")
        )

    for number in range(60):
        await enqueue(number)
        match dice.randint(0, 9):
            case 0:
                await world.cancel(f"j{dice.randint(0, number)}")
            case 1:
                await world.restart(f"j{dice.randint(0, number)}")
            case 2:
                await world.take_over(ImportedJob(world.job(f"j{dice.randint(0, number)}"), past(1)))
            case 3:
                await world.worker("mortal", lease=1)
                live.update(dict.fromkeys(await world.claim(3, worker="mortal"), 0))
            case 4:
                await world.later(dice.choice([0.3, 1.5]))
            case 5:
                await world.expedite(f"j{dice.randint(0, number)}")
            case _:
                await world.claim(2)
        for view in (await world.snapshot()).jobs:
            if view.worker != "w" or dice.random() < 0.5:
                continue
            outcome = dice.choice(
                [
                    Succeeded(view.id, view.attempt),
                    Failed(view.id, view.attempt, "boom"),
                    Failed(view.id, view.attempt, "boom", SECOND),
                    Snoozed(view.id, view.attempt, SECOND),
                    Stopped(view.id, view.attempt),
                    Released(view.id, view.attempt),
                ]
            )
            await world.exchange(outcome)
    await world.later(100)
    running = [view for view in (await world.snapshot()).jobs if view.state is JobState.RUNNING]
    await world.exchange(*(Succeeded(view.id, view.attempt) for view in running))
    await world.run_all()
    await world.nothing_left()
    assert await world.unfinished() == {}
    assert all(line.held == line.waiting == 0 for line in await world.engine.limits(now=world.now))
    assert Key("A").ident not in (await world.snapshot()).holders


async def test_a_worker_that_registers_again_under_its_id_loses_what_it_ran(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    assert await world.claim() == ["j1"]
    await world.worker("w")
    assert (await world.get("j1")).history[-1].outcome == "lost"
    answer = await world.exchange(want=2)
    assert [(attempt.job, attempt.number) for attempt in answer.attempts] == [("j1", 2)]


async def test_a_success_from_before_a_worker_registered_again_is_refused(world: World) -> None:
    await world.fill(1)
    assert await world.claim() == ["j1"]
    await world.worker("w")
    before = await world.get("j1")
    answer = await world.exchange(Succeeded("j1", 1))
    assert answer.refused == (("j1", 1),)
    assert await world.get("j1") == before
