"""What is idle is forgotten as fast as it comes."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Worker
from headgate.job import NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.world import START


async def test_a_computed_number_is_forgotten_an_hour_after_its_key_was_last_used(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    used, idle = Key("F", "used"), Key("F", "idle")
    await engine.declare([Limit("F", "floating", 1)], now=START)
    await engine.enqueue([NewJob("j", "t", uses=(Use(used.ident),))], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12), now=START)
    await engine.exchange("w", [], 1, now=START)
    for key in (used, idle):
        await engine.compute(key.ident, 7, now=START)
    await engine.sweep(now=START + 3599 * SECOND)
    assert len(await engine.limits("F", now=START)) == 3
    await engine.sweep(now=START + 3600 * SECOND)
    assert [line.key for line in await engine.limits("F", now=START)] == ["F", "F=used"]
    assert [line.max for line in await engine.limits("F", now=START)] == [1, 7]


async def test_a_sweep_says_when_more_full_buckets_are_left(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.declare([Limit("R", "rate", 10, SECOND)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12), now=START)
    jobs = [NewJob(f"j{n}", "t", uses=(Use(Key("R", str(n), rate=True).ident),)) for n in range(1500)]
    await engine.enqueue(jobs, now=START)
    while (await engine.exchange("w", [], 500, now=START)).attempts:
        pass
    later = START + 10 * SECOND
    assert (await engine.sweep(now=later)).more
    while (await engine.sweep(now=later)).more:
        pass
    with server.client() as client:
        assert client.zcard("{headgate:p0}:meters") == 0
