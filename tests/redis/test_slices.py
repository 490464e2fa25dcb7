"""A change of limits with very many waited-for keys acts in slices; a sweep goes on where a caller died."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, Override, Worker
from headgate.engine.redis import RedisEngine, store
from headgate.engine.redis.records import packed_limit, packed_override
from headgate.engine.rules.audit import audit
from headgate.engine.rules.status import COUNTED_MOST
from headgate.errors import LeaseLost
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from headgate.retry import RetryPolicy
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


async def test_an_override_reaches_so_many_keys_before_it_returns_and_a_sweep_the_others(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await waiting(start_server, open_engine)
    monkeypatch.setattr(store, "SLICES_AT_ONCE", 3)
    await engine.register(Worker("w", frozenset({"t"}), concurrency=KEYS))
    await engine.override(Override("A", 1))
    assert await engine.count(READY) == 200
    told = await engine.exchange("w", [], 0)
    assert told.next_due == told.now, "a worker that asks sweeps at once"
    while (await engine.sweep()).more:
        pass
    assert await engine.count(READY) == KEYS
    assert not (await engine.snapshot()).unsettled
    assert (await engine.exchange("w", [], 0)).next_due != told.now


async def test_an_override_reaches_a_few_hundred_keys_before_it_returns(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    await engine.override(Override("A", 1))
    assert await engine.count(READY) == KEYS
    assert not (await engine.snapshot()).unsettled


async def test_an_override_of_one_key_looks_at_that_key_alone(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    assert await engine.store.answers("override", packed_override(Override("A", 1, value="7"))) == [False]
    assert await engine.states(["j7", "j8"]) == [JobState.READY, JobState.WAITING]
    for tenant in ("acme", "žluť"):
        await engine.enqueue([NewJob(tenant, "t", tenant=tenant, uses=(Use(Key("A", "7", tenant).ident),))])
    await engine.override(Override("A", 1, value="7", tenant="žluť"))
    assert await engine.states(["acme", "žluť"]) == [JobState.READY, JobState.READY]


async def test_an_override_of_a_key_raises_what_an_override_of_the_name_had_closed(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    await engine.override(Override("A", 0))
    await engine.declare([Limit("A", "concurrency", 5)])
    await engine.override(Override("A", 1, value="7"))
    assert await engine.states(["j7", "j8"]) == [JobState.READY, JobState.WAITING]


async def test_an_override_of_one_value_reaches_the_key_of_every_tenant(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    for tenant in ("acme", "žluť"):
        await engine.enqueue([NewJob(tenant, "t", tenant=tenant, uses=(Use(Key("A", "8", tenant).ident),))])
    await engine.override(Override("A", 1, value="7", tenant="acme"))
    await engine.override(Override("A", 1, value="8"))
    assert await engine.states(["j7", "j8", "acme", "žluť"]) == [JobState.WAITING, *[JobState.READY] * 3]


async def test_a_limit_that_is_not_raised_looks_at_no_key(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)

    async def is_left(verb: str, given: Any) -> bool:
        """Whether it leaves keys to sweeps."""
        (answer,) = await engine.store.answers(verb, given)
        while (await engine.sweep()).more:
            pass
        return answer if isinstance(answer, bool) else answer[-1]

    assert not await is_left("override", packed_override(Override("A", 0))), "the declared number is the same"
    assert await is_left("override", packed_override(Override("A", None)))
    assert not await is_left("override", packed_override(Override("A", 3))), "no job waits any more"
    assert await engine.count(READY) == KEYS
    await engine.cancel([f"j{n}" for n in range(KEYS)])
    await engine.override(Override("A", 0))
    await engine.enqueue([NewJob(f"k{n}", "t", uses=(Use(Key("A", str(n)).ident),)) for n in range(KEYS)])
    await engine.declare([Limit("A", "concurrency", 2)])
    assert await is_left("clear_override", ["A", False, False])
    assert not await is_left("declare", [packed_limit(Limit("A", "concurrency", 1))])
    assert await engine.count(READY) == KEYS


async def test_a_page_of_limits_stops_counting_where_very_many_keys_are_waited_for(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await waiting(start_server, open_engine)
    whole, first = (await engine.limits("A", limit=2))[:2]
    assert (whole.key, whole.waiting, whole.exact, first.key) == ("A", KEYS, True, "A=0")
    more = [NewJob(f"m{n}", "t", uses=(Use(Key("A", f"m{n}").ident),)) for n in range(COUNTED_MOST)]
    await engine.enqueue([*more, NewJob("twice", "t", uses=(Use(Key("A", "m0").ident),))])
    whole, first = await engine.limits("A", limit=2)
    assert (whole.waiting, whole.held, whole.exact) == (KEYS + COUNTED_MOST, 0, False), "each key counts once"
    assert (first.key, first.waiting, first.exact) == ("A=0", 1, True)
    assert (await engine.limits("A"))[0].waiting == KEYS + COUNTED_MOST + 1
    assert [row.key for row in await engine.limits("A", after=("A", "A", ""), limit=2)] == ["A=0", "A=1"]
    await engine.enqueue([NewJob("other", "t", tenant="acme", uses=(Use(Key("A", "0", "acme").ident),))])
    tenants = await engine.limits("A", limit=3)
    assert [(row.key, row.tenant) for row in tenants] == [("A", ""), ("A=0", ""), ("A=0", "acme")]


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


async def running(
    start_server: StartServer, open_engine: OpenEngine, number: int, retry: RetryPolicy | None = None
) -> RedisEngine:
    """An engine with a worker that runs so many jobs, one each of a key."""
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 1)])
    retry = retry or RetryPolicy()
    jobs = [NewJob(f"j{n:03}", "t", uses=(Use(Key("A", str(n)).ident),), retry=retry) for n in range(number)]
    await engine.enqueue(jobs, now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=SECOND, concurrency=number), now=START)
    assert len((await engine.exchange("w", [], number, now=START)).attempts) == number
    return engine


async def test_a_lost_worker_with_very_many_jobs_is_lost_in_slices_that_blame_as_one(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await running(start_server, open_engine, 250)
    later = START + 2 * SECOND
    first = await engine.sweep(now=later)
    assert (first.lost, first.more) == (99, True)
    assert audit(await engine.snapshot(now=later)) == []
    assert await engine.count(READY) == 99
    with pytest.raises(LeaseLost):
        await engine.heartbeat("w", now=later)
    await engine.cancel(["j249"], now=later)
    second = await engine.sweep(now=later + SECOND)
    assert (second.lost, second.more) == (99, True)
    third = await engine.sweep(now=later + SECOND)
    assert (third.lost, third.more) == (52, False)
    assert await engine.workers(now=later) == []
    assert await engine.states(["j249"]) == [JobState.CANCELLED]
    snapshot = await engine.snapshot(now=later + SECOND)
    assert audit(snapshot) == []
    assert {(job.suspicion, job.lost) for job in snapshot.jobs} == {(1, 1)}


async def test_a_suspect_is_judged_by_all_that_its_worker_ran_in_whatever_slice_it_is(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await running(start_server, open_engine, 101, RetryPolicy(losses=2))
    assert (await engine.report_lost(["w"], now=START)).attempts == 101
    await engine.register(Worker("w", frozenset({"t"}), lease=SECOND, concurrency=2000), now=START)
    while (await engine.exchange("w", [], 101, now=START)).attempts:
        pass
    lost = await engine.report_lost(["w"], now=START)
    assert (lost.attempts, lost.failed) == (101, ()), (
        "the only one of the second slice is not the only suspect"
    )
    assert audit(await engine.snapshot(now=START)) == []


async def test_the_word_that_a_worker_with_very_many_jobs_is_gone_is_acted_on_in_slices(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await running(start_server, open_engine, 250)
    assert (await engine.store.answers("report_lost", ["w"], START))[0][::2] == [100, True]
    with pytest.raises(LeaseLost):
        await engine.exchange("w", [], 1, now=START)
    assert audit(await engine.snapshot(now=START)) == []
    assert (await engine.sweep(now=START)).lost == 99, "where the caller died, a sweep goes on"
    lost = await engine.report_lost(["w", "other"], now=START)
    assert lost.attempts == 51
    assert await engine.workers(now=START) == []
    assert await engine.count(READY) == 250


async def test_a_worker_with_very_many_jobs_retires_in_slices(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await running(start_server, open_engine, 250)
    assert await engine.store.answers("retire", ["w"], START) == [True]
    assert await engine.count(READY) == 100
    assert audit(await engine.snapshot(now=START)) == []
    await engine.retire("w", now=START)
    assert await engine.count(READY) == 250
    assert await engine.workers(now=START) == []
    order = [job.id for job in (await engine.find(READY, limit=250))]
    assert sorted(order) == [f"j{n:03}" for n in range(250)]


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
