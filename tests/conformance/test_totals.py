"""How many jobs there are: totals by state and the table of queues, whole or bounded."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import QueueStatus, Totals
from headgate.job import INTERNAL_QUEUE, JobState
from tests.support.world import World

S = JobState


async def totals(world: World) -> dict[str, int]:
    """All that are not nought."""
    found = await world.engine.totals()
    assert set(found.counts) == set(JobState)
    assert found.partial == frozenset()
    return {str(state): count for state, count in found.counts.items() if count}


async def test_an_empty_store_has_no_jobs_in_any_state(world: World) -> None:
    assert await world.engine.totals() == Totals(dict.fromkeys(JobState, 0))
    assert await world.engine.totals(most=5) == Totals(dict.fromkeys(JobState, 0))


async def test_totals_count_the_jobs_of_every_state_across_queues_and_tenants(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, queue="x", prefix="s")
    await world.claim()
    await world.end("s1", "s2")
    await world.enqueue("f1", tenant="acme")
    await world.claim()
    await world.fail("f1")
    await world.fill(3, tenant="zeta", prefix="c")
    await world.cancel("c1", "c2", "c3")
    await world.fill(5, "A", prefix="w")
    await world.claim()
    await world.fill(6, delay=9, queue="y", prefix="d")
    await world.fill(7, queue="z", prefix="r")
    assert await totals(world) == {
        "scheduled": 6,
        "ready": 7,
        "waiting": 4,
        "running": 1,
        "succeeded": 2,
        "failed": 1,
        "cancelled": 3,
    }


async def test_jobs_that_stand_in_lines_of_their_own_are_ready_like_any_other(world: World) -> None:
    await world.worker("w", tasks=["t", "u"], threaded=["u"])
    await world.enqueue("suspect")
    await world.claim()
    await world.lose()
    await world.later(600)
    await world.worker("w", tasks=["t", "u"], threaded=["u"])
    await world.enqueue("strange", task="unknown")
    await world.enqueue("threaded", task="u")
    await world.exchange(want=1, suspects=False, threads=0, queues=["default"])
    await world.engine.pause("paused", now=world.now)
    await world.enqueue("still", queue="paused")
    states = [*(await world.unfinished()).values()]
    ready, running = states.count("ready"), states.count("running")
    assert ready + running == 4
    assert (await totals(world)).get("ready") == ready
    assert sum(queue.ready for queue in await world.engine.queues()) == ready


async def test_a_job_that_was_asked_to_stop_runs_until_it_ends(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.cancel("j1")
    assert await totals(world) == {"running": 1}
    await world.stop("j1")
    assert await totals(world) == {"cancelled": 1}


async def test_the_stores_own_jobs_count(world: World) -> None:
    await world.enqueue("j1", queue=INTERNAL_QUEUE)
    assert await totals(world) == {"ready": 1}


async def test_what_is_deleted_or_restarted_counts_where_it_stands_now(world: World) -> None:
    await world.fill(3)
    await world.cancel("j1", "j2", "j3")
    await world.delete("j1")
    await world.restart("j2")
    assert await totals(world) == {"cancelled": 1, "ready": 1}


async def test_what_retention_has_taken_is_gone(world: World) -> None:
    await world.enqueue("j1", retention=10 * SECOND)
    await world.cancel("j1")
    assert await totals(world) == {"cancelled": 1}
    await world.later(11)
    assert await totals(world) == {}


async def mixed(world: World) -> dict[JobState, int]:
    """A store with jobs in each state: how many."""
    await world.limit("A", 0)
    await world.worker("w", tasks=["t"], concurrency=1000)
    for state, verb in ((S.SUCCEEDED, world.end), (S.FAILED, world.fail)):
        ids = await world.fill(12, queue=state, prefix=state)
        await world.claim()
        for id in ids:
            await verb(id)
    await world.cancel(*await world.fill(40, prefix="c"))
    await world.fill(30, prefix="run")
    await world.claim()
    await world.fill(20, "A", prefix="w")
    await world.fill(25, delay=9, prefix="s")
    await world.fill(3, prefix="r")
    return {
        S.SUCCEEDED: 12,
        S.FAILED: 12,
        S.CANCELLED: 40,
        S.RUNNING: 30,
        S.WAITING: 20,
        S.SCHEDULED: 25,
        S.READY: 3,
    }


@pytest.mark.parametrize("most", [1, 12, 25, 1000])
async def test_a_bounded_count_is_exact_or_says_that_it_is_a_lower_bound(world: World, most: int) -> None:
    real = await mixed(world)
    found = await world.engine.totals(most=most)
    for state, count in real.items():
        if state in found.partial:
            assert most <= found.counts[state] <= count
        else:
            assert found.counts[state] == count
    assert not any(found.counts[state] < most for state in found.partial)


@pytest.mark.parametrize("most", [1, 12, 25, 1000])
async def test_bounded_counts_of_queues_are_exact_or_say_that_they_are_lower_bounds(
    world: World, most: int
) -> None:
    await mixed(world)
    await world.fill(4, queue="small", prefix="small")
    await world.fill(50, queue="big", prefix="big", delay=5)
    await world.engine.pause("empty", now=world.now)
    real = {queue.name: queue for queue in await world.engine.queues()}
    found = {queue.name: queue for queue in await world.engine.queues(most=most)}
    assert set(found) == set(real) == {"default", "small", "big", "empty"}
    for name, queue in found.items():
        some, all = counts(queue), counts(real[name])
        assert some == all or not queue.exact
        assert [bound <= number for bound, number in zip(some, all, strict=True)] == [True] * 4
        assert (queue.paused, queue.oldest) == (real[name].paused, real[name].oldest)


def counts(queue: QueueStatus) -> tuple[int, ...]:
    return queue.scheduled, queue.ready, queue.waiting, queue.running
