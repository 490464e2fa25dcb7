"""Retention: ended jobs are kept for their time and then deleted by the sweep."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import DAY
from headgate.job import JobState
from tests.support.world import World


@pytest.mark.parametrize(
    ("state", "days"), [(JobState.SUCCEEDED, 1), (JobState.FAILED, 14), (JobState.CANCELLED, 14)]
)
async def test_an_ended_job_is_kept_for_its_days_and_no_longer(
    world: World, state: JobState, days: int
) -> None:
    await world.worker("w", lease=1e8)
    await _end(world, "j1", state)
    seconds = days * DAY / SECOND
    assert (await world.later(seconds - 1)).expired == 0
    assert await world.state("j1") is state
    assert (await world.later(1)).expired == 1
    assert await world.state("j1") is None


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
async def test_a_job_may_have_a_retention_of_its_own(world: World, state: JobState) -> None:
    await _end(world, "j1", state, retention=10 * SECOND)
    await world.later(9)
    assert await world.state("j1") is state
    await world.later(1)
    assert await world.state("j1") is None


async def test_a_retention_of_nothing_deletes_with_the_next_sweep(world: World) -> None:
    await _end(world, "j1", JobState.SUCCEEDED, retention=0)
    await world.sweep()
    assert await world.state("j1") is None


async def test_a_restarted_job_is_not_deleted(world: World) -> None:
    await _end(world, "j1", JobState.FAILED, retention=10 * SECOND)
    await world.restart("j1")
    await world.later(1000)
    assert await world.state("j1") is JobState.READY


async def test_an_unfinished_job_is_never_deleted(world: World) -> None:
    await world.enqueue("j1", retention=0)
    await world.enqueue("j2", retention=0, delay=10**7)
    await world.later(10**6)
    assert await world.states("j1", "j2") == ["ready", "scheduled"]


async def test_many_old_jobs_are_deleted_a_bounded_number_at_a_time(world: World) -> None:
    ids = await world.fill(2500, retention=0)
    await world.cancel(*ids)
    first = await world.engine.sweep(now=world.now)
    assert first.more
    assert 0 < first.expired < 2500
    assert first.expired + (await world.sweep()).expired == 2500


async def _end(world: World, id: str, state: JobState, **fields: int) -> None:
    await world.enqueue(id, **fields)
    if state is JobState.CANCELLED:
        await world.cancel(id)
        return
    await world.claim()
    if state is JobState.SUCCEEDED:
        await world.end(id)
    else:
        await world.fail(id)
