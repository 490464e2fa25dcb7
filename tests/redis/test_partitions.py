"""Partitions on one server: every one is served, whatever a worker wants, and none before the others for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from headgate import App, ConcurrencyLimit, ConfigError, EngineUnavailable
from headgate.engine.contract import Succeeded, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.calling import Calls
from headgate.engine.redis.spread import home
from headgate.job import JobState, NewJob
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
    """With a worker `w` that knows task `t`."""
    engine = await open_engine(f"{start_server().url}?partitions={PARTITIONS}")
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    return engine


def backlog(sizes: list[int]) -> Iterator[NewJob]:
    """So many jobs in each partition."""
    for tenant, size in zip(TENANTS, sizes, strict=True):
        for number in range(size):
            yield NewJob(f"{tenant}-{number}", "t", tenant=tenant)


async def run(engine: RedisEngine, want: int) -> list[str]:
    """One exchange and the settling of what it brought; the tenants whose jobs ran."""
    attempts = (await engine.exchange("w", [], want)).attempts
    settled = await engine.exchange("w", [Succeeded(each.job, each.number) for each in attempts], 0)
    assert settled.refused == ()
    return [each.tenant for each in attempts]


@pytest.mark.parametrize("want", [1, 2, 3, 4, 5])
async def test_the_only_job_is_found_with_one_look(engine: RedisEngine, want: int) -> None:
    for turn in range(2):
        for tenant in TENANTS:
            await engine.enqueue([NewJob(f"{tenant}-{turn}", "t", tenant=tenant)])
            assert await run(engine, want) == [tenant]


@pytest.mark.parametrize("want", [1, 2, 3, 4, 6, 8])
async def test_partitions_that_all_have_jobs_get_the_same_share(engine: RedisEngine, want: int) -> None:
    await engine.enqueue(list(backlog([want * 4] * PARTITIONS)))
    shares: Counter[str] = Counter()
    for _ in range(4):
        started = await run(engine, want)
        assert len(started) == want
        shares.update(started)
    assert shares == dict.fromkeys(TENANTS, want)


@pytest.mark.parametrize("want", [1, 2, 3])
async def test_those_that_have_jobs_get_the_same_share_beside_empty_ones(
    engine: RedisEngine, want: int
) -> None:
    await engine.enqueue(list(backlog([0, 0, 20, 20])))
    started: list[str] = []
    while len(started) < 12:
        started += await run(engine, want)
    shares = Counter(started)
    assert abs(shares[TENANTS[2]] - shares[TENANTS[3]]) <= 1


@pytest.mark.parametrize("want", [1, 4, 8])
async def test_a_long_backlog_in_one_partition_holds_up_no_other(engine: RedisEngine, want: int) -> None:
    await engine.enqueue(list(backlog([200, 1, 1, 1])))
    started: list[str] = []
    for _ in range(-(-PARTITIONS // want)):
        started += await run(engine, want)
    assert set(started) == set(TENANTS)


@pytest.mark.parametrize("want", [3, 10])
async def test_no_more_is_brought_than_was_wanted_and_more_is_said(engine: RedisEngine, want: int) -> None:
    await engine.enqueue(list(backlog([0, 0, 50, 0])))
    answer = await engine.exchange("w", [], want)
    assert 0 < len(answer.attempts) <= want
    assert answer.more


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


async def test_a_call_that_fails_leaves_no_other_under_way(
    engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another partition claimed after the failure was heard of would be nobody's."""
    await engine.enqueue(list(backlog([1, 1, 1, 1])))
    script = Calls.script
    late = asyncio.Event()

    async def fail(self: Calls, partition: object, *rest: object) -> object:
        number: int = getattr(partition, "number")  # noqa: B009
        if number == 0:
            raise EngineUnavailable("on purpose")
        if number == 1:
            await asyncio.sleep(0.05)
            late.set()
        return await script(self, partition, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "script", fail)
        with pytest.raises(EngineUnavailable, match="on purpose"):
            await engine.exchange("w", [], 4)
    assert late.is_set()
    states = await engine.states([f"{tenant}-0" for tenant in TENANTS])
    assert states == [JobState.READY, JobState.RUNNING, JobState.RUNNING, JobState.RUNNING]


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
