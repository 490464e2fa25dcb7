"""A number per key, brought by its newest job (rule 18)."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import Limit
from headgate.engine.rules.in_force import KEEP_NUMBERS
from headgate.job import NewJob
from tests.support.world import World


async def test_each_key_has_the_number_that_its_jobs_bring(world: World) -> None:
    await world.limit("user", 1, per_key=True)
    await world.fill(5, ("user=free", 1, 1), prefix="f")
    await world.fill(5, ("user=pro", 1, 3), prefix="p")
    await world.fill(3, "user=other", prefix="o")
    assert sorted(await world.claim()) == ["f1", "o1", "p1", "p2", "p3"]
    assert (await world.status("user=pro")).max == 3
    assert (await world.status("user=pro")).declared == 1


async def test_the_newest_job_of_a_key_wins(world: World) -> None:
    await world.limit("user", 5, per_key=True)
    await world.enqueue("a", ("user=1", 1, 1))
    await world.enqueue("b", ("user=1", 1, 1))
    assert await world.claim() == ["a"]
    await world.enqueue("c", ("user=1", 1, 3))
    assert await world.claim() == ["b", "c"], "raising offers those that wait"
    await world.enqueue("d", ("user=1", 1, 2))
    assert await world.claim() == [], "lowering evicts nobody"
    status = await world.status("user=1")
    assert (status.max, status.brought, status.brought_before) == (2, 2, 3)


async def test_jobs_that_agree_leave_no_trace_of_a_disagreement(world: World) -> None:
    await world.limit("user", 5, per_key=True)
    await world.fill(3, ("user=1", 1, 2))
    await world.met()
    status = await world.status("user=1")
    assert (status.brought, status.brought_before) == (2, None)


async def test_an_operator_wins_over_what_jobs_bring(world: World) -> None:
    await world.limit("user", 5, per_key=True)
    await world.fill(6, ("user=1", 1, 2))
    await world.override("user=1", 1)
    assert len(await world.claim()) == 1
    await world.override("user", 4)
    assert len(await world.claim()) == 0, "the word on the key counts before the one on the name"
    await world.clear("user=1")
    assert len(await world.claim()) == 3
    await world.clear("user")
    assert (await world.status("user=1")).max == 2


async def test_rates_can_be_brought_likewise(world: World) -> None:
    await world.rate("api", 1, per=60, per_key=True)
    await world.fill(5, ("api=free", 1, 1), prefix="f")
    await world.fill(5, ("api=pro", 1, 4), prefix="p")
    assert sorted(await world.claim()) == ["f1", "p1", "p2", "p3", "p4"]


async def test_the_number_of_an_idle_key_is_forgotten(world: World) -> None:
    await world.limit("user", 1, per_key=True)
    await world.enqueue("a", ("user=1", 1, 3))
    await world.claim()
    await world.later(KEEP_NUMBERS / SECOND + 1)
    assert (await world.status("user=1")).max == 3, "it is in use"
    await world.end("a")
    await world.later(KEEP_NUMBERS / SECOND + 1)
    assert [line.key for line in await world.engine.limits("user", now=world.now)] == ["user"]


async def test_a_learnt_number_is_written_only_over_the_one_that_was_seen(world: World) -> None:
    await world.limit("api", 10, adaptive=True)
    key = world.ident("api=1")
    await world.fill(12, "api=1")
    assert await world.engine.learn(key, 5, seen=10, reason="throttled", now=world.now)
    assert not await world.engine.learn(key, 5, seen=10, reason="throttled", now=world.now)
    status = await world.status("api=1")
    assert (status.max, status.reason) == (5, "throttled")
    assert len(await world.claim()) == 5
    assert await world.engine.learn(key, 6, seen=5, reason="all went well at the limit", now=world.now)
    assert len(await world.claim()) == 1
    await world.override("api", 2)
    assert (await world.status("api=1")).max == 2, "an operator wins"
    assert await world.engine.learn(key, 7, seen=6, reason="all went well at the limit", now=world.now)


async def test_a_learnt_number_decays_when_its_key_is_idle(world: World) -> None:
    await world.limit("api", 10, adaptive=True)
    await world.engine.learn(world.ident("api=1"), 2, seen=10, reason="throttled", now=world.now)
    await world.later(KEEP_NUMBERS / SECOND + 1)
    await world.fill(20, "api=1")
    assert len(await world.claim()) == 10


async def test_a_brought_number_is_heeded_only_where_the_limit_says_so(world: World) -> None:
    await world.limit("user", 1)
    await world.fill(3, ("user=1", 1, 3))
    assert len(await world.claim()) == 1


async def test_a_number_that_comes_with_a_job_is_in_force_for_its_key_only(world: World) -> None:
    def mentioned(number: int, prefix: str) -> list[NewJob]:
        return [world.job(f"{prefix}{n}", (f"user={prefix}", 1, number)) for n in range(3)]

    free, pro = [Limit("user", "concurrency", number, by_job=True) for number in (1, 2)]
    await world.enqueue_all(*mentioned(1, "free"), limits=[free])
    assert (await world.status("user")).max == 1
    await world.enqueue_all(*mentioned(2, "pro"), limits=[pro])
    assert sorted(await world.claim()) == ["free0", "pro0", "pro1"]
    assert [(await world.status(key)).max for key in ("user", "user=free", "user=pro")] == [1, 1, 2]
    await world.limit("user", 3)
    assert (await world.status("user=pro")).max == 2, "a declaration in code does not end what jobs bring"
    assert await world.claim() == ["free1", "free2"]


async def test_a_job_that_was_due_later_brings_its_number_again(world: World) -> None:
    await world.limit("user", None, per_key=True)
    for number in (1, 2):
        await world.enqueue(f"j{number}", ("user=1", 1, 1), delay=KEEP_NUMBERS / SECOND + 10)
    await world.later(KEEP_NUMBERS / SECOND + 1)
    assert [line.key for line in await world.engine.limits("user", now=world.now)] == ["user"]
    await world.later(10)
    assert await world.claim() == ["j1"]


async def test_a_retry_does_not_bring_its_old_number_back(world: World) -> None:
    await world.limit("user", None, per_key=True)
    await world.enqueue("a", ("user=1", 1, 1))
    await world.claim()
    await world.enqueue("b", ("user=1", 1, 2))
    await world.fail("a", retry=1)
    await world.later(1)
    assert (await world.status("user=1")).max == 2
    assert sorted(await world.claim()) == ["a", "b"]
