"""Flow control where enqueue takes no lock: what is met first, what transactions promise, what waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, ShareWeight, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.errors import BacklogFull, JobExists
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use, canonical
from tests.support.postgres_server import PostgresProcess

SOON = 5.0
"""Seconds within which a call returns that waits for nothing."""


def uses(text: str, units: int = 1, number: int | None = None) -> tuple[Use, ...]:
    name, _, value = text.partition("=")
    return canonical([(Key(name, value or None), units, number)])


@pytest.fixture
async def caller(process: PostgresProcess) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(process.dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def another(process: PostgresProcess) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(process.dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def worker(engine: PostgresEngine) -> str:
    await engine.register(Worker("w", frozenset("t"), lease=10**6 * SECOND, concurrency=10_000))
    return "w"


async def start(engine: PostgresEngine, count: int) -> list[str]:
    """The next jobs, one after the other."""
    found: list[str] = []
    for _ in range(count):
        for attempt in (await engine.exchange("w", [], 1)).attempts:
            found.append(attempt.job)
            await engine.exchange("w", [Succeeded(attempt.job, attempt.number)], 0)
    return found


@pytest.mark.parametrize(
    "limit", [Limit("A", "concurrency", 1), Limit("A", "concurrency", 1, when_full="drop")]
)
@pytest.mark.usefixtures("worker")
async def test_a_newcomer_of_a_quiet_share_need_not_wait_until_those_of_a_noisy_one_were_met(
    engine: PostgresEngine, limit: Limit
) -> None:
    """Each has a key of its own, so that looking at one says nothing about the others."""
    await engine.declare([limit])
    for first in range(0, 3000, 1000):
        await engine.enqueue(
            [NewJob(f"a{n}", "t", uses=uses(f"A={n}"), share="noisy") for n in range(first, first + 1000)]
        )
    await start(engine, 3)
    await engine.enqueue([NewJob(f"b{n}", "t", uses=uses(f"A=b{n}"), share="quiet") for n in range(3)])
    assert sum(id.startswith("b") for id in await start(engine, 12)) == 3
    assert audit(await engine.snapshot()) == []


@pytest.mark.usefixtures("worker")
async def test_in_a_callers_transaction_a_newcomer_is_turned_away_by_the_next_exchange(
    engine: PostgresEngine, caller: asyncpg.Connection
) -> None:
    await engine.declare([Limit("A", "concurrency", 1, when_full="drop")])
    async with caller.transaction():
        answer = await engine.enqueue_within(caller, [NewJob(f"j{n}", "t", uses=uses("A")) for n in range(2)])
        assert [each.state for each in answer] == [JobState.READY] * 2
    assert await engine.states(["j0", "j1"]) == [JobState.SCHEDULED] * 2
    assert [attempt.job for attempt in (await engine.exchange("w", [], 5)).attempts] == ["j0"]
    (dropped,) = await engine.get(["j1"])
    assert dropped is not None
    assert (dropped.state, dropped.error) == (
        JobState.CANCELLED,
        "dropped: limit 'A' was full (when_full='drop')",
    )
    assert audit(await engine.snapshot()) == []


async def test_a_sweep_turns_newcomers_away_while_all_workers_are_busy(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 0, when_full="drop")])
    await engine.enqueue([NewJob("j", "t", uses=uses("A"))])
    await engine.sweep()
    assert await engine.states(["j"]) == [JobState.CANCELLED]


async def test_a_future_job_of_a_share_gets_its_place_where_a_limit_may_turn_it_away(
    engine: PostgresEngine,
) -> None:
    await engine.declare([Limit("A", "concurrency", 1, when_full="drop")])
    now = await engine.clock()
    await engine.enqueue([NewJob("j", "t", uses=uses("A"), share="a", delay=60 * SECOND)], now=now)
    await engine.sweep(now=now + 60 * SECOND)
    (job,) = await engine.get(["j"])
    assert job is not None
    assert (job.state, job.tag) == (JobState.READY, 10_000)


async def test_of_all_queues_the_first_of_the_least_urgent_leaves(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 0, max_waiting=2, on_overflow="drop_oldest")])
    for id, queue, priority in (("urgent", "x", 1), ("idle", "y", 50), ("newest", "z", 50)):
        await engine.enqueue([NewJob(id, "t", queue=queue, priority=priority, uses=uses("A"))])
        await engine.sweep()
    assert await engine.states(["urgent", "idle", "newest"]) == [
        JobState.WAITING,
        JobState.CANCELLED,
        JobState.WAITING,
    ]


async def test_a_full_backlog_refuses_a_call_and_leaves_the_callers_transaction_as_it_was(
    engine: PostgresEngine, caller: asyncpg.Connection, another: asyncpg.Connection
) -> None:
    """What is promised: no more than `max_waiting` by what is committed; transactions side by side may exceed it."""
    await engine.declare([Limit("A", "concurrency", 0, max_waiting=2)])
    await engine.enqueue([NewJob("j0", "t", uses=uses("A"))])
    async with caller.transaction(), another.transaction():
        await engine.enqueue_within(caller, [NewJob("j1", "t", uses=uses("A"))])
        with pytest.raises(BacklogFull, match="2 jobs wait for 'A' already"):
            await engine.enqueue_within(caller, [NewJob("free", "t"), NewJob("over", "t", uses=uses("A"))])
        await engine.enqueue_within(caller, [NewJob("other", "t")])
        await engine.enqueue_within(another, [NewJob("beside", "t", uses=uses("A"))])
    assert await engine.states(["j1", "free", "over", "other", "beside"]) == [
        JobState.READY,
        None,
        None,
        JobState.READY,
        JobState.READY,
    ]
    with pytest.raises(BacklogFull):
        await engine.enqueue([NewJob("late", "t", uses=uses("A"))])


async def test_newcomers_for_which_there_is_room_do_not_count_as_waiting(engine: PostgresEngine) -> None:
    """They stand in line until they are looked at."""
    await engine.declare([Limit("A", "concurrency", 3, max_waiting=1)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=uses("A")) for n in range(2)])
    await engine.enqueue([NewJob(f"k{n}", "t", uses=uses("A")) for n in range(2)])
    with pytest.raises(BacklogFull):
        await engine.enqueue([NewJob("over", "t", uses=uses("A"))])


async def test_a_call_that_declares_a_limit_and_is_refused_declares_nothing(engine: PostgresEngine) -> None:
    limit = Limit("A", "concurrency", 0, max_waiting=0)
    with pytest.raises(BacklogFull, match="0 jobs wait for 'A' already"):
        await engine.enqueue([NewJob("j", "t", uses=uses("A"))], limits=[limit])
    assert await engine.limits("A") == []
    assert await engine.states(["j"]) == [None]


async def test_callers_that_bring_numbers_for_one_key_do_not_wait_for_each_other(
    engine: PostgresEngine, caller: asyncpg.Connection, another: asyncpg.Connection
) -> None:
    await engine.declare([Limit("user", "concurrency", 1, per_key=True)])
    async with asyncio.timeout(SOON), caller.transaction(), another.transaction():
        await engine.enqueue_within(caller, [NewJob("a", "t", uses=uses("user=1", number=2))])
        await engine.enqueue_within(another, [NewJob("b", "t", uses=uses("user=1", number=3))])
        await engine.enqueue([NewJob("c", "t", uses=uses("user=1", number=2))])
    (status,) = [line for line in await engine.limits("user") if line.key == "user=1"]
    assert (status.max, status.brought) == (2, 2), "the one of the newest job"
    await engine.sweep()
    (status,) = [line for line in await engine.limits("user") if line.key == "user=1"]
    assert status.brought == 2, "looking at the key forgets the others only"


@pytest.mark.usefixtures("worker")
async def test_no_exchange_waits_for_the_virtual_time_of_a_line(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.enqueue([NewJob(f"j{n}", "t", share="a") for n in range(3)])
    await start(engine, 1)
    name = '"' + schema.replace('"', '""') + '"'
    with psycopg.connect(process.dsn) as other:
        other.execute(f"SELECT * FROM {name}.virtual FOR UPDATE".encode())
        async with asyncio.timeout(SOON):
            assert await start(engine, 2) == ["j1", "j2"]


async def test_an_update_in_a_callers_transaction_comes_with_its_commit(
    engine: PostgresEngine, caller: asyncpg.Connection, worker: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 1)])
    await engine.enqueue([NewJob("j", "t", uses=uses("A"), unique="u", on_conflict="update")])
    new = NewJob("k", "t", args='{"n":2}', uses=uses("B"), unique="u", on_conflict="update")
    async with caller.transaction():
        (answer,) = await engine.enqueue_within(caller, [new])
        assert (answer.id, answer.created) == ("j", False)
        (before,) = await engine.get(["j"])
        assert before is not None
        assert before.args == "{}"
        assert (await engine.exchange(worker, [], 5)).attempts == (), "it is the caller's meanwhile"
    (attempt,) = (await engine.exchange(worker, [], 5)).attempts
    assert (attempt.job, attempt.args) == ("j", '{"n":2}')
    assert list((await engine.snapshot()).holders) == ["c0:B"]
    async with caller.transaction():
        (answer,) = await engine.enqueue_within(caller, [new])
        assert (answer.id, answer.created) == ("k", True), "the other one has started"
    assert audit(await engine.snapshot()) == []


async def test_jobs_of_one_call_update_each_other_and_what_is_stored(engine: PostgresEngine) -> None:
    def update(id: str, n: int, task: str = "t") -> NewJob:
        args = f'{{"n":{n}}}'
        return NewJob(id, task, args=args, unique="u", on_conflict="update", delay=10 * SECOND)

    answers = await engine.enqueue([update("a", 1), update("b", 2), NewJob("free", "t"), update("c", 3)])
    assert [(each.id, each.created) for each in answers] == [
        ("a", True),
        ("a", False),
        ("free", True),
        ("a", False),
    ]
    (job,) = await engine.get(["a"])
    assert job is not None
    assert job.args == '{"n":3}'
    with pytest.raises(JobExists, match="is of task 't'"):
        await engine.enqueue([NewJob("plain", "t"), update("d", 4, task="other")])
    assert await engine.states(["plain"]) == [None]


async def test_what_waits_is_tagged_anew_in_slices(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = '"' + schema.replace('"', '""') + '"'

    def tags() -> list[int]:
        return [tag for (tag,) in process.execute(f"SELECT tag FROM {name}.live ORDER BY seq")]

    await engine.enqueue([NewJob(f"j{n:04}", "t", share="a") for n in range(1200)])
    await engine.set_share(ShareWeight("a", 4))
    assert tags()[:500] == [2500 * n for n in range(1, 501)]
    assert tags()[1199] == 10_000 * 1200
    await engine.clear_share("a")
    while (await engine.sweep()).more:
        pass
    assert tags() == [10_000 * n for n in range(1, 1201)], "one change after the other"
    assert process.execute(f"SELECT * FROM {name}.retags") == []


async def test_a_newcomer_comes_again_where_another_step_holds_the_job_that_is_to_stop(
    engine: PostgresEngine, process: PostgresProcess, schema: str, worker: str
) -> None:
    name = '"' + schema.replace('"', '""') + '"'
    await engine.declare([Limit("A", "concurrency", 1, when_full="cancel")])
    await engine.enqueue([NewJob("runs", "t", uses=uses("A"))])
    await engine.exchange(worker, [], 1)
    await engine.enqueue([NewJob("comes", "t", uses=uses("A"))])
    with psycopg.connect(process.dsn) as other:
        other.execute(f"SELECT * FROM {name}.live WHERE state = 'running' FOR UPDATE".encode())
        assert (await engine.exchange(worker, [], 1)).cancelling == ()
        assert await engine.states(["comes"]) == [JobState.SCHEDULED]
    assert (await engine.exchange(worker, [], 1)).cancelling == ("runs",)
    assert await engine.states(["comes"]) == [JobState.WAITING]
    assert audit(await engine.snapshot()) == []


@pytest.mark.usefixtures("worker")
async def test_clients_without_headgate_bring_shares_sizes_numbers_and_expiry(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = '"' + schema.replace('"', '""').replace("%", "%%") + '"'
    await engine.declare(
        [
            Limit("gpu", "concurrency", 4, sized=True, per_key=True),
            Limit("A", "concurrency", 0, max_waiting=0),
        ]
    )
    options = '{"id": "j", "share": "acme", "expires": 60, "limits": [{"name": "gpu", "key": 1, "units": 3, "max": 6}]}'
    process.execute(f"SELECT {name}.enqueue('t', '{{}}', %s)", options)
    (job,) = await engine.get(["j"])
    assert job is not None
    assert (job.share, job.tag, job.uses) == ("acme", 10_000, (Use("c0:gpu=1", 3, 6),))
    assert job.start_by == job.enqueued_at + 60 * SECOND
    with pytest.raises(psycopg.Error, match='0 jobs wait for "A" already'):
        process.execute(f"SELECT {name}.enqueue('t', '{{}}', %s)", '{"limits": [{"name": "A"}]}')
    with pytest.raises(psycopg.Error, match="are for jobs with a unique key"):
        process.execute(f"SELECT {name}.enqueue('t', '{{}}', %s)", '{"unique_for": 5}')
