"""Headers travel with a job, whatever becomes of it, and no store reads them."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, ImportedJob, NewArguments
from headgate.job import PastAttempt
from tests.support.world import START, World

HEADERS = '{"traceparent":"00-ab-01","größe":"\\u0000 🚪"}'


async def headers(world: World, id: str = "j") -> str | None:
    """Those of a stored job."""
    return (await world.get(id)).headers


async def claimed(world: World) -> str | None:
    """Those of the one attempt that a worker gets."""
    (attempt,) = (await world.exchange(want=1)).attempts
    return attempt.headers


async def test_a_job_shows_its_headers_and_so_does_its_attempt(world: World) -> None:
    await world.enqueue("j", headers=HEADERS)
    assert await headers(world) == HEADERS
    assert [job.headers for job in await world.engine.find(Filter())] == [HEADERS]
    facts = await world.engine.explain("j", now=world.now)
    assert facts is not None
    assert facts.job.headers == HEADERS
    assert await claimed(world) == HEADERS


async def test_a_job_without_headers_has_none(world: World) -> None:
    await world.enqueue("j")
    assert await headers(world) is None
    assert await claimed(world) is None


async def test_headers_are_the_same_in_every_attempt(world: World) -> None:
    await world.enqueue("j", headers=HEADERS)
    assert await claimed(world) == HEADERS
    await world.fail("j", retry=1)
    assert await headers(world) == HEADERS
    await world.later(1)
    assert await claimed(world) == HEADERS
    await world.release("j")
    assert await claimed(world) == HEADERS
    await world.lose()
    assert await claimed(world) == HEADERS
    await world.end("j")
    assert await headers(world) == HEADERS


async def test_a_job_that_waits_and_is_handed_a_slot_keeps_its_headers(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    assert await world.claim() == ["first"]
    await world.enqueue("j", "A", headers=HEADERS)
    assert await headers(world) == HEADERS
    await world.end("first")
    assert await claimed(world) == HEADERS


@pytest.mark.parametrize("arguments", [None, NewArguments('{"a":2}')])
async def test_a_restarted_job_keeps_its_headers(world: World, arguments: NewArguments | None) -> None:
    await world.enqueue("j", headers=HEADERS)
    await world.cancel("j")
    await world.engine.restart(["j"], arguments=arguments, now=world.now)
    assert await headers(world) == HEADERS
    assert await claimed(world) == HEADERS


async def test_imported_jobs_bring_their_headers_and_keep_the_first(world: World) -> None:
    failed = PastAttempt(1, "failed", START - 9 * SECOND, START - 8 * SECOND, "elsewhere", "boom")
    again = PastAttempt(2, "failed", START - 7 * SECOND, START - 6 * SECOND, "elsewhere", "boom")
    await world.take_over(ImportedJob(world.job("j", headers=HEADERS), (failed,)))
    assert await headers(world) == HEADERS
    await world.take_over(ImportedJob(world.job("j", headers="{}"), (failed, again)))
    assert (await world.get("j")).attempt == 2
    assert await headers(world) == HEADERS


async def test_a_periodic_job_brings_its_headers(world: World) -> None:
    assert await world.engine.tick(
        "nightly", None, world.now, [world.job("j", headers=HEADERS)], now=world.now
    )
    assert await headers(world) == HEADERS
    assert await claimed(world) == HEADERS
