"""A change of limits with very many waited-for keys acts in slices; a sweep goes on where a caller died."""

from __future__ import annotations

from headgate.engine.audit import audit
from headgate.engine.contract import Filter, Limit, Override
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.records import packed_override
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer

KEYS = 450
READY = Filter(states=(JobState.READY,))


async def waiting(start_server: StartServer, open_engine: OpenEngine) -> RedisEngine:
    """An engine with a job that waits on each of many closed keys."""
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(Key("A", str(n)).ident),)) for n in range(KEYS)])
    return engine


async def test_an_override_reaches_every_key_before_it_returns(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    await engine.override(Override("A", 1))
    assert await engine.count(READY) == KEYS
    assert not (await engine.snapshot()).unsettled


async def test_a_sweep_goes_on_where_the_caller_died_and_nothing_is_overtaken_meanwhile(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    assert await engine.store.answers("override", packed_override(Override("A", 1))) == [True]
    assert await engine.count(READY) == 50
    assert audit(await engine.snapshot()) == []
    last = max(f"A={n}" for n in range(KEYS))
    (late,) = await engine.enqueue([NewJob("late", "t", uses=(Use(Key("A", last[2:]).ident),))])
    assert late.state is JobState.WAITING
    while (await engine.sweep()).more:
        pass
    assert await engine.count(READY) == KEYS
    assert not (await engine.snapshot()).unsettled
