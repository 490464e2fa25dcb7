"""What a server's functions keep from one call to the next is believed only as far as the store says the same."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.engine.redis import RedisEngine
from headgate.errors import EngineError
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_faults import broken

USE = (Use(Key("A", "1").ident),)


async def one_runs_one_waits(engine: RedisEngine) -> int:
    """Two jobs of one key; the attempt number of the one that runs."""
    jobs = [NewJob(id, "t", uses=USE) for id in ("first", "second")]
    await engine.enqueue(jobs, limits=[Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    (attempt,) = (await engine.exchange("w", [], 5)).attempts
    return attempt.number


async def test_a_call_that_breaks_leaves_nothing_behind_for_the_next(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    number = await one_runs_one_waits(engine)
    with broken("start"), pytest.raises(EngineError, match="broken on purpose"):
        await engine.exchange("w", [Succeeded("first", number, '"lost"')], 5)
    assert await engine.states(["first", "second"]) == [JobState.RUNNING, JobState.WAITING]
    answer = await engine.exchange("w", [Succeeded("first", number, '"kept"')], 5)
    assert [attempt.job for attempt in answer.attempts] == ["second"]
    (first,) = await engine.get(["first"])
    assert first is not None
    assert (first.state, first.result) == (JobState.SUCCEEDED, '"kept"')


async def test_a_job_is_what_the_store_has_of_it(start_server: StartServer, open_engine: OpenEngine) -> None:
    """As after a fail-over to a server that had not heard of the claim."""
    server = start_server(spoiled=True)
    engine = await open_engine(server.url, check=False)
    with server.client() as client:
        await engine.enqueue([NewJob("j", "t")])
        before: Any = client.get("{headgate:p0}:job:j")
        await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
        (attempt,) = (await engine.exchange("w", [], 1)).attempts
        assert await engine.states(["j"]) == [JobState.RUNNING]
        client.set("{headgate:p0}:job:j", before)
        assert await engine.states(["j"]) == [JobState.READY]
        answer = await engine.exchange("w", [Succeeded("j", attempt.number)], 0)
        assert answer.refused == (("j", attempt.number),)
    await engine.close()


async def test_partitions_on_one_server_keep_apart_what_has_the_same_name(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """Two stores whose jobs, keys and queues have the same names."""
    server = start_server()
    here, there = [await open_engine(f"{server.url}?prefix={name}") for name in ("here", "there")]
    number = await one_runs_one_waits(here)
    await one_runs_one_waits(there)
    answer = await here.exchange("w", [Succeeded("first", number)], 5)
    assert [attempt.job for attempt in answer.attempts] == ["second"]
    assert await here.states(["first", "second"]) == [JobState.SUCCEEDED, JobState.RUNNING]
    assert await there.states(["first", "second"]) == [JobState.RUNNING, JobState.WAITING]


async def test_more_keys_than_are_kept_work_as_well(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 1)])
    ids = [f"{turn}-{key}" for turn in range(2) for key in range(1200)]
    uses = {id: (Use(Key("A", id.split("-")[1]).ident),) for id in ids}
    await engine.enqueue([NewJob(id, "t", uses=uses[id]) for id in ids])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    done: set[str] = set()
    reports: list[Succeeded] = []
    while attempts := (await engine.exchange("w", reports, 400)).attempts:
        reports = [Succeeded(attempt.job, attempt.number) for attempt in attempts]
        done.update(attempt.job for attempt in attempts)
    assert done == set(ids)
