"""A full disk: a clear error, nothing stored by half, and work goes on once there is room."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from headgate.engine.contract import Filter, Limit, Succeeded, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.errors import ConfigError, EngineUnavailable
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import writer
from tests.support.child import Child

A = (Use(Key("A").ident),)
LARGE = '"' + "x" * 20_000 + '"'


def job(id: str, args: str = "[]") -> NewJob:
    return NewJob(id=id, task="t", args=args, uses=A)


def fill_up(engine: SqliteEngine) -> None:
    """No page more than there are."""
    connection = writer(engine)
    connection.pragma("max_page_count", connection.pragma("page_count"))


def make_room(engine: SqliteEngine) -> None:
    writer(engine).pragma("max_page_count", 1_000_000)


async def test_jobs_that_do_not_fit_are_refused_whole(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job("first")])
    fill_up(engine)
    with pytest.raises(EngineUnavailable, match="full; nothing was stored"):
        await engine.enqueue([job("small"), *(job(f"large{n}", LARGE) for n in range(20))])
    assert await engine.count(Filter()) == 1
    make_room(engine)
    await engine.enqueue([job("small"), *(job(f"large{n}", LARGE) for n in range(20))])
    assert await engine.count(Filter()) == 22


async def test_in_a_group_only_those_that_do_not_fit_are_refused(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job("first")])
    fill_up(engine)
    results = await asyncio.gather(
        *(engine.enqueue([job(f"j{n}", LARGE if n % 2 else "[]"), job(f"k{n}")]) for n in range(20)),
        return_exceptions=True,
    )
    make_room(engine)
    assert any(isinstance(result, EngineUnavailable) for result in results)
    for n, result in enumerate(results):
        assert isinstance(result, list | EngineUnavailable)
        state = JobState.WAITING if isinstance(result, list) else None
        assert await engine.states([f"j{n}", f"k{n}"]) == [state, state]


async def test_a_result_that_does_not_fit_leaves_the_attempt_running_and_can_be_sent_again(
    engine: SqliteEngine,
):
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job("j"), job("next")])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.exchange("w", [], 1)
    fill_up(engine)
    with pytest.raises(EngineUnavailable):
        await engine.exchange("w", [Succeeded("j", 1, '"' + "x" * 500_000 + '"')], 1)
    assert await engine.states(["j", "next"]) == [JobState.RUNNING, JobState.WAITING]
    make_room(engine)
    answer = await engine.exchange("w", [Succeeded("j", 1, '"' + "x" * 500_000 + '"')], 1)
    assert [attempt.job for attempt in answer.attempts] == ["next"]


async def test_a_limit_that_could_not_be_stored_is_not_in_force(engine: SqliteEngine):
    await engine.enqueue([NewJob(id="first", task="t")])
    fill_up(engine)
    with pytest.raises(EngineUnavailable):
        await engine.enqueue([job("large", LARGE)], limits=[Limit("A", "concurrency", 1)])
    make_room(engine)
    with pytest.raises(ConfigError):
        await engine.enqueue([job("j")])
    assert await engine.limits() == []


QUOTA = """
import resource

async def main():
    engine = SqliteEngine(sys.argv[1])
    stored = 0
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        await engine.open()
        while True:
            await engine.enqueue([NewJob(id=f"{stored}-{n}", task="t", args='"' + "x" * 5000 + '"') for n in range(10)])
            stored += 1
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        say(type(error).__name__, str(error), stored)
    await engine.enqueue([NewJob(id="after", task="t")])
    await engine.close()
    say("done")
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits")
@pytest.mark.parametrize("bytes", [100, 5_000, 60_000, 1_500_000])
async def test_a_disk_that_refuses_to_take_more_loses_nothing_that_was_acknowledged(
    path: Path, engine: SqliteEngine, bytes: int
):
    if bytes < 100_000:  # not even room for the tables
        await engine.close()
        path.unlink()  # noqa: ASYNC240
    with Child(QUOTA, path, bytes) as child:
        kind, message, stored = child.hear()
        assert kind == "EngineUnavailable"
        assert str(path) in message
        assert child.hear() == "done"
    assert (stored == 0) == (bytes < 100_000)
    assert await engine.count(Filter()) == stored * 10 + 1
