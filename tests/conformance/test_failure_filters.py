"""Jobs are found by why they failed and by when they ended."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.contract import Filter
from headgate.job import JobState
from tests.support.world import World

S = JobState


async def found(world: World, **wanted: Any) -> list[str]:
    """What matches, newest first, by `find` and `count` alike."""
    filter = Filter(**wanted)
    ids = [job.id for job in await world.engine.find(filter)]
    assert await world.engine.count(filter) == len(ids)
    return ids


async def fail(world: World, **errors: str) -> None:
    """Jobs that fail with these errors, one second after the other."""
    for id, error in errors.items():
        await world.enqueue(id)
        assert await world.claim() == [id]
        await world.fail(id, error=error)
        world.move(1)


async def test_an_error_is_found_by_any_part_of_its_first_line(world: World) -> None:
    await fail(
        world, a="ValueError: no such account\nTraceback: in send", b="KeyError: 'account'", c="TimeoutError"
    )
    assert await found(world, error="account") == ["b", "a"]
    assert await found(world, error="ValueError: no such account") == ["a"]
    assert await found(world, error="Error") == ["c", "b", "a"]
    assert await found(world, error="r") == ["c", "b", "a"]


async def test_what_stands_behind_the_first_line_is_not_looked_at(world: World) -> None:
    await fail(world, a="ValueError: x\nTraceback: in send", b="Traceback\nlost")
    assert await found(world, error="Traceback") == ["b"]
    assert await found(world, error="x\nTrace") == []
    assert await found(world, error="\n") == []


async def test_upper_and_lower_case_differ(world: World) -> None:
    await fail(world, a="Boom", b="boom", c="ÄÖ", d="äö")
    assert await found(world, error="boom") == ["b"]
    assert await found(world, error="Ä") == ["c"]


@pytest.mark.parametrize("text", ["%", "_", "*", "?", "[a-z]", ".", "^b", "\\", "'", '"', "🚪", "%s_"])
async def test_characters_of_patterns_stand_for_themselves(world: World, text: str) -> None:
    await fail(world, plain="boom", other=f"before {text} behind\nmore")
    assert await found(world, error=text) == ["other"]


async def test_jobs_without_an_error_never_match(world: World) -> None:
    await fail(world, failed="boom")
    await world.enqueue("ends")
    await world.claim()
    await world.end("ends")
    await world.enqueue("ready")
    await world.enqueue("cancelled")
    await world.cancel("cancelled")
    assert await found(world, error="") == ["failed"]


async def test_a_job_that_will_be_tried_again_is_found_by_its_last_error(world: World) -> None:
    await world.enqueue("j")
    await world.claim()
    await world.fail("j", retry=9, error="boom")
    assert await found(world, error="boom") == ["j"]
    assert await found(world, error="boom", states=(S.FAILED,)) == []
    await world.later(9)
    await world.claim()
    assert await found(world, error="boom") == []


async def test_ended_jobs_are_found_by_when_they_ended(world: World) -> None:
    await fail(world, a="boom", b="boom", c="boom")
    assert await found(world, ended_since=world.at(1)) == ["c", "b"]
    assert await found(world, ended_until=world.at(1)) == ["a"]
    assert await found(world, ended_since=world.at(0), ended_until=world.at(2)) == ["b", "a"]
    assert await found(world, ended_since=world.at(3)) == []


async def test_jobs_that_have_not_ended_never_match(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("runs", "A")
    await world.claim()
    await world.enqueue("waits", "A")
    await world.enqueue("later", delay=9)
    await world.enqueue("ready")
    await world.enqueue("restarted")
    await world.cancel("restarted")
    await world.restart("restarted")
    assert await found(world, ended_since=0) == []
    assert await found(world, ended_until=world.at(99)) == []


@pytest.mark.parametrize("how", ["succeeds", "fails", "is cancelled"])
async def test_every_end_counts(world: World, how: str) -> None:
    await world.enqueue("j")
    if how == "is cancelled":
        await world.cancel("j")
    else:
        await world.claim()
        await (world.end("j") if how == "succeeds" else world.fail("j"))
    assert await found(world, ended_since=world.now, ended_until=world.now + 1) == ["j"]


async def test_all_parts_of_a_filter_must_match(world: World) -> None:
    await fail(world, a="boom", b="bang", c="boom")
    assert await found(world, error="boom", ended_since=world.at(1), states=(S.FAILED,), task="t") == ["c"]
    assert await found(world, error="boom", ended_since=world.at(1), states=(S.CANCELLED,)) == []
    assert await found(world, error="boom", queue="elsewhere") == []
    assert await found(world, error="boom", ids=("a", "b")) == ["a"]
    assert await found(world, ended_since=world.at(1), ids=("a", "b")) == ["b"]


async def test_pages_go_on_behind_the_last(world: World) -> None:
    await fail(world, **{f"j{number}": "boom" if number % 2 else "bang" for number in range(9)})
    filter = Filter(error="boom", ended_since=world.at(0))
    pages: list[list[str]] = []
    after = None
    while page := await world.engine.find(filter, limit=2, after=after):
        pages.append([job.id for job in page])
        after = page[-1].id
    assert pages == [["j7", "j5"], ["j3", "j1"]]
