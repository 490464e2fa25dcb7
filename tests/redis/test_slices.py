"""A change of limits with very many waited-for keys acts in slices; a sweep goes on where a caller died."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, Override, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.records import packed_override
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.world import START

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


async def test_a_change_acts_on_fewer_keys_at_once_where_many_jobs_wait_on_each(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(Key("A", str(n % 9)).ident),)) for n in range(270)])
    assert await engine.store.answers("override", packed_override(Override("A", 30))) == [True]
    assert await engine.count(READY) == 60, "two keys"
    while (await engine.sweep()).more:
        assert audit(await engine.snapshot()) == []
    assert await engine.count(READY) == 270


async def test_a_sweep_does_a_little_of_everything_and_says_that_there_is_more(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.enqueue([NewJob(f"due{n}", "t", delay=SECOND) for n in range(250)], now=START)
    await engine.enqueue([NewJob(f"old{n}", "t", retention=0) for n in range(250)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=SECOND), now=START)
    await engine.exchange("w", [], 2, now=START)
    later = START + 2 * SECOND
    first = await engine.sweep(now=later)
    assert (first.due, first.lost, first.more) == (100, 2, True)
    sweeps = [first]
    while sweeps[-1].more:
        sweeps.append(await engine.sweep(now=later))
    assert sum(each.due for each in sweeps) == 250


async def test_more_jobs_than_a_script_takes_are_changed_in_slices(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    ids = [f"j{n}" for n in range(250)]
    await engine.enqueue([NewJob(id, "t") for id in ids])
    assert [verdict.id for verdict in await engine.cancel(ids) if verdict.done] == ids
    assert [verdict.done for verdict in await engine.delete([*ids, "j0", "none"])] == [True] * 250 + [
        False
    ] * 2
    assert set(await engine.states(ids * 3)) == {None}


@pytest.mark.parametrize("overrides", [3, 300], ids=["few", "many"])
async def test_each_key_has_its_own_override_however_many_there_are(
    start_server: StartServer, open_engine: OpenEngine, overrides: int
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 5), Limit("B", "concurrency", 5)])
    for number in range(overrides - 2):
        await engine.override(Override("A", number % 3, value=str(number)))
    await engine.override(Override("A", 7))
    await engine.override(Override("A", 8, tenant="acme"))
    keys = [Key("A", "0"), Key("A", "none"), Key("A", "none", "acme"), Key("A", "0", "acme"), Key("B", "0")]
    jobs = [NewJob(f"j{n}", "t", tenant=key.tenant, uses=(Use(key.ident),)) for n, key in enumerate(keys)]
    await engine.enqueue(jobs)
    in_use = [*await engine.keys_in_use("A"), *await engine.keys_in_use("B")]
    free = (await engine.snapshot()).free
    assert [free.get(key.ident) for key in keys] == [0, 7, 8, 0, 5]
    assert {each.key: each.max for each in in_use} == {keys[0].ident: 0, keys[3].ident: 0}
    for _ in range(2):  # read, and remembered
        assert (await engine.states(["j0", "j1", "j3"])) == [
            JobState.WAITING,
            JobState.READY,
            JobState.WAITING,
        ]
