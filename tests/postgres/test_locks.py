"""What takes no lock of a limit: another transaction holds them all, and the verb returns all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Failed, ImportedJob, Limit, Snoozed, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Key, canonical
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

LOCKS = "LOCK TABLE {0}.keys IN ACCESS EXCLUSIVE MODE"
LIMITS = [Limit("A", "concurrency", 1), Limit("B", "concurrency", 1), Limit("R", "rate", 1, SECOND)]


@pytest.fixture
def locks(process: PostgresProcess, schema: str) -> Iterator[psycopg.Connection]:
    """A connection that a test makes hold what admission of limited jobs needs."""
    with psycopg.connect(process.dsn) as connection:
        yield connection


def hold(connection: psycopg.Connection, schema: str, *, rules: bool = False) -> None:
    name = '"' + schema.replace('"', '""') + '"'
    connection.execute(LOCKS.format(name).encode())
    if rules:
        connection.execute(f"SELECT {name}._change_rules()".encode())


async def test_jobs_without_limits_touch_no_key(
    engine: PostgresEngine, schema: str, locks: psycopg.Connection
) -> None:
    """From the first to the last step of their lives."""
    await engine.declare(LIMITS)
    await engine.register(Worker("w", frozenset("t")))
    hold(locks, schema)
    async with asyncio.timeout(10):
        await engine.enqueue([NewJob("one", "t")])
        await engine.enqueue([NewJob(f"j{n}", "t", unique=f"u{n}" if n == 1 else None) for n in range(6)])
        await engine.enqueue([NewJob("later", "t", delay=3600 * SECOND)])
        assert len((await engine.exchange("w", [], 10)).attempts) == 7
        reports = [
            Succeeded("one", 1),
            Succeeded("j0", 1),
            Failed("j1", 1, "boom"),
            Failed("j2", 1, "boom", 0),
        ]
        answer = await engine.exchange("w", [*reports, Snoozed("j3", 1, 0)], 10)
        assert sorted(attempt.job for attempt in answer.attempts) == ["j2", "j3"]
        assert all(verdict.done for verdict in await engine.restart(["j1"]))
        assert all(verdict.done for verdict in await engine.cancel(["j1", "j4"]))
        assert all(verdict.done for verdict in await engine.expedite(["later"]))
        assert all(verdict.done for verdict in await engine.delete(["j1"]))
        await engine.heartbeat("w")
        await engine.retire("w")
    locks.rollback()
    assert audit(await engine.snapshot()) == []


async def test_enqueue_waits_for_nobody_who_decides_on_limits(
    open_engine: OpenEngine, process: PostgresProcess, schema: str, locks: psycopg.Connection
) -> None:
    """Neither by itself nor in a caller's transaction, whatever the job needs."""
    engine = await open_engine()
    await engine.declare(LIMITS)
    needs = [[Key("A")], [Key("A"), Key("B")], [Key("R", rate=True)], [Key("A"), Key("R", rate=True)], []]
    uses = [canonical([(key, 1) for key in keys]) for keys in needs]
    hold(locks, schema, rules=True)
    async with asyncio.timeout(10):
        for number, each in enumerate(uses):
            await engine.enqueue([NewJob(f"own{number}", "t", uses=each)])
            await engine.enqueue([NewJob(f"unique{number}", "t", uses=each, unique=f"u{number}")])
        await engine.enqueue([NewJob(f"many{number}", "t", uses=each) for number, each in enumerate(uses)])
        async with await psycopg.AsyncConnection.connect(process.dsn) as connection:
            jobs = [NewJob(f"within{number}", "t", uses=each) for number, each in enumerate(uses)]
            await engine.enqueue_within(connection, jobs)
            await engine.enqueue_within(connection, [NewJob("again", "t", uses=uses[1], unique="u1")])
            replacing = NewJob("new", "t", uses=uses[1], unique="u1", on_conflict="replace")
            await engine.enqueue_within(connection, [replacing])
        assert await engine.states(["unique1", "new"]) == [JobState.CANCELLED, JobState.READY]
    locks.rollback()
    await engine.sweep()
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("verb", ["restart", "import"])
async def test_a_job_that_took_an_id_meanwhile_is_not_taken_for_the_one_that_had_it(
    open_engine: OpenEngine, process: PostgresProcess, verb: str
) -> None:
    """Its unique key is another one, which the earlier look does not hold, and another caller does."""
    engine, other = await open_engine(), await open_engine()
    await engine.enqueue([NewJob("a", "t", unique="first")])
    await engine.cancel(["a"])
    connect = psycopg.AsyncConnection.connect
    async with await connect(process.dsn) as one, await connect(process.dsn) as two:
        await engine.enqueue_within(one, [NewJob("x", "t", unique="first")])
        acting = asyncio.create_task(_restart(engine) if verb == "restart" else _import(engine))
        await until(process.waiting, 'it to have seen "a" and to wait for its unique key')
        await other.delete(["a"])
        await other.enqueue([NewJob("a", "t", unique="second")])
        await other.cancel(["a"])
        await engine.enqueue_within(two, [NewJob("y", "t", unique="second")])
        await one.rollback()
        await until(lambda: process.waiting() or acting.done(), "it to go on, or to wait for the second one")
        async with asyncio.timeout(5):  # a call that waits for a caller's transaction holds up no other
            await other.declare([Limit("A", "concurrency", 1)])
            assert (await other.cancel(["a"]))[0].state is JobState.CANCELLED
        await two.commit()
        assert await asyncio.wait_for(acting, 5) is False
    assert await engine.states(["a", "x", "y"]) == [JobState.CANCELLED, None, JobState.READY]
    assert audit(await engine.snapshot()) == []


async def _restart(engine: PostgresEngine) -> bool:
    return (await engine.restart(["a"]))[0].done


async def _import(engine: PostgresEngine) -> bool:
    past = (PastAttempt(1, "failed", 1, 2),)
    (result,) = await engine.import_jobs([ImportedJob(NewJob("a", "t", unique="first"), past)])
    return result.refused is None


async def test_a_sweep_waits_for_no_caller_who_replaces_a_job_that_reserved_a_key(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """The reservation runs out while the caller's transaction, which gives it back, is still open."""
    name = '"' + schema.replace('"', '""') + '"'
    await engine.declare(LIMITS)
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([NewJob("b", "t", uses=canonical([(Key("B"), 1)]))])
    assert len((await engine.exchange("w", [], 1)).attempts) == 1
    both = canonical([(Key("A"), 1), (Key("B"), 1)])
    await engine.enqueue([NewJob("both", "t", uses=both, unique="u")])
    await engine.meet()
    process.execute(
        f"INSERT INTO {name}.holders (key, job, since, reserved, expires_at) "
        f"SELECT 'c0:A', l.seq, 0, true, 1 FROM {name}.live l WHERE l.unique_key = 'u'"
    )
    async with await psycopg.AsyncConnection.connect(process.dsn) as caller:
        replacing = NewJob("new", "t", uses=both, unique="u", on_conflict="replace")
        await engine.enqueue_within(caller, [replacing])
        async with asyncio.timeout(5):
            await engine.sweep()
            await engine.declare([Limit("A", "concurrency", 2)])
    assert await engine.states(["both", "new"]) == [JobState.CANCELLED, JobState.READY]
    await engine.sweep()
    assert audit(await engine.snapshot()) == []


async def test_a_sweep_locks_nothing_of_an_old_job_that_somebody_steers(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """A restart holds keys when it takes the job out of `ended`; a sweep that had that row would wait for them."""
    name = '"' + schema.replace('"', '""') + '"'
    await engine.enqueue([NewJob("a", "t", retention=0)])
    await engine.cancel(["a"])
    with psycopg.connect(process.dsn) as steering, psycopg.connect(process.dsn) as sweeping:
        steering.execute(f"SELECT 1 FROM {name}.jobs WHERE id = 'a' FOR UPDATE".encode())
        swept = sweeping.execute(f"SELECT expired FROM {name}.sweep(NULL, 1, '{{1,1,1}}', NULL)".encode())
        assert swept.fetchall() == [(0,)]
        steering.execute(b"SET LOCAL lock_timeout = '2s'")
        assert steering.execute(f"DELETE FROM {name}.ended".encode()).rowcount == 1
        steering.rollback()
        sweeping.rollback()
    assert (await engine.sweep()).expired == 1
    assert await engine.states(["a"]) == [None]
    assert audit(await engine.snapshot()) == []


async def test_a_rival_that_goes_while_jobs_are_stored_still_stands_for_one(
    open_engine: OpenEngine, process: PostgresProcess
) -> None:
    """It was met unfinished; then the call had to wait for a transaction that may or may not store one of its ids."""
    engine, other = await open_engine(), await open_engine()
    await engine.enqueue([NewJob("a", "t", unique="u")])
    async with await psycopg.AsyncConnection.connect(process.dsn) as caller:
        await engine.enqueue_within(caller, [NewJob("b", "t")])
        acting = asyncio.create_task(engine.enqueue([NewJob("x", "t", unique="u"), NewJob("b", "t")]))
        await until(process.waiting, "it to wait")
        assert (await other.cancel(["a"]))[0].done
        assert (await other.delete(["a"]))[0].done
        await caller.rollback()
        stored = await asyncio.wait_for(acting, 5)
    assert [(one.id, one.created) for one in stored] == [("a", False), ("b", True)]
    assert await engine.states(["a", "b", "x"]) == [None, JobState.READY, None]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("several", [False, True], ids=["passed on", "offered"])
async def test_a_waiter_that_somebody_holds_is_looked_at_again(
    engine: PostgresEngine, locks: psycopg.Connection, schema: str, several: bool
) -> None:
    """Its slot came back while it was in other hands: the key is noted, the audit knows, the next claim offers it."""
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 9)])
    await engine.register(Worker("w", frozenset("t")))
    uses = canonical([(Key("A"), 1), *([(Key("B"), 1)] if several else [])])
    await engine.enqueue([NewJob(id, "t", uses=uses) for id in ("holder", "head")])
    (holder,) = (await engine.exchange("w", [], 5)).attempts
    name = '"' + schema.replace('"', '""') + '"'
    locks.execute(
        f"SELECT 1 FROM {name}.live l JOIN {name}.jobs j USING (seq) WHERE j.id = 'head' FOR UPDATE OF l".encode()
    )
    answer = await engine.exchange("w", [Succeeded(holder.job, holder.number)], 5)
    assert answer.attempts == ()
    snapshot = await engine.snapshot()
    assert snapshot.unsettled == {Key("A").ident}
    assert audit(snapshot) == []
    locks.rollback()
    assert [each.job for each in (await engine.exchange("w", [], 5)).attempts] == ["head"]
    snapshot = await engine.snapshot()
    assert (snapshot.unsettled, audit(snapshot)) == (frozenset(), [])
