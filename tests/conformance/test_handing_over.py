"""Slots that come back in an exchange go to those who wait, in the same step and in the order of a claim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headgate.engine.contract import Engine, Failed, Override, Succeeded
from headgate.job import JobState
from tests.support.world import World

Another = Callable[[], Awaitable[Engine]]


async def _hold_three(world: World) -> None:
    """A, B and C are held, and each is waited for; who waits on the last should start first."""
    for name in "ABC":
        await world.limit(name, 1)
        await world.enqueue(name.lower(), name)
    assert await world.claim() == ["a", "b", "c"]
    await world.enqueue("second a", "A", priority=50)
    await world.enqueue("second b", "B", priority=40)
    await world.enqueue("second c", "C", priority=30)


async def _end_three(world: World, want: int, **fields: object) -> list[str]:
    answer = await world.exchange(*(Succeeded(id, 1) for id in "abc"), want=want, **fields)  # type: ignore[arg-type]
    return [attempt.job for attempt in answer.attempts]


async def test_slots_that_come_back_together_are_handed_over_in_the_order_of_a_claim(world: World) -> None:
    await _hold_three(world)
    assert await _end_three(world, want=10) == ["second c", "second b", "second a"]
    assert [await world.held(name) for name in "ABC"] == [["second a"], ["second b"], ["second c"]]


async def test_who_is_offered_a_slot_beyond_what_a_worker_wants_stays_ready(world: World) -> None:
    await _hold_three(world)
    assert await _end_three(world, want=1) == ["second c"]
    assert await world.states("second a", "second b") == ["ready", "ready"]
    assert await world.claim() == ["second b", "second a"]


async def test_a_slot_is_not_handed_to_a_queue_that_the_worker_does_not_ask_for(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    assert await world.claim() == ["first"]
    await world.enqueue("elsewhere", "A", queue="elsewhere")
    answer = await world.exchange(Succeeded("first", 1), want=10, queues=["default"])
    assert answer.attempts == ()
    assert await world.state("elsewhere") == "ready"
    assert await world.claim() == ["elsewhere"]


async def test_a_slot_is_not_handed_to_a_job_of_a_task_that_the_worker_does_not_know(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    assert await world.claim() == ["first"]
    await world.enqueue("strange", "A", task="strange")
    answer = await world.exchange(Succeeded("first", 1), want=10)
    assert answer.attempts == ()
    assert answer.set_aside == ("strange",)


async def test_a_job_that_comes_first_and_needs_two_slots_gets_both_that_come_back(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("a", "A")
    await world.enqueue("b", "B")
    assert await world.claim() == ["a", "b"]
    await world.enqueue("one", "B", priority=50)
    await world.enqueue("both", "A", "B", priority=10)
    answer = await world.exchange(Succeeded("a", 1), Succeeded("b", 1), want=10)
    assert [attempt.job for attempt in answer.attempts] == ["both"]
    assert await world.state("one") == "waiting"


async def test_a_retry_that_is_due_at_once_stands_in_line_with_those_who_get_its_slot(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A", priority=10)
    assert await world.claim() == ["first"]
    await world.enqueue("second", "A", priority=50)
    answer = await world.exchange(Failed("first", 1, "boom", 0), want=10)
    (started,) = answer.attempts
    states = await world.states("first", "second")
    assert sorted(states) == ["running", "waiting"]
    assert await world.state(started.job) == "running"


async def test_a_rule_that_another_process_changes_counts_at_once(
    world: World, another_engine: Another
) -> None:
    await world.limit("A", 1)
    await world.fill(5, "A")
    other = await another_engine()
    assert await world.claim() == ["j1"]
    await other.override(Override("A", 2), now=world.now)
    assert await world.claim() == ["j2"]
    await other.override(Override("A", 0), now=world.now)
    answer = await world.exchange(Succeeded("j1", 1), Succeeded("j2", 1), want=10)
    assert answer.attempts == ()
    await other.clear_override("A", now=world.now)
    assert await world.claim() == ["j3"]


async def test_a_late_report_about_a_deleted_job_ends_no_other(world: World) -> None:
    await world.worker(lease=15)
    await world.enqueue("old")
    assert await world.claim() == ["old"]
    await world.later(20)
    await world.cancel("old")
    await world.delete("old")
    await world.worker()
    await world.enqueue("new")
    assert await world.claim() == ["new"]
    answer = await world.exchange(Succeeded("old", 1, '"late"'), want=0)
    assert answer.refused == (("old", 1),)
    assert await world.state("new") is JobState.RUNNING


async def test_all_slots_that_an_exchange_gives_back_count_for_what_it_claims(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 2)
    await world.enqueue("a", "A")
    await world.fill(2, "B", prefix="b")
    assert set(await world.claim()) == {"a", "b1", "b2"}
    await world.enqueue("both", "A", "B")
    answer = await world.exchange(
        Failed("b1", 1, "boom", 0), Failed("b2", 1, "boom", None), Succeeded("a", 1), want=10
    )
    assert {attempt.job for attempt in answer.attempts} == {"b1", "both"}
