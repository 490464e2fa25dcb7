"""Unique keys and given ids: one unfinished job per key, one job per id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headgate.engine.contract import Engine, Enqueued
from headgate.errors import JobExists
from headgate.job import JobState
from tests.support.world import World

S = JobState


async def test_concurrent_enqueues_of_one_id_let_one_win_and_change_nothing_else(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    await world.limit("A", 1)
    engines = [await another_engine() for _ in range(8)]
    world.jobs += 8
    answers = await asyncio.gather(
        *(
            engine.enqueue([world.job("same", "A", args=str(number))], now=world.now)
            for number, engine in enumerate(engines)
        ),
        return_exceptions=True,
    )
    winners = [number for number, answer in enumerate(answers) if isinstance(answer, list)]
    refused = [answer for answer in answers if isinstance(answer, JobExists)]
    assert len(winners) == 1
    assert len(refused) == 7
    assert (await world.get("same")).args == str(winners[0])
    assert await world.claim() == ["same"]


@pytest.mark.parametrize("state", list(S))
async def test_an_id_that_exists_is_refused_in_every_state(world: World, state: JobState) -> None:
    await _put(world, state)
    before = await world.get("x")
    with pytest.raises(JobExists, match="'x'") as raised:
        await world.enqueue_all(world.job("y"), world.job("x", args="other"))
    assert raised.value.job_id == "x"
    assert await world.get("x") == before
    assert await world.state("y") is None, "all or none"


async def test_an_id_given_twice_in_one_batch_is_refused(world: World) -> None:
    with pytest.raises(JobExists, match="'x'"):
        await world.enqueue_all(world.job("x"), world.job("x"))
    assert await world.unfinished() == {}


@pytest.mark.parametrize("order", [("x", "y", "z"), ("y", "x", "z"), ("y", "z", "x")])
async def test_an_id_that_exists_is_refused_also_where_its_own_unique_key_stands_for_others(
    world: World, order: tuple[str, ...]
) -> None:
    await world.enqueue("x", unique="u")
    with pytest.raises(JobExists, match="'x'"):
        await world.enqueue_all(*(world.job(id, unique="u") for id in order))
    assert await world.states("x", "y", "z") == ["ready", "None", "None"]


async def test_a_deleted_id_can_be_used_again(world: World) -> None:
    await world.enqueue("x")
    await world.cancel("x")
    await world.delete("x")
    assert await world.enqueue("x") is S.READY
    assert (await world.get("x")).attempt == 0


@pytest.mark.parametrize("state", [S.SCHEDULED, S.READY, S.WAITING, S.RUNNING])
async def test_a_unique_key_of_an_unfinished_job_returns_that_job(world: World, state: JobState) -> None:
    await _put(world, state, unique="u")
    assert await world.enqueue_all(world.job("y", unique="u")) == [Enqueued("x", state, False)]
    assert await world.state("y") is None


@pytest.mark.parametrize("state", [S.SUCCEEDED, S.FAILED, S.CANCELLED])
async def test_a_unique_key_of_an_ended_job_is_free_again(world: World, state: JobState) -> None:
    await _put(world, state, unique="u")
    assert await world.enqueue_all(world.job("y", unique="u")) == [Enqueued("y", S.READY, True)]


async def test_a_unique_job_that_is_waiting_is_returned_again_and_again(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.enqueue("first", "A", unique="u")
    for number in range(3):
        (again,) = await world.enqueue_all(world.job(f"again{number}", "A", unique="u"))
        assert (again.id, again.created) == ("first", False)
    await world.end("holder")
    assert await world.run_all() == ["first"]


@pytest.mark.parametrize("state", [S.SCHEDULED, S.READY, S.WAITING, S.RUNNING])
async def test_a_unique_conflict_that_raises_names_the_job_and_stores_nothing(
    world: World, state: JobState
) -> None:
    await _put(world, state, unique="u")
    with pytest.raises(JobExists) as raised:
        await world.enqueue_all(world.job("before"), world.job("y", unique="u", on_conflict="raise"))
    assert raised.value.job_id == "x"
    assert await world.states("y", "before") == ["None", "None"]


@pytest.mark.parametrize("state", [S.SCHEDULED, S.READY, S.WAITING])
async def test_a_unique_conflict_that_replaces_cancels_a_pending_job(world: World, state: JobState) -> None:
    await _put(world, state, unique="u")
    replaced = await world.enqueue_all(world.job("y", unique="u", on_conflict="replace"))
    assert replaced == [Enqueued("y", S.READY, True)]
    assert await world.state("x") is S.CANCELLED
    assert await world.enqueue_all(world.job("z", unique="u")) == [Enqueued("y", S.READY, False)]


async def test_a_unique_conflict_that_would_replace_a_running_job_raises(world: World) -> None:
    await _put(world, S.RUNNING, unique="u")
    with pytest.raises(JobExists) as raised:
        await world.enqueue_all(world.job("y", unique="u", on_conflict="replace"))
    assert raised.value.job_id == "x"
    assert await world.states("x", "y") == ["running", "None"]


async def test_replacing_an_offered_job_passes_its_offer_on(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A", unique="u")
    await world.enqueue("j2", "A")
    await world.enqueue("j3", unique="u", on_conflict="replace")
    assert sorted(await world.claim()) == ["j2", "j3"]


async def test_the_same_unique_key_twice_in_one_batch_makes_one_job(world: World) -> None:
    first, second = await world.enqueue_all(world.job("x", unique="u"), world.job("y", unique="u"))
    assert (first, second) == (Enqueued("x", S.READY, True), Enqueued("x", S.READY, False))


async def test_jobs_that_replace_each_other_in_one_batch_are_reported_as_they_came(world: World) -> None:
    await world.limit("A", 1)
    answers = await world.enqueue_all(
        world.job("x", "A", unique="u"),
        world.job("between", "A"),
        world.job("y", "A", unique="u", on_conflict="replace"),
        world.job("z", unique="u"),
    )
    assert [(each.id, each.state, each.created) for each in answers] == [
        ("x", S.READY, True), ("between", S.WAITING, True), ("y", S.WAITING, True), ("y", S.WAITING, False),
    ]  # fmt: skip
    assert await world.states("x", "between", "y") == ["cancelled", "ready", "waiting"]


async def test_the_same_unique_key_in_two_tenants_is_two_keys(world: World) -> None:
    await world.enqueue("a", unique="u", tenant="acme")
    await world.enqueue("b", unique="u", tenant="bolt")
    await world.enqueue("n", unique="u")
    assert sorted(await world.claim()) == ["a", "b", "n"]


async def test_a_retrying_job_keeps_its_unique_key(world: World) -> None:
    await world.enqueue("x", unique="u")
    await world.claim()
    await world.fail("x", retry=100)
    assert await world.enqueue_all(world.job("y", unique="u")) == [Enqueued("x", S.SCHEDULED, False)]


async def test_concurrent_enqueues_of_one_unique_key_make_one_job(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    engines = [await another_engine() for _ in range(8)]
    world.jobs += 8
    answers = await asyncio.gather(
        *(
            engine.enqueue([world.job(f"j{number}", unique="u")], now=world.now)
            for number, engine in enumerate(engines)
        )
    )
    assert sum(answer[0].created for answer in answers) == 1
    assert len({answer[0].id for answer in answers}) == 1


async def test_a_restart_does_not_make_a_second_unfinished_job_of_one_unique_key(world: World) -> None:
    await world.enqueue("x", unique="u")
    await world.cancel("x")
    await world.enqueue("y", unique="u")
    (verdict,) = await world.restart("x")
    assert not verdict.done
    assert await world.state("x") is S.CANCELLED
    await world.cancel("y")
    (verdict,) = await world.restart("x")
    assert verdict.done
    assert await world.enqueue_all(world.job("z", unique="u")) == [Enqueued("x", S.READY, False)]


async def test_restarting_two_ended_jobs_of_one_unique_key_restarts_the_first(world: World) -> None:
    for id in "xy":
        await world.enqueue(id, unique="u")
        await world.cancel(id)
    assert [verdict.done for verdict in await world.restart("x", "y")] == [True, False]


async def _put(world: World, state: JobState, **fields: str) -> None:
    await world.limit("K", 0)
    delay = 100 if state in (S.SCHEDULED, S.CANCELLED) else 0
    await world.enqueue("x", *(["K"] if state is S.WAITING else []), delay=delay, **fields)
    if state in (S.RUNNING, S.SUCCEEDED, S.FAILED):
        await world.claim()
    match state:
        case S.CANCELLED:
            await world.cancel("x")
        case S.SUCCEEDED:
            await world.end("x")
        case S.FAILED:
            await world.fail("x")
        case _:
            pass
    assert await world.state("x") is state
