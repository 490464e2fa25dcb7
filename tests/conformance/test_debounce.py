"""Debounce and throttle: unique jobs that are updated until they start, and keys that stay taken after a start."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.errors import JobExists
from headgate.job import JobState
from tests.support.world import World


def update(world: World, id: str, *needs: str, args: str = "{}", **fields: object):
    fields = {"unique": "u", "on_conflict": "update", "args": args, **fields}
    return world.job(id, *needs, **fields)  # pyright: ignore[reportArgumentType]


async def test_an_update_replaces_arguments_and_due_time(world: World) -> None:
    await world.enqueue_all(update(world, "a", args='{"n":1}', delay=5))
    await world.later(3)
    (answer,) = await world.enqueue_all(update(world, "b", args='{"n":2}', delay=5))
    assert (answer.id, answer.created) == ("a", False)
    await world.later(2)
    assert await world.claim() == []
    await world.later(3)
    assert await world.claim() == ["a"]
    assert (await world.get("a")).args == '{"n":2}'
    assert await world.state("b") is None


async def test_updates_cannot_put_a_start_off_for_ever(world: World) -> None:
    await world.enqueue_all(update(world, "a", delay=5, at_most=12 * SECOND))
    for number in range(3):
        await world.later(4)
        await world.enqueue_all(update(world, f"b{number}", delay=5, at_most=12 * SECOND))
    assert await world.claim() == ["a"]


async def test_a_waiting_job_takes_over_keys_and_stands_in_their_lines(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A=1")
    await world.claim()
    await world.enqueue_all(update(world, "u", "A=1"))
    await world.met()
    assert await world.waiting_on("u") == "A=1"
    await world.enqueue_all(update(world, "v", "A=2"))
    assert await world.claim() == ["u"]
    assert await world.held("A=2") == ["u"]


async def test_a_job_that_has_started_is_left_alone_and_another_one_comes(world: World) -> None:
    await world.enqueue_all(update(world, "a"))
    await world.claim()
    (answer,) = await world.enqueue_all(update(world, "b", delay=5))
    assert (answer.id, answer.created) == ("b", True)
    (answer,) = await world.enqueue_all(update(world, "c", delay=5))
    assert (answer.id, answer.created) == ("b", False)
    await world.fail("a", retry=1)
    await world.later(5)
    assert sorted(await world.claim()) == ["a", "b"]


async def test_updating_a_job_of_another_task_or_one_that_is_being_retried_is_refused(world: World) -> None:
    await world.enqueue("a", unique="u")
    with pytest.raises(JobExists, match="is of task 't'"):
        await world.enqueue_all(update(world, "b", task="other"))
    await world.claim()
    with pytest.raises(JobExists, match="is running"):
        await world.enqueue_all(update(world, "b"))
    await world.fail("a", retry=5)
    with pytest.raises(JobExists, match="has started already"):
        await world.enqueue_all(update(world, "b"))


async def test_a_unique_key_stays_taken_for_a_time_after_the_start(world: World) -> None:
    await world.enqueue("a", unique="u", unique_for=60 * SECOND)
    await world.later(30)
    await world.claim()
    await world.end("a")
    await world.later(59)
    (answer,) = await world.enqueue_all(world.job("b", unique="u", unique_for=60 * SECOND))
    assert (answer.id, answer.created, answer.state) == ("a", False, JobState.SUCCEEDED)
    with pytest.raises(JobExists):
        await world.enqueue("b", unique="u", on_conflict="raise")
    await world.later(1)
    (answer,) = await world.enqueue_all(world.job("b", unique="u", unique_for=60 * SECOND))
    assert (answer.id, answer.created) == ("b", True)


async def test_a_job_is_kept_as_long_as_its_key(world: World) -> None:
    await world.enqueue("a", unique="u", unique_for=3600 * SECOND, retention=0)
    await world.claim()
    await world.end("a")
    await world.later(3599)
    assert await world.state("a") is JobState.SUCCEEDED
    (answer,) = await world.enqueue_all(world.job("b", unique="u"))
    assert answer.id == "a"
    await world.later(1)
    assert await world.state("a") is None


async def test_one_that_runs_longer_than_its_time_keeps_the_key_until_it_ends(world: World) -> None:
    await world.enqueue("a", unique="u", unique_for=1 * SECOND)
    await world.claim()
    await world.later(10)
    (answer,) = await world.enqueue_all(world.job("b", unique="u"))
    assert answer.id == "a"
    await world.end("a")
    (answer,) = await world.enqueue_all(world.job("b", unique="u"))
    assert answer.id == "b"


async def test_the_key_is_free_when_the_job_is_deleted(world: World) -> None:
    await world.enqueue("a", unique="u", unique_for=3600 * SECOND)
    await world.claim()
    await world.end("a")
    await world.delete("a")
    (answer,) = await world.enqueue_all(world.job("b", unique="u"))
    assert answer.created


async def test_a_retry_does_not_keep_the_key_for_longer(world: World) -> None:
    await world.enqueue("a", unique="u", unique_for=60 * SECOND)
    await world.claim()
    await world.fail("a", retry=10)
    await world.later(10)
    assert await world.claim() == ["a"]
    await world.end("a")
    await world.later(50)
    (answer,) = await world.enqueue_all(world.job("b", unique="u", unique_for=60 * SECOND))
    assert (answer.id, answer.created) == ("b", True)


async def test_an_update_belongs_to_the_share_of_its_arguments(world: World) -> None:
    await world.enqueue_all(update(world, "a", share="x"))
    await world.enqueue_all(update(world, "b", share="y"))
    assert (await world.get("a")).share == "y"
    await world.enqueue_all(update(world, "c", share="z", queue="another"))
    assert (await world.get("a")).share == "y", "the shares of another queue are none of its own"
    await world.fill(4, prefix="x", share="x")
    await world.fill(4, prefix="y", share="y")
    await world.met()
    tags = {view.id: view.tag for view in (await world.snapshot()).jobs}
    assert tags["a"] == tags["x1"], "it was the first of its share, as x1 is"
    assert await world.claim(4) == ["a", "x1", "x2", "y1"]
