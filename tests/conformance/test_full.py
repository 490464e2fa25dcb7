"""What becomes of a job for which there is no room: it waits, leaves, replaces others, or is refused (rule 19)."""

from __future__ import annotations

import pytest

from headgate.errors import BacklogFull
from headgate.job import JobState
from tests.support.world import World


async def reason(world: World, id: str) -> str:
    job = await world.get(id)
    assert job.state is JobState.CANCELLED
    assert job.attempt == 0
    return job.error or ""


async def test_drop_ends_a_newcomer_that_finds_the_key_full(world: World) -> None:
    await world.limit("A", 1, when_full="drop")
    await world.enqueue("first", "A=1")
    await world.enqueue("other", "A=2")
    await world.enqueue("second", "A=1")
    await world.met()
    assert await reason(world, "second") == "dropped: limit 'A=1' was full (when_full='drop')"
    assert sorted(await world.claim()) == ["first", "other"]
    await world.enqueue("third", "A=1")
    await world.met()
    assert await world.state("third") is JobState.CANCELLED
    await world.end("first", "other")
    await world.enqueue("fourth", "A=1")
    assert await world.claim() == ["fourth"]
    await world.end("fourth")
    await world.nothing_left()


async def test_drop_also_meets_a_retry_but_not_a_job_that_comes_back_uncounted(world: World) -> None:
    await world.limit("A", 1, when_full="drop")
    await world.enqueue("a", "A")
    await world.claim()
    await world.fail("a", retry=10)
    await world.enqueue("b", "A")
    await world.claim()
    await world.later(10)
    await world.met()
    assert await world.state("a") is JobState.CANCELLED
    await world.override("A", 2)
    await world.enqueue("c", "A")
    assert await world.claim() == ["c"]
    await world.override("A", 1)
    await world.release("c")
    await world.met()
    assert await world.state("c") is JobState.WAITING, "it had a slot, and lost it without a fault of its own"


async def test_replace_keeps_only_the_newest_waiter(world: World) -> None:
    await world.limit("A", 1, when_full="replace")
    await world.enqueue("runs", "A")
    await world.claim()
    for number in range(3):
        await world.enqueue(f"w{number}", "A", queue=f"q{number}")
        await world.met()
    assert await reason(world, "w0") == "replaced: job 'w1' came for limit 'A' (when_full='replace')"
    assert await reason(world, "w1") == "replaced: job 'w2' came for limit 'A' (when_full='replace')"
    await world.end("runs")
    assert await world.claim() == ["w2"]
    await world.end("w2")
    await world.nothing_left()


async def test_cancel_asks_the_one_that_runs_to_stop_and_waits_for_its_slot(world: World) -> None:
    await world.limit("A", 2, when_full="cancel")
    await world.enqueue("old", "A")
    await world.claim()
    world.move(1)
    await world.enqueue("newer", "A")
    await world.claim()
    await world.enqueue("newcomer", "A")
    answer = await world.exchange(want=5)
    assert answer.cancelling == ("old",)
    assert await world.state("newcomer") is JobState.WAITING
    await world.enqueue("another", "A")
    answer = await world.exchange(want=5)
    assert sorted(answer.cancelling) == ["newer", "old"], "each newcomer asks one"
    await world.stop("old")
    assert await world.claim() == ["newcomer"]


async def test_max_waiting_refuses_at_enqueue_and_stores_nothing(world: World) -> None:
    await world.limit("A", 1, max_waiting=2)
    await world.enqueue("runs", "A")
    await world.claim()
    await world.fill(2, "A", prefix="w")
    await world.met()
    with pytest.raises(BacklogFull, match=r"2 jobs wait for 'A' already") as refused:
        await world.enqueue_all(world.job("free"), world.job("over", "A"))
    assert refused.value.limit == "A"
    assert await world.states("free", "over") == ["None", "None"]
    await world.enqueue("elsewhere", "A=2")
    await world.cancel("w1")
    await world.enqueue("fits", "A")
    await world.met()
    assert await world.state("fits") is JobState.WAITING


async def test_a_retry_is_never_refused(world: World) -> None:
    await world.limit("A", 1, max_waiting=1)
    await world.enqueue("a", "A")
    await world.claim()
    await world.fail("a", retry=5)
    await world.fill(2, "A", prefix="w")
    await world.claim()
    await world.later(5)
    await world.met()
    assert await world.state("a") is JobState.WAITING


async def test_drop_newest_ends_the_newcomer(world: World) -> None:
    await world.limit("A", 1, max_waiting=2, on_overflow="drop_newest")
    await world.enqueue("runs", "A")
    await world.claim()
    for number in range(4):
        await world.enqueue(f"w{number}", "A")
        await world.met()
    assert await world.states("w0", "w1", "w2", "w3") == ["waiting", "waiting", "cancelled", "cancelled"]
    assert await reason(world, "w3") == "dropped: 2 jobs wait for 'A' already (max_waiting)"


async def test_drop_oldest_ends_the_first_of_the_least_urgent(world: World) -> None:
    await world.limit("A", 1, max_waiting=3, on_overflow="drop_oldest")
    await world.enqueue("runs", "A")
    await world.claim()
    await world.enqueue("urgent", "A", priority=1)
    await world.enqueue("old", "A", queue="x")
    await world.enqueue("new", "A")
    await world.met()
    await world.enqueue("newest", "A")
    await world.met()
    assert await reason(world, "old") == "dropped: 3 jobs wait for 'A' already (max_waiting)"
    await world.enqueue("idle", "A", priority=99)
    await world.met()
    assert await world.state("idle") is JobState.CANCELLED, "it is the least urgent itself"
    assert await world.states("urgent", "new", "newest") == ["waiting"] * 3


async def test_a_rate_bounds_its_backlog_likewise(world: World) -> None:
    await world.rate("R", 1, per=60, max_waiting=1, on_overflow="drop_newest")
    for number in range(3):
        await world.enqueue(f"r{number}", "R")
        await world.met()
    assert await world.claim() == ["r0"]
    assert await world.states("r1", "r2") == ["waiting", "cancelled"]
    await world.later(60)
    assert await world.claim() == ["r1"]


async def test_a_queue_bounds_what_is_ready_or_waiting_in_it(world: World) -> None:
    await world.limit("queue:mail", None, max_waiting=2)
    await world.limit("A", 1)
    await world.enqueue("a", "A", queue="mail")
    await world.claim()
    await world.enqueue("waits", "A", queue="mail")
    await world.enqueue("ready", queue="mail")
    await world.enqueue("future", queue="mail", delay=60)
    await world.met()
    with pytest.raises(BacklogFull) as refused:
        await world.enqueue("over", queue="mail")
    assert refused.value.limit == "queue:mail"
    await world.enqueue("other", queue="default")
    assert await world.held("queue:mail") == [], "without a number it holds nothing"
    assert sorted(await world.claim()) == ["other", "ready"]
    await world.enqueue("fits", queue="mail")
    assert await world.claim() == ["fits"]


async def test_a_queue_can_drop_its_oldest(world: World) -> None:
    await world.limit("queue:mail", None, max_waiting=2, on_overflow="drop_oldest")
    for number in range(4):
        await world.enqueue(f"m{number}", queue="mail")
        await world.met()
    assert await world.states("m0", "m1") == ["cancelled", "cancelled"]
    assert await world.claim() == ["m2", "m3"]


async def test_policies_of_one_key_leave_the_other_keys_alone(world: World) -> None:
    await world.limit("A", 1, when_full="drop")
    await world.limit("B", 1)
    await world.enqueue("b", "B")
    await world.claim()
    await world.enqueue("both", "A", "B")
    await world.met()
    assert await world.waiting_on("both") == "B", "B refused it, and lets it wait"
    await world.enqueue("a", "A")
    assert await world.claim() == ["a"]


async def test_a_dropped_job_can_be_restarted(world: World) -> None:
    await world.limit("A", 1, when_full="drop")
    await world.fill(2, "A")
    assert await world.claim() == ["j1"]
    await world.end("j1")
    (verdict,) = await world.restart("j2")
    assert verdict.done
    assert await world.claim() == ["j2"]


async def test_a_full_queue_takes_back_what_comes_back_uncounted(world: World) -> None:
    await world.limit("queue:default", None, max_waiting=1, on_overflow="drop_newest")
    await world.enqueue("a")
    await world.claim()
    await world.enqueue("b")
    await world.met()
    await world.release("a")
    assert sorted(await world.claim()) == ["a", "b"]
