"""How many run at once: exactly as many as every key allows, whichever worker asks, over whichever connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headgate.engine.contract import Engine, Failed, Succeeded
from headgate.job import JobState
from tests.support.world import World

Another = Callable[[], Awaitable[Engine]]


async def test_five_jobs_ending_at_once_on_five_connections_let_exactly_five_others_start(
    world: World, another_engine: Another
) -> None:
    await world.limit("A", 5)
    await world.fill(20, "A")
    running = [await world.claim(1, worker=f"w{number}") for number in range(5)]
    engines = [await another_engine() for _ in range(5)]
    answers = await asyncio.gather(
        *(
            engine.exchange(f"w{number}", [Succeeded(job, 1)], 20, now=world.now)
            for number, (engine, [job]) in enumerate(zip(engines, running, strict=True))
        )
    )
    started = [attempt.job for answer in answers for attempt in answer.attempts]
    assert sorted(started) == sorted(["j6", "j7", "j8", "j9", "j10"])
    assert len(await world.held("A")) == 5


async def test_a_retry_and_a_waiter_of_one_key_never_run_together(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    await world.enqueue("second", "A")
    assert await world.claim() == ["first"]
    await world.fail("first", retry=10)
    assert await world.claim() == ["second"], "the waiter runs during the back-off"
    await world.later(10)
    assert await world.state("first") is JobState.WAITING
    assert await world.claim() == []
    await world.end("second")
    assert await world.claim() == ["first"]


async def test_fifty_simultaneous_enqueues_onto_a_held_key_all_wait(
    world: World, another_engine: Another
) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    engines = [await another_engine() for _ in range(10)]
    world.jobs += 50
    await asyncio.gather(
        *(engines[number % 10].enqueue([world.job(f"j{number}", "A")], now=world.now) for number in range(50))
    )
    assert await world.claim() == []
    assert await world.held("A") == ["holder"]
    assert (await world.status("A")).waiting == 50


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_exactly_max_jobs_run_neither_fewer_nor_more(world: World, most: int) -> None:
    await world.limit("A", most)
    await world.fill(6, "A")
    assert len(await world.claim()) == most
    assert await world.claim() == []
    assert len(await world.held("A")) == most


async def test_many_workers_never_claim_the_same_job_twice(world: World, another_engine: Another) -> None:
    await world.fill(1000)
    engines = [await another_engine() for _ in range(8)]
    for number in range(8):
        await world.worker(f"w{number}")

    async def drain(engine: Engine, worker: str) -> list[str]:
        mine: list[str] = []
        while answer := (await engine.exchange(worker, [], 17, now=world.now)).attempts:
            mine += [attempt.job for attempt in answer]
        return mine

    shares = await asyncio.gather(*(drain(engine, f"w{number}") for number, engine in enumerate(engines)))
    claimed = [job for share in shares for job in share]
    assert len(claimed) == 1000
    assert len(set(claimed)) == 1000


async def test_a_key_shared_by_two_queues_admits_one_of_them_at_a_time(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("east", "A", queue="east")
    await world.enqueue("west", "A", queue="west")
    assert await world.claim(5, queues=["east"]) == ["east"]
    assert await world.claim(5, queues=["west"]) == []
    await world.end("east")
    assert await world.claim(5, queues=["west"]) == ["west"]


async def test_a_queue_that_nobody_works_does_not_hold_up_another_queue_of_the_same_key(
    world: World,
) -> None:
    await world.limit("A", 1)
    await world.enqueue("running", "A", queue="west")
    assert await world.claim(5, queues=["west"]) == ["running"]
    await world.fill(3, "A", queue="deserted", prefix="d")
    await world.fill(2, "A", queue="west", prefix="w")
    for waiter in ("w1", "w2"):
        await world.end(world.starts[-1])
        assert await world.claim(5, queues=["west"]) == [waiter]


async def test_the_same_key_text_in_two_tenants_is_two_keys(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("a1", "A=42", tenant="acme")
    await world.enqueue("b1", "A=42", tenant="bolt")
    await world.enqueue("n1", "A=42")
    await world.enqueue("a2", "A=42", tenant="acme")
    assert await world.claim() == ["a1", "b1", "n1"]
    assert await world.held("A=42", "acme") == ["a1"]


async def test_a_shared_key_is_one_key_for_all_tenants(world: World) -> None:
    await world.limit("A", 1, shared=True)
    await world.enqueue("a1", "A=42", tenant="acme")
    await world.enqueue("b1", "A=42", tenant="bolt")
    assert await world.claim() == ["a1"]
    await world.end("a1")
    assert await world.claim() == ["b1"]


async def test_a_slot_that_comes_back_goes_to_the_next_waiter_in_the_same_exchange(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A")
    await world.claim()
    answer = await world.exchange(Succeeded("j1", 1), want=5)
    assert [attempt.job for attempt in answer.attempts] == ["j2"]
    answer = await world.exchange(Failed("j2", 1, "boom"), want=5)
    assert [attempt.job for attempt in answer.attempts] == ["j3"]


async def test_a_job_without_limits_never_waits(world: World) -> None:
    await world.fill(50)
    assert len(await world.claim(50)) == 50
    assert (await world.snapshot()).holders == {}


async def test_an_idle_key_of_max_one_makes_one_ready_job_of_many_newcomers(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(20, "A")
    states = list((await world.unfinished()).values())
    assert states.count("ready") == 1
    assert states.count("waiting") == 19
