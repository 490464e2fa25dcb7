"""What flow control does to very many jobs it does in slices, and what this store keeps for it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Failed, Limit, Settings, ShareWeight, Spent, Succeeded, Throttled, Worker
from headgate.engine.redis import RedisEngine, store
from headgate.engine.rules.audit import audit
from headgate.errors import BacklogFull
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer

JOBS = 450


async def starts(engine: RedisEngine, most: int) -> list[str]:
    """The shares of the jobs that start one after the other."""
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=most))
    attempts = (await engine.exchange("w", [], most)).attempts
    return [attempt.job[0] for attempt in attempts]


async def two_shares(start_server: StartServer, open_engine: OpenEngine) -> RedisEngine:
    engine = await open_engine(start_server().url)
    for share in "ab":
        await engine.enqueue([NewJob(f"{share}{n}", "t", share=share) for n in range(JOBS)])
    return engine


@pytest.mark.parametrize("weight", [4.0, 0.25])
async def test_a_weight_reaches_what_waits_in_slices_and_sweeps_go_on(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, weight: float
) -> None:
    """Tags that shrink are moved from the first on, others from the last."""
    engine = await two_shares(start_server, open_engine)
    monkeypatch.setattr(store, "SLICES_AT_ONCE", 1)
    await engine.set_share(ShareWeight("a", weight))
    await engine.register(Worker("looks", frozenset(), lease=10**12))
    told = await engine.exchange("looks", [], 0)
    assert told.next_due == told.now, "a worker that asks sweeps at once"
    while (await engine.sweep()).more:
        pass
    tags = [job.tag for job in await engine.get([f"a{n}" for n in range(JOBS)]) if job is not None]
    step = round(10_000 / weight)
    assert tags == [step * (n + 1) for n in range(JOBS)], "each was moved once"
    told = await engine.exchange("looks", [], 0)
    assert told.next_due != told.now
    counts = await starts(engine, 250)
    most, least = sorted((counts.count("a"), counts.count("b")), reverse=True)
    assert abs(most / least - 4) < 0.3


async def test_a_second_weight_follows_the_first(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of one change is done before the next one begins."""
    engine = await two_shares(start_server, open_engine)
    monkeypatch.setattr(store, "SLICES_AT_ONCE", 0)
    await engine.set_share(ShareWeight("a", 2.0))
    await engine.set_share(ShareWeight("a", 0.5))
    while (await engine.sweep()).more:
        pass
    tags = [job.tag for job in await engine.get([f"a{n}" for n in range(JOBS)]) if job is not None]
    assert tags == [20_000 * (n + 1) for n in range(JOBS)]


async def test_a_quiet_share_does_not_wait_behind_a_large_backlog(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("account", "concurrency", 20)])
    uses = (Use(Key("account").ident),)
    for first in range(0, 3000, 500):
        await engine.enqueue([NewJob(f"a{first + n}", "t", share="a", uses=uses) for n in range(500)])
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=100))
    running = (await engine.exchange("w", [], 20)).attempts
    await engine.enqueue([NewJob(f"b{n}", "t", share="b", uses=uses) for n in range(50)])
    order: list[str] = []
    while order.count("b") < 50:
        reports = [Succeeded(attempt.job, attempt.number) for attempt in running]
        running = (await engine.exchange("w", reports, 20)).attempts
        order += [attempt.job[0] for attempt in running]
    assert len(order) <= 120
    assert audit(await engine.snapshot()) == []


async def test_what_waits_between_those_that_start_stays_in_the_line_of_its_share(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """As many jobs start as stand between the first and the last of a share, but not the same ones."""
    engine = await open_engine(start_server().url)
    await engine.set_share(ShareWeight("b", 0.4))
    tasks = {"a1": "t", "a2": "unknown", "a3": "t", "a4": "t", "b1": "t"}
    await engine.enqueue([NewJob(id, task, share=id[0]) for id, task in tasks.items()])
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=9))
    started = [attempt.job for attempt in (await engine.exchange("w", [], 9)).attempts]
    assert started == ["a1", "b1", "a3", "a4"]
    assert [(each.share, each.pending) for each in await engine.shares()] == [("a", 1), ("b", 0)]


async def test_a_job_that_comes_back_and_starts_in_one_step_does_not_wait_in_its_share(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.enqueue([NewJob("a1", "t", share="a")])
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=9))
    (first,) = (await engine.exchange("w", [], 1)).attempts
    (second,) = (await engine.exchange("w", [Failed("a1", first.number, "again", retry_in=0)], 1)).attempts
    assert second.number == 2
    assert await engine.shares() == []


async def test_idle_shares_leave_nothing(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=400))
    jobs = [NewJob(f"j{n}", "t", share=f"s{n}", charge="time", retention=0) for n in range(300)]
    await engine.enqueue(jobs)
    attempts = (await engine.exchange("w", [], 300)).attempts
    await engine.exchange("w", [Succeeded(attempt.job, attempt.number) for attempt in attempts], 0)
    now = await engine.clock()
    for later in (1, 4000, 4001):
        while (await engine.sweep(now=now + later * SECOND)).more:
            pass
    with server.client() as client:
        names = {name.decode().partition("}:")[2] for name in client.scan_iter()}
    assert names <= {"meta", "workers", "leases"}, names


async def test_a_queue_that_becomes_bounded_finds_the_jobs_that_it_has(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """They get into its crowd a slice at a time."""
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob(f"j{n}", "t", queue="q") for n in range(JOBS)])
    await engine.enqueue([NewJob("less urgent", "t", queue="q", priority=80)])
    await engine.enqueue([NewJob(f"k{n}", "t", queue="q") for n in range(300)])
    bound = Limit("queue:q", "concurrency", None, max_waiting=JOBS + 301, on_overflow="drop_oldest")
    await engine.declare([bound])
    while (await engine.sweep()).more:
        pass
    with server.client() as client:
        assert client.zcard("{headgate:p0}:crowd:q") == JOBS + 301
    await engine.enqueue([NewJob("new", "t", queue="q")])
    await engine.enqueue([NewJob("newer", "t", queue="q")])
    assert await engine.states(["less urgent", "j0", "j1", "new", "newer"]) == [
        JobState.CANCELLED, JobState.CANCELLED, JobState.READY, JobState.READY, JobState.READY,
    ]  # fmt: skip
    await engine.declare([Limit("queue:q", "concurrency", None)])
    with server.client() as client:
        assert not client.exists("{headgate:p0}:crowd:q")


async def test_a_large_batch_for_a_bounded_backlog_is_refused_whole(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0, max_waiting=1)])
    jobs: list[Any] = [NewJob(f"j{n}", "t", uses=(Use(Key("A", str(n % 150)).ident),)) for n in range(151)]
    with pytest.raises(BacklogFull) as raised:
        await engine.enqueue(jobs)
    assert raised.value.limit == "A=0"
    assert (await engine.totals()).counts[JobState.WAITING] == 0
    await engine.enqueue(jobs[:150])
    assert (await engine.totals()).counts[JobState.WAITING] == 150


async def test_jobs_of_a_large_batch_end_when_their_time_has_passed(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0, per_key=True)])
    now = await engine.clock()
    jobs = [
        NewJob(f"j{n}", "t", uses=(Use(Key("A", str(n)).ident, number=n % 2),), start_within=SECOND)
        for n in range(150)
    ]
    await engine.enqueue(jobs, now=now)
    shown = await engine.get([job.id for job in jobs])
    assert [job and job.start_by for job in shown] == [now + SECOND] * 150
    assert {job.state for job in shown if job is not None} == {JobState.READY, JobState.WAITING}
    while (await engine.sweep(now=now + SECOND)).more:
        pass
    assert (await engine.totals()).counts[JobState.CANCELLED] == 150


async def test_the_least_urgent_of_all_queues_leaves_for_a_newcomer(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0, max_waiting=2, on_overflow="drop_oldest")])
    uses = (Use(Key("A").ident),)
    for id, queue, priority in (("urgent", "p", 10), ("lazy", "q", 80), ("new", "p", 50)):
        await engine.enqueue([NewJob(id, "t", queue=queue, priority=priority, uses=uses)])
    states = await engine.states(["urgent", "lazy", "new"])
    assert states == [JobState.WAITING, JobState.CANCELLED, JobState.WAITING]


async def test_a_reservation_of_several_units_is_one_until_its_job_starts(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url, Settings(patience=1))
    await engine.declare([Limit("G", "concurrency", 4, sized=True), Limit("H", "concurrency", 1)])
    large, other = Use(Key("G").ident, 3), Use(Key("H").ident)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=10))
    await engine.enqueue([NewJob("all", "t", uses=(Use(large.key, 4),))])
    await engine.exchange("w", [], 1)
    await engine.enqueue([NewJob("large", "t", uses=(large, other))])
    await engine.enqueue([NewJob("first", "t", uses=(other,), priority=0)])
    await engine.exchange("w", [Succeeded("all", 1)], 0)
    assert [a.job for a in (await engine.exchange("w", [], 1)).attempts] == ["first"]
    assert (await engine.exchange("w", [], 1)).attempts == (), (
        "refused by the second of its keys, it keeps the first"
    )
    snapshot = await engine.snapshot()
    assert (snapshot.holders[large.key], snapshot.units) == ({"large": True}, {large.key: {"large": 3}})
    assert audit(snapshot) == []
    await engine.enqueue([NewJob(f"small{n}", "t", uses=(Use(large.key),)) for n in range(2)])
    assert [a.job for a in (await engine.exchange("w", [], 5)).attempts] == ["small0"]
    assert [a.job for a in (await engine.exchange("w", [Succeeded("first", 1)], 5)).attempts] == ["large"]
    (status,) = [row for row in await engine.limits("G") if row.key == "G"]
    assert (status.held, status.waiting) == (4, 1)


async def test_what_an_earlier_busy_period_spent_is_not_given_back_in_the_next(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """Time has given it back, although corrections in that period had moved its mark."""
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("T", "rate", 100, 100 * SECOND, estimated=True)])
    start = await engine.clock()
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=10), now=start)

    async def begin(id: str, units: int, at: int) -> None:
        uses = (Use(Key("T", rate=True).ident, units),)
        await engine.enqueue([NewJob(id, "t", uses=uses)], now=start + at * SECOND)
        assert (await engine.exchange("w", [], 1, now=start + at * SECOND)).attempts

    await begin("stays", 20, 0)
    await begin("corrected", 50, 0)
    await engine.exchange("w", [Spent("corrected", 1, "T", 0)], 0, now=start)
    await begin("late", 10, 1)
    await begin("next", 50, 40)
    at = start + 41 * SECOND
    await engine.exchange("w", [Spent("late", 1, "T", 0)], 0, now=at)
    (status,) = await engine.limits("T", now=at)
    assert status.tokens == 51


async def test_a_shorter_word_of_a_service_does_not_open_its_key(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 2)])
    now = await engine.clock()
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12, concurrency=10), now=now)
    await engine.enqueue([NewJob(id, "t", uses=(Use(Key("A").ident),)) for id in ("long", "short")], now=now)
    await engine.exchange("w", [], 2, now=now)
    reports = [Throttled("long", 1, 10 * SECOND), Throttled("short", 1, SECOND)]
    await engine.exchange("w", reports, 0, now=now)
    (status,) = await engine.limits("A", now=now)
    assert status.opens_at == now + 10 * SECOND
    assert (await engine.exchange("w", [], 2, now=now + 9 * SECOND)).attempts == ()


async def test_a_share_of_hardly_any_weight_keeps_its_jobs_in_line(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """Tags have sixteen digits; beyond that jobs stand side by side."""
    engine = await open_engine(start_server().url)
    await engine.set_share(ShareWeight("s", 1e-11))
    await engine.enqueue([NewJob(f"s{n}", "t", share="s") for n in range(20)])
    assert audit(await engine.snapshot()) == []
    assert len(await starts(engine, 20)) == 20
