"""A cluster of three masters: partitions, slots that move under load, a master that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headgate import App
from headgate.engine.contract import Filter, Limit, Settings, Succeeded, Worker
from headgate.engine.deadline import within
from headgate.engine.redis import RedisEngine, servers
from headgate.engine.redis.calling import Calls
from headgate.engine.redis.catalogue import tag
from headgate.engine.redis.partitions import home
from headgate.engine.redis.servers import slot_of
from headgate.engine.redis.url import parse
from headgate.engine.rules.audit import audit
from headgate.errors import ConfigError, EngineUnavailable
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import KINDS
from tests.redis.spreading import Spread
from tests.support.redis_cluster import Cluster
from tests.support.redis_servers import binary

pytestmark = [pytest.mark.slow(12), pytest.mark.timeout(240)]

PARTITIONS = 4
SETTINGS = Settings(busy_timeout=20_000_000)


@pytest.fixture(params=KINDS)
def program(request: pytest.FixtureRequest) -> str:
    found = binary(request.param)
    assert found is not None
    return found


@pytest.fixture
def cluster(program: str) -> Iterator[Cluster]:
    cluster = Cluster(program)
    try:
        yield cluster
        cluster.check()
    finally:
        cluster.stop()


async def opened(cluster: Cluster, partitions: int = PARTITIONS) -> RedisEngine:
    url = f"{cluster.url}?partitions={partitions}"
    engine = RedisEngine(parse(url, url), SETTINGS)
    await engine.open()
    return engine


def job(number: int, tenants: int = 20) -> NewJob:
    tenant = f"tenant{number % tenants}"
    return NewJob(f"j{number}", "t", tenant=tenant, uses=(Use(Key("A", None, tenant).ident),))


class Work:
    """Workers that claim, hold a moment and settle; each notes how many of a tenant run at once."""

    def __init__(self, engine: RedisEngine) -> None:
        self.engine = engine
        self.runs: dict[str, int] = {}
        self.now_running: dict[str, int] = {}
        self.worst = 0
        self.failures = 0

    async def run(self, name: str, total: int) -> None:
        spread = Spread(self.engine)
        await spread.register(Worker(name, frozenset({"t"}), lease=600_000_000))
        done: list[Succeeded] = []
        while len(self.runs) < total or done:
            try:
                attempts, _ = await spread.exchange(name, done, 10)
            except EngineUnavailable:
                self.failures += 1
                await asyncio.sleep(0.05)
                continue
            for attempt in attempts:
                self.runs[attempt.job] = self.runs.get(attempt.job, 0) + 1
                self.now_running[attempt.job] = self.now_running.get(attempt.job, 0) + 1
                tenant = attempt.tenant
                at_once = sum(n for id, n in self.now_running.items() if int(id[1:]) % 20 == int(tenant[6:]))
                self.worst = max(self.worst, at_once)
            await asyncio.sleep(0.01)
            for attempt in attempts:  # over before it is told: another worker may start the next meanwhile
                self.now_running[attempt.job] -= 1
            done = [Succeeded(attempt.job, attempt.number) for attempt in attempts]


async def test_slots_move_under_load_and_nothing_is_lost_or_run_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = 400
    heard: list[str] = []
    refused = Calls._refused

    async def listen(self: Calls, text: str, *rest: Any) -> None:
        heard.append(text)
        await refused(self, text, *rest)

    monkeypatch.setattr(Calls, "_refused", listen)
    engine, other = await opened(cluster), await opened(cluster)
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job(number) for number in range(total // 2)])
    work = Work(engine)

    async def keep_enqueueing() -> None:
        for number in range(total // 2, total):
            await other.enqueue([job(number)])

    async def keep_moving() -> None:
        for number in range(PARTITIONS):
            slot = slot_of(tag("headgate", number))
            owner = await asyncio.to_thread(cluster.owner, slot)
            target = next(node for node in cluster.masters if node is not owner)
            await asyncio.to_thread(cluster.move, slot, target, 0.005)

    await asyncio.gather(keep_enqueueing(), keep_moving(), work.run("w1", total), work.run("w2", total))
    assert sorted(work.runs) == sorted(f"j{number}" for number in range(total))
    assert set(work.runs.values()) == {1}
    assert work.worst == 1
    assert any(text.startswith("MOVED ") for text in heard)
    assert any(not text.startswith("MOVED ") for text in heard), (
        "some calls came while a slot was between two nodes"
    )
    assert audit(await engine.snapshot()) == []
    assert set(await engine.states([f"j{n}" for n in range(total)])) == {JobState.SUCCEEDED}
    await engine.close()
    await other.close()


async def test_a_master_dies_and_its_replica_goes_on_with_all_that_had_reached_it(
    program: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What was acknowledged a moment before the master died may be lost, since replication does not wait: so the test
    waits for it. Jobs, slots and waiters are kept then, and so is everything that is acknowledged afterwards."""
    cluster = Cluster(program, 3)
    try:
        engine = await opened(cluster)
        await engine.declare([Limit("A", "concurrency", 1)])
        await engine.enqueue([job(number) for number in range(100)])
        spread = Spread(engine)
        await spread.register(Worker("w", frozenset({"t"}), lease=600_000_000))
        running, _ = await spread.exchange("w", [], 100)
        assert len(running) == 20, "one of each tenant"
        await asyncio.to_thread(cluster.replicate)
        victim = await asyncio.to_thread(cluster.owner, slot_of(tag("headgate", 1)))
        victim.kill()
        kept = {number for number in range(100, 140) if await stored(engine, number)}
        assert len(kept) >= 39, "at most the call that was under way has failed"
        assert await spread.exchange("w", [], 100) == ([], []), "every slot is still held"
        reports = [Succeeded(attempt.job, attempt.number) for attempt in running]
        assert await spread.exchange("w", reports, 0) == ([], [])
        work = Work(engine)
        await work.run("other", 80 + len(kept))
        assert work.worst == 1
        states = await engine.states([f"j{number}" for number in (*range(100), *kept)])
        assert set(states) == {JobState.SUCCEEDED}
        (line,) = [each.message for each in caplog.records if "has taken over" in each.message]
        assert f"from 127.0.0.1:{victim.port}" in line
        assert audit(await engine.snapshot()) == []
        await engine.close()
        cluster.check()
    finally:
        cluster.stop()


async def stored(engine: RedisEngine, number: int) -> bool:
    try:
        await engine.enqueue([job(number)])
    except EngineUnavailable:
        return False
    return True


async def test_who_opens_the_store_while_a_master_is_dead_waits_for_its_replica(
    program: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(program, 3)
    try:
        await (await opened(cluster)).close()
        await asyncio.to_thread(cluster.replicate)
        victim = await asyncio.to_thread(cluster.owner, slot_of(tag("headgate", 1)))
        victim.kill()
        engine = await opened(cluster)
        assert await engine.count(Filter()) == 0
        assert any("at most for this to change" in each.message for each in caplog.records)
        await engine.close()
    finally:
        cluster.stop()


async def test_a_node_that_hangs_is_asked_last(cluster: Cluster) -> None:
    """It gives no answer, and no connection ends: as a machine that was cut off."""
    owner = await asyncio.to_thread(cluster.owner, slot_of(tag("headgate", 0)))
    hung = next(node for node in cluster.masters if node is not owner)
    url = f"redis+cluster://127.0.0.1:{hung.port},127.0.0.1:{owner.port}"
    assert hung.process is not None
    os.kill(hung.process.pid, signal.SIGSTOP)
    try:
        engine = RedisEngine(parse(url, url), SETTINGS)
        async with asyncio.timeout(servers.ONE_OF_MANY + 6):
            await engine.open()
        engine.store._calls.servers.doubt(slot_of(tag("headgate", 0)))
        async with asyncio.timeout(servers.ONE_OF_MANY / 2):
            await engine.enqueue([NewJob("j", "t")])
        await engine.close()
    finally:
        os.kill(hung.process.pid, signal.SIGCONT)


async def test_a_node_that_hangs_holds_up_only_its_own_partitions(cluster: Cluster) -> None:
    engine = await opened(cluster, 8)
    owners = [await asyncio.to_thread(cluster.owner, slot_of(tag("headgate", n))) for n in range(8)]
    hung = owners[1]
    assert hung.process is not None
    jobs = [job(number, 50) for number in range(50)]
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue(jobs)
    for part in engine.parts():
        await part.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    others = [part for part, owner in zip(engine.parts(), owners, strict=True) if owner is not hung]
    assert 0 < len(others) < 8
    os.kill(hung.process.pid, signal.SIGSTOP)
    try:
        with within(1), pytest.raises(EngineUnavailable, match="not known whether"):
            await engine.parts()[1].exchange("w", [], 1, number=1)
        async with asyncio.timeout(5):
            for part in others:
                answer = await part.exchange("w", [], 50, number=1)
                reports = [Succeeded(each.job, each.number) for each in answer.attempts]
                assert (await part.exchange("w", reports, 0, number=2)).refused == ()
                await part.heartbeat("w")
                await part.sweep()
        ended = [each.id for each in jobs if owners[home(each.tenant, 8)] is not hung]
        async with asyncio.timeout(5):
            assert set(await engine.states(ended)) == {JobState.SUCCEEDED}
    finally:
        os.kill(hung.process.pid, signal.SIGCONT)
    await engine.close()


async def test_a_worker_goes_on_with_the_partitions_of_the_other_nodes(
    program: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs come from another process, so that the wakes, too, must find a node that answers."""
    cluster = Cluster(program, 0, "--cluster-require-full-coverage", "no")
    url = f"{cluster.url}?partitions=8"
    owners = [await asyncio.to_thread(cluster.owner, slot_of(tag("headgate", n))) for n in range(8)]
    hung = owners[0]  # where the worker listens
    assert hung.process is not None
    tenants = {home(f"t{number}", 8): f"t{number}" for number in range(100)}
    others = [tenants[number] for number, owner in enumerate(owners) if owner is not hung]
    held = [tenants[number] for number, owner in enumerate(owners) if owner is hung]
    assert others
    assert held
    app, producer = App(url), App(url)

    @app.task
    async def double(number: int) -> int:
        return number * 2

    @producer.task(name=double.name)
    async def elsewhere(number: int) -> int: ...

    async def ended(tenants: Iterable[str]) -> list[float]:
        """How long a job of each tenant takes from here to its result."""
        seconds: list[float] = []
        for tenant in tenants:
            begun = time.monotonic()
            handle = await elsewhere.options(tenant=tenant).enqueue(4)
            assert await handle.result(timeout=30) == 8
            seconds.append(time.monotonic() - begun)
        return seconds

    try:
        async with app, producer, app.worker(concurrency=4, lease=3):
            await ended([*others, *held])
            os.kill(hung.process.pid, signal.SIGSTOP)
            try:
                delays = [await ended(others) for _ in range(6)]
            finally:
                os.kill(hung.process.pid, signal.SIGCONT)
            assert max(max(each) for each in delays) < 5, (
                "found by looking, until the listener has another node"
            )
            assert max(delays[-1]) < 0.5
            await ended([*others, *held])
            assert (await producer.audit()).ok
        assert not [each for each in caplog.records if each.exc_info], "no duty has stumbled"
    finally:
        cluster.stop()


async def test_what_partitions_cannot_share_is_refused(cluster: Cluster) -> None:
    engine = await opened(cluster)
    for name in ("task:t", "queue:q"):
        with pytest.raises(ConfigError, match="split into 4 partitions"):
            await engine.declare([Limit(name, "concurrency", 5)])
    await engine.declare([Limit("S", "concurrency", 1)])
    with pytest.raises(ConfigError, match="shared by all tenants"):
        await engine.enqueue([NewJob("j", "t", tenant="acme", uses=(Use(Key("S").ident),))])
    await engine.enqueue([NewJob("j", "t", uses=(Use(Key("S").ident),))])
    with pytest.raises(ConfigError, match="founded with partitions=4"):
        await opened(cluster, 2)
    await engine.close()


async def test_a_cluster_must_be_called_one(cluster: Cluster) -> None:
    url = cluster.masters[0].url
    with pytest.raises(ConfigError, match=r"redis\+cluster://"):
        await RedisEngine(parse(url, url)).open()
