"""Queues: pausing, tasks that a worker does not know, what is shown of queues and workers."""

from __future__ import annotations

import msgspec

from headgate.engine.contract import QueueStatus, Worker, WorkerStatus
from headgate.job import JobState
from tests.support.world import World


async def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(world: World) -> None:
    await world.fill(2, queue="x")
    assert await world.engine.pause("x", now=world.now)
    assert not await world.engine.pause("x", now=world.now), "it was paused already"
    assert await world.claim() == []
    assert await world.claim(queues=["x"]) == []
    assert await world.engine.resume("x", now=world.now)
    assert not await world.engine.resume("x", now=world.now), "it was not paused"
    assert await world.claim() == ["j1", "j2"]


async def test_what_runs_in_a_paused_queue_goes_on_and_ends(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A", queue="x")
    await world.claim()
    await world.engine.pause("x", now=world.now)
    await world.end("j1")
    assert await world.claim() == []
    await world.engine.resume("x", now=world.now)
    assert await world.claim() == ["j2"]


async def test_a_paused_queue_does_not_hold_up_another_queue_of_the_same_key(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("x1", "A", queue="x")
    await world.enqueue("x2", "A", queue="x")
    await world.enqueue("y1", "A", queue="y")
    await world.enqueue("y2", "A", queue="y")
    await world.engine.pause("x", now=world.now)
    assert await world.claim() == ["y1"]
    await world.end("y1")
    assert await world.claim() == ["y2"]


async def test_a_queue_can_be_paused_before_it_has_jobs(world: World) -> None:
    await world.engine.pause("future", now=world.now)
    await world.enqueue("j1", queue="future")
    assert await world.claim() == []
    assert [queue.paused for queue in await world.engine.queues()] == [True]


async def test_jobs_can_be_enqueued_cancelled_and_fall_due_in_a_paused_queue(world: World) -> None:
    await world.engine.pause("default", now=world.now)
    await world.enqueue("j1", delay=5)
    await world.enqueue("j2")
    await world.cancel("j2")
    await world.later(5)
    assert await world.states("j1", "j2") == ["ready", "cancelled"]


async def test_queues_are_shown_with_their_counts(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A", queue="b", prefix="b")
    await world.enqueue("later", queue="b", delay=9)
    await world.enqueue("ready", queue="a")
    await world.claim(1, queues=["b"])
    await world.engine.pause("c", now=world.now)
    assert await world.engine.queues() == [
        QueueStatus("a", False, 0, 1, 0, 0, oldest=world.now),
        QueueStatus("b", False, 1, 0, 2, 1),
        QueueStatus("c", True, 0, 0, 0, 0),
    ]


async def oldest(world: World, queue: str = "default") -> int | None:
    """Since when the first ready job of a queue is due."""
    return next(status.oldest for status in await world.engine.queues() if status.name == queue)


async def test_the_oldest_ready_job_is_the_one_that_is_due_longest_whatever_its_priority(
    world: World,
) -> None:
    await world.enqueue("later", delay=3)
    assert await oldest(world) is None
    await world.later(5)
    await world.enqueue("urgent", priority=1)
    assert await oldest(world) == world.at(3)
    await world.enqueue("elsewhere", queue="x")
    assert await oldest(world, "x") == world.at(5)
    assert await world.claim(1) == ["urgent"]
    assert await oldest(world) == world.at(3)
    assert await world.claim(1, queues=["default"]) == ["later"]
    await world.enqueue("future", delay=3)
    assert await oldest(world) is None


async def test_a_job_that_waits_is_not_the_oldest_ready_one(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("held", "A", delay=-9)
    assert await world.claim() == ["held"]
    await world.enqueue("waits", "A", delay=-8)
    await world.enqueue("ready", delay=-7)
    assert await oldest(world) == world.at(-7)


async def test_the_oldest_ready_job_may_have_been_set_aside(world: World) -> None:
    await world.enqueue("strange", task="strange", delay=-9)
    await world.enqueue("strange, too", task="stranger", priority=1, delay=-8)
    assert await world.claim() == []
    await world.enqueue("known")
    assert await oldest(world) == world.at(-9)


async def test_the_oldest_ready_job_may_be_a_suspect(world: World) -> None:
    await world.enqueue("suspect", delay=-9)
    assert await world.claim() == ["suspect"]
    await world.lose()
    await world.enqueue("innocent")
    assert await oldest(world) == world.at(-9)


async def test_a_queue_whose_jobs_have_all_ended_is_not_shown(world: World) -> None:
    await world.enqueue("j1", queue="x")
    await world.claim()
    await world.end("j1")
    assert await world.engine.queues() == []


# ── tasks a worker does not know ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_of_an_unknown_task_is_left_for_a_worker_that_knows_it(world: World) -> None:
    await world.enqueue("foreign", task="other")
    await world.enqueue("own")
    assert await world.claim(worker="w") == ["own"]
    assert await world.state("foreign") is JobState.READY
    await world.worker("knows", tasks=["other"])
    assert await world.claim(worker="knows") == ["foreign"]


async def test_a_worker_that_was_there_before_finds_jobs_that_others_set_aside(world: World) -> None:
    await world.worker("knows", tasks=["other"])
    await world.enqueue("foreign", task="other")
    assert await world.claim(worker="w") == []
    assert await world.claim(worker="knows") == ["foreign"]


async def test_many_jobs_of_an_unknown_task_do_not_keep_a_worker_from_its_own(world: World) -> None:
    await world.fill(1500, task="other", prefix="foreign", priority=0)
    await world.enqueue("own")
    found: list[str] = []
    for _ in range(20):
        if found := await world.claim(1):
            break
    assert found == ["own"]
    answer = await world.exchange(want=1)
    assert not answer.more, "what was set aside is not looked at again"


async def test_a_job_set_aside_gives_its_offer_to_the_next_waiter(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("foreign", "A", task="other")
    await world.enqueue("own", "A")
    assert await world.state("own") is JobState.WAITING
    assert await world.claim() == ["own"]
    await world.worker("knows", tasks=["other"])
    assert await world.claim(worker="knows") == []
    await world.end("own")
    assert await world.claim(worker="knows") == ["foreign"]


async def test_jobs_set_aside_keep_their_order(world: World) -> None:
    await world.enqueue("second", task="other")
    await world.enqueue("first", task="other", priority=1)
    await world.claim()
    await world.worker("knows", tasks=["t", "other"])
    await world.enqueue("third")
    assert await world.claim(worker="knows") == ["first", "second", "third"]


async def test_a_job_that_was_set_aside_can_be_cancelled(world: World) -> None:
    await world.enqueue("foreign", task="other")
    await world.claim()
    await world.cancel("foreign")
    await world.worker("knows", tasks=["other"])
    assert await world.claim(worker="knows") == []


async def test_a_job_that_was_set_aside_is_an_ordinary_one_after_its_first_attempt(world: World) -> None:
    await world.enqueue("foreign", task="other")
    await world.claim()
    await world.worker("knows", tasks=["other"])
    await world.claim(worker="knows")
    await world.fail("foreign", retry=0)
    assert await world.claim(worker="knows") == ["foreign"]


async def test_jobs_set_aside_in_a_paused_queue_stay_there(world: World) -> None:
    await world.enqueue("foreign", task="other", queue="x")
    await world.claim()
    await world.engine.pause("x", now=world.now)
    await world.worker("knows", tasks=["other"])
    assert await world.claim(worker="knows") == []


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_workers_are_shown_with_what_they_run(world: World) -> None:
    record = Worker("w", frozenset({"t", "u"}), ("x", "default"), 15_000_000, "host", 4711, 8)
    assert await world.engine.register(record, now=world.now) == world.now
    world.workers.add("w")
    await world.fill(2)
    await world.claim()
    assert await world.engine.workers(now=world.now) == [WorkerStatus(record, world.now, world.at(15), 2)]


async def test_a_heartbeat_moves_the_lease(world: World) -> None:
    await world.worker("w", lease=15)
    world.move(5)
    beat = await world.engine.heartbeat("w", now=world.now)
    assert beat.now == world.now
    (status,) = await world.engine.workers(now=world.now)
    assert status.lease_until == world.at(20)


async def test_a_lapsed_worker_is_forgotten_by_the_sweep(world: World) -> None:
    await world.worker("w", lease=15)
    await world.later(15)
    assert await world.engine.workers(now=world.now) == []


async def test_a_worker_that_registers_again_takes_its_new_tasks(world: World) -> None:
    await world.worker("w", tasks=["t"])
    await world.enqueue("foreign", task="other")
    assert await world.claim() == []
    await world.worker("w", tasks=["other"])
    assert await world.claim() == ["foreign"]


async def test_an_attempt_carries_all_that_a_worker_needs(world: World) -> None:
    job = world.job("j1", tenant="acme", args='{"a":1}', priority=3, timeout=5, metadata='{"m":2}')
    await world.enqueue_all(job)
    world.move(1)
    (attempt,) = (await world.exchange(want=1)).attempts
    assert msgspec.structs.asdict(attempt) == {
        "job": "j1",
        "number": 1,
        "task": "t",
        "queue": "default",
        "args": '{"a":1}',
        "tenant": "acme",
        "priority": 3,
        "tries": 1,
        "retry": job.retry,
        "timeout": 5,
        "metadata": '{"m":2}',
        "enqueued_at": world.at(0),
        "due": world.at(0),
        "started_at": world.at(1),
        "progress": None,
        "suspicion": 0,
        "headers": None,
        "keys": (),
    }
