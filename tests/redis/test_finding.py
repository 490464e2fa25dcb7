"""Pages of jobs on a store that has very many: found by their state, or passed over, never one by one."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from headgate.engine.contract import Engine, Failed, Filter, Limit, Report, Stopped, Succeeded, Worker
from headgate.engine.memory import MemoryEngine
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.catalogue import VERSION
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_servers import RedisProcess
from tests.support.world import START

BASE = "{headgate:p0}:"
LISTS = ("failed", "cancelled", "blocks:scheduled", "blocks:ready", "blocks:waiting")
SLICE = 1024
"""Jobs that one script looks at (find.lua), or puts into the lists by state (sweep.lua)."""


async def fill(engine: Engine) -> None:
    """More waiting and more succeeded jobs than one script looks at, a few others between them."""
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    await engine.register(Worker("w", frozenset({"t", "u"}), concurrency=SLICE, lease=10**15), now=START)
    number = itertools.count()

    def jobs(count: int, **given: object) -> list[NewJob]:
        return [
            NewJob(f"j{n:04}", "tu"[n % 2], queue=f"q{n % 3}", tenant="acme" if n % 5 == 0 else "", **given)  # pyright: ignore[reportArgumentType]
            for n in itertools.islice(number, count)
        ]

    uses = (Use(Key("A").ident),)
    for waiting, others in ((SLICE + 100, 300), (50, SLICE + 200), (SLICE + 300, 0)):
        await engine.enqueue(jobs(waiting, uses=uses), now=START)
        await engine.enqueue(jobs(others, retention=10**15), now=START)
        attempts = (await engine.exchange("w", [], others, now=START)).attempts
        reports: list[Report] = [
            Failed(each.job, 1, f"ValueError: {each.job[-1]}")
            if each.job.endswith("7")
            else Stopped(each.job, 1)
            if each.job.endswith("99")
            else Succeeded(each.job, 1)
            for each in attempts
        ]
        await engine.exchange("w", reports, 0, now=START)
    await engine.enqueue(jobs(20, delay=10**9), now=START)
    await engine.enqueue(jobs(20), now=START)
    await engine.exchange("w", [], 5, now=START)


FILTERS = [
    Filter(),
    *(Filter(states=(state,)) for state in JobState),
    Filter(states=(JobState.FAILED, JobState.CANCELLED)),
    Filter(states=(JobState.RUNNING, JobState.FAILED)),
    Filter(states=(JobState.SUCCEEDED, JobState.RUNNING)),
    Filter(states=(JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)),
    Filter(states=(JobState.WAITING,), queue="q1", task="u", tenant="acme"),
    Filter(states=(JobState.SUCCEEDED,), queue="q1", task="u"),
    Filter(queue="q2", tenant=""),
    Filter(task="nothing"),
    Filter(waiting_on="A"),
    Filter(waiting_on="A", states=(JobState.READY,)),
    Filter(error="ValueError: 7"),
    Filter(error="7", states=(JobState.SUCCEEDED,)),
    Filter(ended_since=START, states=(JobState.CANCELLED,)),
    Filter(ended_until=START + 1, task="t"),
]


async def pages(engine: Engine, wanted: Filter, size: int) -> list[str]:
    """The ids of all pages, one after the other."""
    found: list[str] = []
    while page := await engine.find(wanted, limit=size, after=found[-1] if found else None):
        found += [job.id for job in page]
    return found


async def same(engine: RedisEngine, expected: list[list[str]]) -> None:
    """What is found and counted is what it should be."""
    for wanted, ids in zip(FILTERS, expected, strict=True):
        assert await pages(engine, wanted, 900) == ids, wanted
        assert [job.id for job in await engine.find(wanted, limit=7)] == ids[:7], wanted
        assert await engine.count(wanted) == len(ids), wanted


@pytest.fixture(scope="module")
def expected() -> list[list[str]]:
    """What a look at every job finds."""

    async def find() -> list[list[str]]:
        memory = MemoryEngine()
        await fill(memory)
        return [[job.id for job in await memory.find(wanted, limit=10_000)] for wanted in FILTERS]

    return asyncio.run(find())


async def test_what_is_found_by_state_is_what_a_look_at_every_job_finds(
    start_server: StartServer, open_engine: OpenEngine, expected: list[list[str]]
) -> None:
    engine = await open_engine(start_server().url)
    await fill(engine)
    await same(engine, expected)


def make_old(server: RedisProcess) -> None:
    """Version 3 had no lists by state."""
    with server.client() as client:
        client.delete(*(BASE + name for name in LISTS))
        client.hset(BASE + "meta", "version", 3)


async def test_data_of_version_3_is_put_into_lists_by_sweeps_and_found_meanwhile(
    start_server: StartServer, open_engine: OpenEngine, expected: list[list[str]]
) -> None:
    server = start_server()
    before = await open_engine(server.url, check=False)
    await fill(before)
    await before.close()
    make_old(server)
    engine = await open_engine(server.url)
    assert await engine.version() == VERSION
    await same(engine, expected)
    sweeps = 0
    while (await engine.sweep(now=START)).more:
        sweeps += 1
        if sweeps == 2:
            await same(engine, expected)
    assert sweeps == 5, "whole blocks"
    await same(engine, expected)
    with server.client() as client:
        assert client.hget(BASE + "meta", "unindexed") is None


async def test_jobs_of_older_data_that_change_meanwhile_stand_in_the_right_list(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    before = await open_engine(server.url, check=False)
    await before.enqueue([NewJob(id, "t") for id in ("first", "second", "third")], now=START)
    await before.cancel(["second"], now=START)
    await before.close()
    make_old(server)
    engine = await open_engine(server.url)
    await engine.cancel(["first"], now=START)
    await engine.delete(["second"], now=START)
    await engine.enqueue([NewJob("new", "t", delay=1), NewJob("gone", "t", retention=0)], now=START)
    await engine.cancel(["gone"], now=START)
    cancelled, ready = (Filter(states=(state,)) for state in (JobState.CANCELLED, JobState.READY))
    assert [job.id for job in await engine.find(cancelled)] == ["gone", "first"]
    await engine.sweep(now=START + 1)
    assert [job.id for job in await engine.find(cancelled)] == ["first"]
    assert [job.id for job in await engine.find(ready)] == ["new", "third"]
