"""Partitions on one server: each is a part with leases, numbers and wakes of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate import App, ConcurrencyLimit, ConfigError
from headgate.engine.contract import Settings, Worker
from headgate.engine.open import make_engine
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.calling import Calls
from headgate.engine.redis.partitions import home
from headgate.errors import EngineError, LeaseLost, StaleMessage
from headgate.job import JobState, NewJob
from headgate.testing import Clock
from tests.redis.conftest import OpenEngine, StartServer

PARTITIONS = 4


def tenants(partitions: int) -> list[str]:
    """One tenant of each partition, in their order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(home(f"t{number}", partitions), f"t{number}")
        number += 1
    return [found[partition] for partition in range(partitions)]


TENANTS = tenants(PARTITIONS)


@pytest.fixture
async def engine(start_server: StartServer, open_engine: OpenEngine) -> RedisEngine:
    """With a worker `w` that knows task `t` in every part."""
    engine = await open_engine(f"{start_server().url}?partitions={PARTITIONS}")
    for part in engine.parts():
        await part.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    return engine


async def test_each_partition_is_a_part_with_jobs_leases_and_numbers_of_its_own(engine: RedisEngine) -> None:
    await engine.enqueue([NewJob(tenant, "t", tenant=tenant) for tenant in TENANTS])
    for number, part in enumerate(engine.parts()):
        assert part.name == f"partition {number}"
        (attempt,) = (await part.exchange("w", [], 10, number=1)).attempts
        assert attempt.tenant == TENANTS[number]
        with pytest.raises(StaleMessage):
            await part.exchange("w", [], 10, number=1)
    first, second, *_ = engine.parts()
    assert (await first.report_lost(["w"])).attempts == 1
    with pytest.raises(LeaseLost):
        await first.heartbeat("w")
    await second.heartbeat("w")
    assert (await second.resume_worker("w", 2, [])).taken_back == 1
    assert await engine.states(TENANTS) == [
        JobState.READY,
        JobState.READY,
        JobState.RUNNING,
        JobState.RUNNING,
    ]


async def test_a_part_is_woken_for_jobs_of_its_own_partition(
    engine: RedisEngine, open_engine: OpenEngine
) -> None:
    other = await open_engine(f"redis://{engine.target.shown}?partitions={PARTITIONS}")
    woken: list[asyncio.Event] = [asyncio.Event() for _ in TENANTS]
    stops = [part.watch_work(event.set) for part, event in zip(engine.parts(), woken, strict=True)]
    await asyncio.gather(*(asyncio.wait_for(event.wait(), 5) for event in woken))  # it listens now
    await asyncio.sleep(0.1)
    for event in woken:
        event.clear()
    await other.enqueue([NewJob("j", "t", tenant=TENANTS[2])])
    await asyncio.wait_for(woken[2].wait(), 5)
    assert [event.is_set() for event in woken] == [False, False, True, False]
    for stop in stops:
        stop()


async def test_every_part_is_woken_when_a_clock_is_moved(start_server: StartServer) -> None:
    clock = Clock()
    engine = make_engine(f"{start_server().url}?partitions={PARTITIONS}", Settings(), clock)
    await engine.open()
    woken: list[asyncio.Event] = [asyncio.Event() for _ in TENANTS]
    stops = [part.watch_work(event.set) for part, event in zip(engine.parts(), woken, strict=True)]
    await asyncio.gather(*(asyncio.wait_for(event.wait(), 5) for event in woken))  # it listens now
    await asyncio.sleep(0.1)
    for event in woken:
        event.clear()
    clock.advance(1)
    assert all(event.is_set() for event in woken)
    for stop in stops:
        stop()
    await engine.close()


async def test_the_whole_of_a_split_store_has_no_lease(engine: RedisEngine) -> None:
    with pytest.raises(EngineError, match=r"split into 4 partitions.*engine\.parts\(\)"):
        await engine.exchange("w", [], 1)


async def test_a_store_of_one_partition_is_its_only_part(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    assert engine.parts() == (engine,)


async def test_a_job_is_found_while_another_partition_does_not_answer(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.enqueue([NewJob(tenant, "t", tenant=tenant) for tenant in TENANTS])
    engine.store._homes.clear()  # as if another process had enqueued them
    script = Calls.script

    async def hang(self: Calls, partition: Any, *rest: Any) -> object:
        if partition.number == 1:
            await asyncio.sleep(60)
        return await script(self, partition, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "script", hang)
        async with asyncio.timeout(5):
            assert await engine.states([TENANTS[0], TENANTS[2]]) == [JobState.READY, JobState.READY]
            assert [verdict.done for verdict in await engine.cancel([TENANTS[3]])] == [True]
            (job,) = await engine.get([TENANTS[0]])
            assert job is not None


async def test_jobs_of_this_process_are_looked_for_only_where_they_are(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.enqueue([NewJob("j", "t", tenant=TENANTS[2])])
    asked: list[int] = []
    script = Calls.script

    async def note(self: Calls, partition: Any, *rest: Any) -> object:
        asked.append(partition.number)
        return await script(self, partition, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "script", note)
        assert await engine.states(["j"]) == [JobState.READY]
    assert asked == [2]


async def test_small_workers_start_jobs_of_every_tenant_at_once(start_server: StartServer) -> None:
    """Not only when their slow poll has come round to the partition."""
    app = App(f"{start_server().url}?partitions=16")

    @app.task
    async def echo(number: int) -> int:
        return number

    async with app, app.worker(concurrency=1):
        async with asyncio.timeout(5):
            for number, tenant in enumerate(tenants(16)):
                assert await (await echo.options(tenant=tenant).enqueue(number)).result() == number
        assert (await app.audit()).ok


async def test_what_partitions_cannot_share_is_refused_with_the_reason(start_server: StartServer) -> None:
    url = f"{start_server().url}?partitions=4"
    app, capped = App(url), App(url)

    @app.task(limits=[ConcurrencyLimit(2, scope="account", shared=True)])
    async def call() -> None: ...

    async with app:
        with pytest.raises(
            ConfigError, match=r"'account' .*shared by all tenants, but this store is split into 4"
        ):
            await call.options(tenant="acme").enqueue()
        await call.enqueue()  # those without a tenant are all in one partition
        assert (await app.audit()).ok

    @capped.task(max_concurrent=2)
    async def one() -> None: ...

    with pytest.raises(
        ConfigError, match="max_concurrent of task 'one' is shared by all tenants, but this store"
    ):
        await capped.open()
