"""Blame (rule 15): a lost attempt is not yet its job's fault; the one that keeps killing its worker is found alone."""

from __future__ import annotations

from headgate.job import JobState
from headgate.retry import RetryPolicy
from tests.support.world import World


async def crash(world: World, after: float = 1.0, worker: str = "w") -> list[str]:
    """Claim all there is to be had, let it run for a while, and lose the worker; returns what ran."""
    ran = await world.claim(100, worker=worker)
    world.move(after)
    await world.engine.heartbeat(worker, now=world.now)
    await world.lose(worker)
    return ran


async def suspicions(world: World, *ids: str) -> list[int]:
    return [(await world.get(id)).suspicion for id in ids]


async def test_a_lost_attempt_does_not_count_and_raises_the_suspicion_of_all_that_ran(world: World) -> None:
    await world.fill(3, retry=RetryPolicy(attempts=1))
    await world.claim(2)
    lost = await world.lose()
    assert (lost.attempts, lost.failed) == (2, ())
    assert await suspicions(world, "j1", "j2", "j3") == [1, 1, 0]
    job = await world.get("j1")
    assert (job.state, job.tries, job.lost, job.attempt) == (JobState.READY, 0, 1, 1)


async def test_a_lapsed_lease_blames_as_a_reported_loss_does(world: World) -> None:
    await world.worker("w", lease=15)
    await world.fill(2)
    await world.claim(2)
    assert (await world.later(16)).lost == 2
    assert await suspicions(world, "j1", "j2") == [1, 1]


async def test_a_reported_loss_frees_the_slots_at_once(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A", priority=60)
    await world.claim()
    await world.enqueue("j2", "A", priority=10)
    lost = await world.lose()
    assert lost.attempts == 1
    assert await world.claim(1) == ["j2"]


async def test_losing_unknown_workers_changes_nothing(world: World) -> None:
    await world.fill(1)
    await world.claim()
    lost = await world.engine.report_lost(["stranger"], now=world.now)
    assert lost.attempts == 0
    assert await world.state("j1") is JobState.RUNNING


async def test_what_was_lost_once_runs_like_any_other_job(world: World) -> None:
    await world.fill(60)
    await world.claim(60)
    await world.lose()
    assert len(await world.claim(100)) == 60


async def test_what_was_lost_twice_takes_a_tenth_of_a_workers_places(world: World) -> None:
    await world.fill(60)
    for _ in range(2):
        assert len(await crash(world)) == 60
    await world.worker("w", concurrency=50)
    assert await world.claim(100) == ["j1", "j2", "j3", "j4", "j5"]
    assert await world.claim(100) == [], "it has no room for more of them"
    await world.worker("small", concurrency=3)
    assert await world.claim(3, worker="small") == ["j6"], "but always room for one"
    await world.end("j2")
    assert await world.claim(100) == ["j7"]


async def test_suspects_without_room_stand_in_nobodys_way(world: World) -> None:
    await world.fill(30)
    for _ in range(2):
        await crash(world)
    await world.fill(20, prefix="new")
    await world.worker("w", concurrency=20)
    found = await world.claim(20)
    assert found[:2] == ["j1", "j2"], "they were there first"
    assert found[2:] == [f"new{number}" for number in range(1, 19)]


async def test_a_worker_may_decline_suspects_but_for_those_that_were_lost_once(world: World) -> None:
    await world.enqueue("j1")
    for _ in range(2):
        await crash(world)
    await world.fill(2, prefix="new")
    await world.claim(1, worker="doomed", queues=["default"])
    await world.lose("doomed")
    assert await suspicions(world, "j1", "new1", "new2") == [3, 0, 0], "the grave one was tried first"
    await world.exchange(want=1, worker="doomed", suspects=False)
    await world.lose("doomed")
    assert await suspicions(world, "j1", "new1", "new2") == [3, 1, 0]
    answer = await world.exchange(want=3, suspects=False)
    assert [(attempt.job, attempt.suspicion) for attempt in answer.attempts] == [("new1", 1), ("new2", 0)]
    await world.end("new1", "new2")
    answer = await world.exchange(want=3)
    assert [(attempt.job, attempt.suspicion) for attempt in answer.attempts] == [("j1", 3)]


async def test_everything_that_ran_becomes_one_level_more_suspect(world: World) -> None:
    await world.fill(2)
    await crash(world)
    await world.fill(2, prefix="new")
    assert set(await world.claim(100)) == {"j1", "j2", "new1", "new2"}
    await world.lose()
    assert await suspicions(world, "j1", "j2", "new1", "new2") == [2, 2, 1, 1]
    job = await world.get("j1")
    assert (job.lost, job.tries, [past.outcome for past in job.history]) == (2, 0, ["lost", "lost"])


async def test_a_grave_suspect_runs_with_no_other_suspect_beside_it(world: World) -> None:
    await world.fill(2)
    for _ in range(3):
        await crash(world)
    assert await suspicions(world, "j1", "j2") == [3, 3]
    await world.fill(2, prefix="new")
    assert await world.claim(100) == ["j1", "new1", "new2"]
    assert await world.claim(100) == []
    assert await world.claim(100, worker="other") == ["j2"]


async def test_the_gravest_suspect_is_tried_first_and_lighter_ones_wait_for_it(world: World) -> None:
    await world.enqueue("grave", priority=90)
    for _ in range(3):
        await crash(world)
    await world.fill(3)
    await world.exchange(want=3, worker="doomed", suspects=False)
    await world.lose("doomed")
    assert await suspicions(world, "grave", "j1", "j2", "j3") == [3, 1, 1, 1]
    await world.fill(2, prefix="new")
    assert await world.claim(1) == ["grave"], "before anything else, so that the matter is soon decided"
    assert await world.claim(100) == ["new1", "new2"]
    await world.end("grave")
    assert await world.claim(100) == ["j1", "j2", "j3"]


async def test_a_worker_with_lighter_suspects_takes_on_no_more_of_them_while_a_grave_one_waits(
    world: World,
) -> None:
    await world.fill(3)
    await crash(world)
    assert await world.claim(2) == ["j1", "j2"]
    await world.enqueue("grave", queue="other")
    for _ in range(3):
        await world.claim(1, worker="doomed", queues=["other"])
        await world.lose("doomed")
    assert await world.claim(100) == [], "neither the grave one nor j3"
    await world.end("j1", "j2")
    assert await world.claim(100) == ["grave"]


async def test_a_grave_suspect_becomes_graver_only_by_a_loss_without_other_suspects(world: World) -> None:
    await world.enqueue("j1")
    for _ in range(4):
        await crash(world)
    assert await suspicions(world, "j1") == [4]
    await world.enqueue("j2")
    await world.claim(100)
    await world.lose()
    assert (await world.get("j2")).suspicion == 1
    assert await world.state("j1") is JobState.FAILED, "j2 was no suspect then"


async def test_the_only_suspect_fails_after_as_many_losses_as_its_policy_allows(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("poison", "A", retry=RetryPolicy(attempts=1, losses=3))
    await world.enqueue("next", "A", priority=60)
    for _ in range(2):
        assert await crash(world) == ["poison"]
    assert await world.claim() == ["poison"]
    lost = await world.lose()
    assert [(job.id, job.task) for job in lost.failed] == [("poison", "t")]
    job = await world.get("poison")
    assert job.state is JobState.FAILED
    assert "lost 3 times" in (job.error or "")
    assert lost.failed[0].error == job.error
    assert [past.outcome for past in job.history] == ["lost", "lost", "lost"]
    assert (job.suspicion, job.lost) == (0, 0), "these speak of unfinished jobs"
    assert await world.claim() == ["next"]


async def test_a_sweep_names_the_jobs_that_fail_by_loss(world: World) -> None:
    await world.enqueue("poison", retry=RetryPolicy(losses=2))
    await crash(world)
    await world.worker("w", lease=15)
    await world.claim()
    swept = await world.later(16)
    assert [job.id for job in swept.failed] == ["poison"]


async def test_jobs_that_were_lost_together_never_fail_by_it(world: World) -> None:
    await world.fill(2, retry=RetryPolicy(losses=2))
    for _ in range(2):
        assert len(await crash(world)) == 2
    assert await world.states("j1", "j2") == ["ready", "ready"]


async def test_a_policy_without_losses_fails_at_the_first(world: World) -> None:
    await world.fill(2, retry=RetryPolicy(losses=0))
    await world.claim(1)
    lost = await world.lose()
    assert [job.id for job in lost.failed] == ["j1"]
    assert await world.states("j1", "j2") == ["failed", "ready"]


async def test_a_suspect_that_runs_clearly_longer_than_before_is_cleared(world: World) -> None:
    """A quarter longer, and at least a second: the same fault does not strike at the same instant twice."""
    await world.enqueue("j1")
    await crash(world, after=8)
    await crash(world, after=10)
    assert await suspicions(world, "j1") == [2], "ten seconds are not more than a quarter longer"
    await crash(world, after=12.6)
    job = await world.get("j1")
    assert (job.suspicion, job.lost) == (1, 1), "as if for the first time"


async def test_a_suspect_is_cleared_by_the_time_that_it_surely_ran(world: World) -> None:
    """Its worker was last seen alive when it renewed its lease; it may have died right after that."""
    await world.enqueue("j1")
    await crash(world, after=1)
    await world.worker("w", lease=15)
    await world.claim()
    assert (await world.later(16)).lost == 1
    assert await suspicions(world, "j1") == [2]
    await world.worker("w", lease=15)
    await world.claim()
    world.move(9)
    await world.engine.heartbeat("w", now=world.now)
    assert (await world.later(16)).lost == 1
    assert await suspicions(world, "j1") == [3], "before, it may have run for half a lease"
    await world.worker("w", lease=15)
    await world.claim()
    world.move(14)
    await world.engine.heartbeat("w", now=world.now)
    world.move(14)
    await world.engine.heartbeat("w", now=world.now)
    assert (await world.later(16)).lost == 1
    assert await suspicions(world, "j1") == [1]


async def test_a_cleared_suspect_leaves_its_room_to_others(world: World) -> None:
    await world.fill(3)
    for _ in range(2):
        await crash(world, after=1)
    await world.worker("w", concurrency=10)
    assert await world.claim() == ["j1"]
    assert await world.claim() == []
    world.move(2.5)
    assert await world.claim() == ["j2"]


async def test_the_longest_run_before_a_loss_is_what_must_be_exceeded(world: World) -> None:
    await world.enqueue("j1")
    await crash(world, after=20)
    await crash(world, after=1)
    assert await suspicions(world, "j1") == [2]
    await crash(world, after=10)
    assert await suspicions(world, "j1") == [3], "it had run for 20 seconds before"


async def test_an_attempt_that_ends_clears_its_job(world: World) -> None:
    await world.fill(2)
    await crash(world)
    await world.claim()
    await world.fail("j1", retry=5)
    await world.snooze("j2", 5)
    await world.later(5)
    for id in ("j1", "j2"):
        job = await world.get(id)
        assert (job.suspicion, job.lost) == (0, 0)


async def test_a_graceful_give_back_blames_nobody_and_clears_nobody(world: World) -> None:
    await world.fill(1)
    await crash(world)
    await world.claim()
    await world.release("j1")
    assert await suspicions(world, "j1") == [1]
    await world.claim()
    await world.engine.retire("w", now=world.now)
    assert await suspicions(world, "j1") == [1]


async def test_a_restarted_job_is_no_suspect(world: World) -> None:
    await world.enqueue("poison", retry=RetryPolicy(losses=2))
    for _ in range(2):
        await crash(world)
    assert await world.state("poison") is JobState.FAILED
    await world.restart("poison")
    job = await world.get("poison")
    assert (job.state, job.suspicion, job.lost) == (JobState.READY, 0, 0)


async def test_a_cancelled_job_whose_worker_dies_ends_as_cancelled(world: World) -> None:
    await world.fill(2)
    await world.claim()
    await world.cancel("j1")
    await world.lose()
    assert await world.states("j1", "j2") == ["cancelled", "ready"]
    assert await suspicions(world, "j2") == [1]


async def test_a_suspect_waits_on_its_key_like_any_other_job(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A", priority=60)
    await world.claim()
    await world.enqueue("j2", "A", priority=10)
    await world.lose()
    assert await world.waiting_on("j1") == "A"
    assert await world.claim(1, worker="other") == ["j2"]
    assert await world.claim() == []
    await world.end("j2")
    assert await world.claim() == ["j1"]


async def test_a_suspect_of_a_task_that_the_worker_does_not_know_is_set_aside_and_frees_its_offer(
    world: World,
) -> None:
    await world.limit("A", 1)
    await world.worker("knowing", tasks=["t", "u"])
    await world.enqueue("strange", "A", task="u")
    assert await world.claim(worker="knowing") == ["strange"]
    await world.lose("knowing")
    await world.enqueue("mine", "A")
    await world.worker("w", tasks=["t"])
    answer = await world.exchange(want=5)
    assert answer.set_aside == ("u",)
    assert [attempt.job for attempt in answer.attempts] == ["mine"]
    await world.end("mine")
    await world.worker("knowing", tasks=["t", "u"])
    assert await world.claim(worker="knowing") == ["strange"]


async def test_suspects_of_several_queues_are_claimed_in_the_order_of_the_queues(world: World) -> None:
    await world.enqueue("a1", queue="a")
    await world.enqueue("b1", queue="b")
    await world.enqueue("b2", queue="b")
    for _ in range(2):
        await crash(world)
    await world.worker("w", concurrency=20)
    assert await world.claim(5, queues=["b", "a"]) == ["b1", "b2"]
    assert await world.claim(5, queues=["a"], worker="other") == ["a1"]


async def test_a_paused_queue_keeps_its_suspects(world: World) -> None:
    await world.enqueue("j1", queue="a")
    await crash(world)
    await world.engine.pause("a", now=world.now)
    assert await world.claim() == []
    await world.engine.resume("a", now=world.now)
    assert await world.claim() == ["j1"]


async def test_one_poison_job_among_many_is_found_and_no_other_fails(world: World) -> None:
    await world.fill(40)
    await world.enqueue("poison", priority=45)
    crashes = 0
    for _ in range(200):
        running = await world.claim(20)
        view = {view.id: view for view in (await world.snapshot()).jobs}
        mine = [id for id, job in view.items() if job.state is JobState.RUNNING]
        if not mine and not running:
            break
        world.move(1)
        if "poison" in mine:
            crashes += 1
            await world.lose()
            await world.worker("w", concurrency=20)
        else:
            await world.end(*mine)
    assert await world.state("poison") is JobState.FAILED
    assert {await world.state(f"j{number}") for number in range(1, 41)} == {JobState.SUCCEEDED}
    assert crashes <= 6


async def test_more_attempts_than_a_sweep_would_take_are_lost_and_judged_with_their_worker(
    world: World,
) -> None:
    await world.fill(1100)
    await world.worker("w", lease=15, concurrency=1100)
    while await world.claim(100):
        pass
    world.move(16)
    lost, more = 0, True
    while more:
        swept = await world.engine.sweep(now=world.now)
        lost, more = lost + swept.lost, swept.more
    assert lost == 1100
    assert {view.suspicion for view in (await world.snapshot()).jobs} == {1}


async def test_a_grave_suspect_of_a_later_queue_comes_before_lighter_ones_of_an_earlier_one(
    world: World,
) -> None:
    await world.enqueue("grave", queue="late")
    for _ in range(3):
        await crash(world)
    await world.enqueue("light", queue="early")
    await world.claim(1, worker="doomed", queues=["early"])
    await world.lose("doomed")
    assert await suspicions(world, "grave", "light") == [3, 1]
    await world.enqueue("new", queue="early")
    assert await world.claim(queues=["early", "late"]) == ["grave", "new"]
    await world.end("grave")
    assert await world.claim(queues=["early", "late"]) == ["light"]
