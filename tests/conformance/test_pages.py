"""Pages of jobs that are bounded by what is looked at: together they hold what matches, once, in order."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.contract import Filter
from headgate.job import JobState
from tests.support.world import World

S = JobState


async def pages(world: World, limit: int = 100, looks: int = 4, **wanted: Any) -> list[list[str]]:
    """Page after page, to the end."""
    found: list[list[str]] = []
    after: str | None = None
    while True:
        page = await world.engine.find_page(Filter(**wanted), limit=limit, after=after, looks=looks)
        found.append([job.id for job in page.jobs])
        if page.rest is None:
            return found
        assert page.rest != after, "a page that goes nowhere"
        after = page.rest


async def a_bit_of_everything(world: World) -> None:
    """Two queues, a limit, jobs in every state."""
    await world.limit("k", 1)
    await world.worker("w")
    for number in range(24):
        await world.enqueue(f"e{number:02}", queue="ab"[number % 2], task="t")
    for _ in range(12):
        (id,) = await world.claim(1)
        await (world.fail(id, error=f"KeyError: {id}") if int(id[1:]) % 3 else world.end(id))
    for number in range(6):
        await world.enqueue(f"w{number}", "k=1", queue="c")
    await world.enqueue("later", delay=60)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"queue": "a"},
        {"queue": "none"},
        {"task": "t", "states": (S.FAILED,)},
        {"queue": "b", "states": (S.SUCCEEDED, S.READY)},
        {"states": (S.SCHEDULED, S.WAITING)},
        {"error": "KeyError"},
        {"ended_since": 0},
        {"ended_since": 0, "queue": "a"},
        {"waiting_on": "k=1"},
        {"waiting_on": "k", "queue": "c"},
        {"ids": ("e03", "w1", "none")},
        {"states": ()},
    ],
    ids=str,
)
async def test_pages_hold_what_matches_once_and_in_order(world: World, wanted: dict[str, Any]) -> None:
    await a_bit_of_everything(world)
    all = [job.id for job in await world.engine.find(Filter(**wanted))]
    for limit in (100, 3):
        found = await pages(world, limit, **wanted)
        assert [id for page in found for id in page] == all
        assert max(map(len, found)) <= limit


async def test_a_page_whose_last_job_has_gone_is_followed_by_the_next(world: World) -> None:
    await a_bit_of_everything(world)
    page = await world.engine.find_page(Filter(queue="a"), limit=3)
    assert page.rest == page.jobs[-1].id
    later = await world.engine.find_page(Filter(queue="a"), limit=100, after=page.rest)
    assert page.jobs + later.jobs == tuple(await world.engine.find(Filter(queue="a")))
