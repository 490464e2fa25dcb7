"""Jobs that need a thread stand aside for claims that have none to spare, and lose nothing by it."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Succeeded
from headgate.job import JobState
from tests.support.world import World

S = JobState


async def prepared(world: World, id: str = "w", **fields: object) -> None:
    """A worker that knows the asynchronous task `t` and the synchronous one `sync`."""
    await world.worker(id, tasks=["t", "sync"], threaded=["sync"], **fields)  # type: ignore[arg-type]


async def claim(world: World, threads: int | None, want: int = 100, worker: str = "w") -> list[str]:
    """Claim with so many threads to spare."""
    answer = await world.exchange(want=want, worker=worker, threads=threads)
    assert answer.set_aside == (), "only unknown tasks are named"
    return [attempt.job for attempt in answer.attempts]


async def test_a_worker_shows_which_tasks_need_threads(world: World) -> None:
    await prepared(world)
    (status,) = await world.engine.workers(now=world.now)
    assert status.worker.threaded == {"sync"}


async def test_no_more_jobs_are_claimed_than_there_are_threads(world: World) -> None:
    await prepared(world)
    await world.fill(5, task="sync", prefix="s")
    assert await claim(world, threads=2) == ["s1", "s2"]
    assert await claim(world, threads=0) == []
    assert await world.states("s3", "s4", "s5") == ["ready"] * 3
    assert await claim(world, threads=1) == ["s3"]
    assert await claim(world, threads=None) == ["s4", "s5"]


async def test_jobs_that_need_no_thread_are_claimed_meanwhile(world: World) -> None:
    await prepared(world)
    await world.fill(5, task="sync", prefix="s", priority=1)
    await world.fill(5, prefix="a")
    assert await claim(world, threads=2, want=4) == ["s1", "s2", "a1", "a2"]
    assert await claim(world, threads=0, want=2) == ["a3", "a4"]
    assert await claim(world, threads=9, want=2) == ["s3", "s4"]


async def test_without_a_number_nothing_is_set_aside(world: World) -> None:
    await prepared(world)
    await world.fill(3, task="sync", prefix="s")
    assert await claim(world, threads=None) == ["s1", "s2", "s3"]


async def test_a_task_that_the_worker_did_not_name_needs_no_thread(world: World) -> None:
    await prepared(world)
    await world.worker("other", tasks=["t", "sync"])
    await world.fill(2, task="sync", prefix="s")
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=0, worker="other") == ["s1", "s2"]


async def test_jobs_keep_their_order_among_themselves_and_among_others(world: World) -> None:
    await prepared(world)
    await world.enqueue("third", task="sync", delay=-1)
    await world.enqueue("second", task="sync", priority=10, delay=-1)
    await world.enqueue("behind", task="sync", priority=60, delay=-1)
    assert await claim(world, threads=0) == []
    await world.enqueue("fourth")
    await world.enqueue("first", priority=1)
    await world.enqueue("fifth", task="sync")
    assert await claim(world, threads=9) == ["first", "second", "third", "fourth", "fifth", "behind"]


async def test_another_worker_with_threads_finds_them(world: World) -> None:
    await prepared(world)
    await prepared(world, "other")
    await world.fill(2, task="sync", prefix="s")
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=1, worker="other") == ["s1"]


async def test_a_job_keeps_what_it_was_offered(world: World) -> None:
    await prepared(world)
    await world.limit("A", 1)
    await world.enqueue("sync", "A", task="sync")
    await world.enqueue("async", "A")
    assert await world.states("sync", "async") == ["ready", "waiting"]
    assert await claim(world, threads=0) == []
    assert await world.states("sync", "async") == ["ready", "waiting"]
    (view,) = [view for view in (await world.snapshot()).jobs if view.id == "sync"]
    assert (view.offered_by, view.set_aside) == (world.ident("A"), False)
    assert await claim(world, threads=1) == ["sync"]
    await world.end("sync")
    assert await claim(world, threads=0) == ["async"]


async def test_a_job_that_is_offered_in_the_very_exchange_keeps_the_offer(world: World) -> None:
    await prepared(world)
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    assert await claim(world, threads=0) == ["first"]
    await world.enqueue("sync", "A", task="sync")
    await world.enqueue("async", "A")
    answer = await world.exchange(Succeeded("first", 1), want=5, threads=0)
    assert (answer.attempts, answer.set_aside) == ((), ())
    assert await world.states("sync", "async") == ["ready", "waiting"]
    assert await claim(world, threads=1, want=1) == ["sync"]
    assert await world.held("A") == ["sync"]


async def test_a_worker_that_does_not_know_the_task_passes_its_offer_on(world: World) -> None:
    await prepared(world)
    await world.worker("foreign", tasks=["t"])
    await world.limit("A", 1)
    await world.enqueue("sync", "A", task="sync")
    await world.enqueue("async", "A")
    assert await claim(world, threads=0) == []
    answer = await world.exchange(want=5, worker="foreign")
    assert [attempt.job for attempt in answer.attempts] == ["async"]
    assert answer.set_aside == ("sync",)


async def test_jobs_that_a_foreign_worker_set_aside_wait_for_threads_as_well(world: World) -> None:
    await prepared(world)
    await world.worker("foreign", tasks=["t"])
    await world.fill(3, task="sync", prefix="s")
    assert (await world.exchange(want=5, worker="foreign")).set_aside == ("sync",)
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=1) == ["s1"]
    assert await claim(world, threads=5) == ["s2", "s3"]


async def test_a_refused_job_uses_no_thread(world: World) -> None:
    await prepared(world)
    await world.limit("A", 1)
    await world.enqueue("refused", "A", task="sync")
    await world.override("A", 0)
    await world.enqueue("free", task="sync")
    assert await claim(world, threads=1) == ["free"]
    assert await world.state("refused") is S.WAITING


async def test_a_job_that_stood_aside_can_still_be_refused_and_offered_again(world: World) -> None:
    await prepared(world)
    await world.limit("A", 1)
    await world.enqueue("sync", "A", task="sync")
    assert await claim(world, threads=0) == []
    await world.override("A", 0)
    assert await claim(world, threads=1) == []
    assert await world.state("sync") is S.WAITING
    await world.override("A", 1)
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=1) == ["sync"]


async def test_queues_are_still_asked_in_their_order(world: World) -> None:
    await prepared(world)
    await world.fill(2, task="sync", queue="y", prefix="y")
    await world.fill(2, task="sync", queue="x", prefix="x")
    assert await claim(world, threads=0) == []
    answer = await world.exchange(want=3, queues=["x", "y"], threads=3)
    assert [attempt.job for attempt in answer.attempts] == ["x1", "x2", "y1"]


async def test_a_paused_queue_keeps_them(world: World) -> None:
    await prepared(world)
    await world.enqueue("sync", task="sync", queue="x")
    assert await claim(world, threads=0) == []
    await world.engine.pause("x", now=world.now)
    assert await claim(world, threads=5) == []
    await world.engine.resume("x", now=world.now)
    assert await claim(world, threads=5) == ["sync"]


async def test_they_can_be_cancelled(world: World) -> None:
    await prepared(world)
    await world.limit("A", 1)
    await world.enqueue("sync", "A", task="sync")
    await world.enqueue("async", "A")
    assert await claim(world, threads=0) == []
    await world.cancel("sync")
    assert await claim(world, threads=5) == ["async"]


async def test_a_job_is_an_ordinary_one_after_its_attempt(world: World) -> None:
    await prepared(world)
    await world.enqueue("sync", task="sync")
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=1) == ["sync"]
    await world.fail("sync", retry=0)
    assert await claim(world, threads=None) == ["sync"]
    await world.lose()
    await prepared(world)
    assert await claim(world, threads=0) == []
    assert await claim(world, threads=1) == ["sync"]


@pytest.mark.parametrize("losses", [1, 3])
async def test_a_suspect_without_a_thread_keeps_no_other_suspect_waiting(world: World, losses: int) -> None:
    """Not even a grave one, beside which no other is taken on."""
    await prepared(world)
    await world.fill(2, task="sync", prefix="s")
    await world.enqueue("a")
    for _ in range(losses):
        assert await claim(world, threads=None) == ["s1", "s2", "a"]
        await world.lose()
        await prepared(world)
    assert await claim(world, threads=0) == ["a"]
    await world.end("a")
    assert await claim(world, threads=1) == ["s1"]


async def test_ten_thousand_jobs_without_a_thread_do_not_keep_an_asynchronous_one(world: World) -> None:
    await prepared(world)
    for first in range(0, 10_000, 2000):
        await world.fill(2000, task="sync", prefix=f"s{first}.", priority=1)
    await world.enqueue("async", priority=1)
    claimed: list[str] = []
    exchanges = 0
    while not claimed:
        answer = await world.exchange(want=10, threads=0)
        claimed = [attempt.job for attempt in answer.attempts]
        exchanges += 1
        assert answer.more or claimed
        assert exchanges <= 50
    assert claimed == ["async"]
    answer = await world.exchange(want=10, threads=0)
    assert (answer.attempts, answer.more) == ((), False), "what stands aside is not looked at again"
    assert len(await claim(world, threads=3, want=10)) == 3
    assert (await world.engine.queues())[0].ready == 9997
    await world.enqueue("later", priority=1)
    assert (await claim(world, threads=1, want=10))[1:] == ["later"], (
        "no more are looked at than there are threads for"
    )


async def test_waiting_for_a_thread_does_not_change_when_they_are_due(world: World) -> None:
    await prepared(world)
    await world.enqueue("sync", task="sync")
    assert await claim(world, threads=0) == []
    world.move(60)
    (attempt,) = (await world.exchange(want=1, threads=1)).attempts
    assert (attempt.job, attempt.due, attempt.started_at) == ("sync", world.at(0), world.at(0) + 60 * SECOND)
