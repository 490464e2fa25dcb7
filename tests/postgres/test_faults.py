"""What locks and time must not do: late messages, late bookings, early calls; and what a recheck mends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import psycopg
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Override, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.engine.rules.audit import audit
from headgate.errors import ConfigError, StaleMessage
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

A = (Use(Key("A").ident),)
R = (Use(Key("R", rate=True).ident),)


@asynccontextmanager
async def held_key(process: PostgresProcess, schema: str, key: str) -> AsyncGenerator[Any]:
    """A transaction that holds a key's row, until it is left or `rollback` is called."""
    connection = await asyncpg.connect(process.dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"INSERT INTO {quoted(schema)}.keys VALUES ($1) ON CONFLICT DO NOTHING", key)
    await connection.execute(f"SELECT 1 FROM {quoted(schema)}.keys WHERE key = $1 FOR UPDATE", key)
    try:
        yield transaction
    finally:
        await connection.close()


async def waits(process: PostgresProcess, number: int = 1) -> None:
    """Until so many statements wait for a lock."""
    await until(lambda: process.waiting() >= number, "statements that wait", 10)


async def test_a_message_that_waits_for_a_lock_takes_effect_before_a_newer_one_or_never(
    open_engine: OpenEngine, process: PostgresProcess, schema: str
) -> None:
    """The exchange is past its fence and waits for a key when the worker resumes over another connection."""
    engine = await open_engine()
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t", uses=A)])
    async with held_key(process, schema, A[0].key) as holder:
        late = asyncio.create_task(engine.exchange("w", [], 1, number=1))
        await waits(process)
        resuming = asyncio.create_task(engine.resume_worker("w", 2, []))
        await waits(process, 2)
        await holder.rollback()
    answer, resumed = await late, await resuming
    assert [attempt.job for attempt in answer.attempts] == ["j"]
    assert resumed.taken_back == 1, "what the late message claimed is not left behind"
    assert await engine.states(["j"]) == [JobState.READY]
    assert audit(await engine.snapshot()) == []


async def test_a_message_that_waits_for_the_rules_is_refused_when_a_newer_one_was_faster(
    open_engine: OpenEngine, process: PostgresProcess, schema: str
) -> None:
    engine = await open_engine()
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t")])
    connection = await asyncpg.connect(process.dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    async with connection.transaction():
        await connection.execute(f"UPDATE {quoted(schema)}.workers SET number = 2 WHERE id = 'w'")
        late = asyncio.create_task(engine.exchange("w", [], 1, number=1))
        await waits(process)
    await connection.close()
    with pytest.raises(StaleMessage):
        await late
    assert await engine.states(["j"]) == [JobState.READY]


async def test_an_override_that_runs_out_and_a_job_that_becomes_due_meet_in_one_sweep(
    engine: PostgresEngine,
) -> None:
    now = 1_000 * SECOND
    await engine.declare([Limit("A", "concurrency", 1)], now=now)
    await engine.override(Override("A", 0, until=now + 10 * SECOND), now=now)
    await engine.register(Worker("w", frozenset({"t"}), lease=600 * SECOND), now=now)
    await engine.enqueue([NewJob("j", "t", uses=A, delay=5 * SECOND)], now=now)
    await engine.sweep(now=now + 20 * SECOND)
    answer = await engine.exchange("w", [], 1, now=now + 20 * SECOND)
    assert [attempt.job for attempt in answer.attempts] == ["j"]


async def test_a_start_is_booked_when_it_happens_and_not_when_its_step_began(
    open_engine: OpenEngine, process: PostgresProcess, schema: str
) -> None:
    engine = await open_engine()
    await engine.declare([Limit("R", "rate", 1, 2 * SECOND, algorithm="sliding_window")])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t", uses=R)])
    async with held_key(process, schema, R[0].key) as holder:
        claiming = asyncio.create_task(engine.exchange("w", [], 1))
        await waits(process)
        await asyncio.sleep(0.3)
        released = await engine.clock()
        await holder.rollback()
    (attempt,) = (await claiming).attempts
    assert attempt.started_at >= released
    ((at,),) = process.execute(f"SELECT at FROM {quoted(schema)}.starts")
    assert at == attempt.started_at


async def test_a_tick_calls_after_its_commit(
    engine: PostgresEngine, process: PostgresProcess, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[list[Any]] = []

    def signal(**_: bool) -> None:
        there.append(process.execute(f"SELECT id FROM {quoted(schema)}.jobs"))

    monkeypatch.setattr(engine._store, "signal", signal)
    await engine.tick("nightly", None, 1, [NewJob("n", "t")])
    assert there == [[("n",)]]


async def test_another_kind_is_refused_also_together_with_jobs(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    with pytest.raises(ConfigError, match="declared as concurrency in this store, and now as rate"):
        await engine.declare([Limit("A", "rate", 1, SECOND)])
    with pytest.raises(ConfigError, match="and now as rate"):
        await engine.enqueue([NewJob("j", "t")], limits=[Limit("A", "rate", 1, SECOND)])
    assert await engine.states(["j"]) == [None]
    assert [status.kind for status in await engine.limits()] == ["concurrency"]


# ── self-healing ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_recheck_mends_what_no_step_would_look_at(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = quoted(schema)
    await engine.declare([Limit("A", "concurrency", 1), Limit("R", "rate", 1, 10 * SECOND)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("gone", "t"), NewJob("orphan", "t")])
    await engine.exchange("w", [], 2)
    await engine.enqueue([NewJob(id, "t", uses=A) for id in ("a1", "a2")])
    await engine.enqueue([NewJob(id, "t", uses=R) for id in ("r1", "r2")])
    await engine.exchange("w", [], 10)
    await engine.exchange("w", [Succeeded("gone", 1), Succeeded("a1", 1)], 0)
    process.execute(
        f"INSERT INTO {name}.holders SELECT 'c0:A', seq, 1, false FROM {name}.jobs WHERE id = 'gone'"
    )
    process.execute(f"UPDATE {name}.live SET state = 'waiting', waiting_on = 'c0:A', offered_by = NULL, refusals = 0, "
                    f"units = 1, worker = NULL, started_at = NULL WHERE state = 'ready'")  # fmt: skip
    process.execute(f"DELETE FROM {name}.timers")
    process.execute(f"UPDATE {name}.live SET worker = 'stranger' WHERE seq = (SELECT seq FROM {name}.jobs "
                    f"WHERE id = 'orphan')")  # fmt: skip
    healed = (await engine.recheck()).healed
    assert sorted(sentence.split()[0] for sentence in healed) == ["'A'", "job", "jobs"]
    assert audit(await engine.snapshot()) == []
    process.execute(f"UPDATE {name}.live SET state = 'waiting', waiting_on = 'c0:A', offered_by = NULL, refusals = 0 "
                    f"WHERE state = 'ready' AND use_keys IS NOT NULL")  # fmt: skip
    assert ["waited on 'A'" in sentence for sentence in (await engine.recheck()).healed] == [True]
    assert (await engine.recheck()).healed == ()
    assert audit(await engine.snapshot()) == []


async def test_a_slot_whose_job_only_waits_is_given_back(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 0)])
    await engine.enqueue([NewJob("j", "t", uses=(Use("c0:B"),)), NewJob("k", "t", uses=A)])
    await engine.sweep()
    name = quoted(schema)
    process.execute(
        f"INSERT INTO {name}.holders SELECT 'c0:A', seq, 1, false FROM {name}.jobs WHERE id = 'j'"
    )
    (healed,) = (await engine.recheck()).healed
    assert healed.startswith("'A' was held by job 'j', which is waiting")
    assert audit(await engine.snapshot()) == []


async def test_a_recheck_goes_on_where_its_last_slice_ended(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(f"c0:A={n}"),)) for n in range(3)])
    await engine.sweep()
    afters = [(await engine.recheck(most=1)).after]
    while afters[-1] is not None:
        afters.append((await engine.recheck(afters[-1], most=1)).after)
    assert afters == ["c0:A=0", "c0:A=1", None]


async def test_a_worker_that_registers_while_a_recheck_waits_is_not_lost(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = quoted(schema)
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t")])
    await engine.exchange("w", [], 1)
    process.execute(f"UPDATE {name}.workers SET id = 'away'")
    connection = await asyncpg.connect(process.dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    async with connection.transaction():
        await connection.execute(f"SELECT 1 FROM {name}.live FOR UPDATE")
        rechecking = asyncio.create_task(engine.recheck())
        await waits(process)
        await connection.execute(f"UPDATE {name}.workers SET id = 'w'")
    await connection.close()
    assert (await rechecking).healed == ()
    assert await engine.states(["j"]) == [JobState.RUNNING]


async def test_a_newcomer_that_comes_while_a_recheck_looks_is_no_defect(
    engine: PostgresEngine, open_engine: OpenEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 2)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("a1", "t", uses=A)])
    await engine.exchange("w", [], 1)
    other = await open_engine()
    with looking_held_up(process, schema) as go_on:
        rechecking = asyncio.create_task(engine.recheck())
        await waits(process)
        await other.enqueue([NewJob("a2", "t", uses=A)])
        go_on()
        assert (await rechecking).healed == ()
    assert [each.job for each in (await engine.exchange("w", [], 2)).attempts] == ["a2"]


@contextmanager
def looking_held_up(process: PostgresProcess, schema: str) -> Generator[Callable[[], None]]:
    """Meanwhile a recheck waits before it looks at waiters, until it is told to go on."""
    name = quoted(schema)
    process.execute(
        f"ALTER FUNCTION {name}._forgotten(text[], bigint) RENAME TO _forgotten_now;"
        f"CREATE FUNCTION {name}._forgotten(p_keys text[], p_now bigint) "
        "RETURNS TABLE (key text, queue text, id text) LANGUAGE plpgsql VOLATILE AS $$ BEGIN "
        f"PERFORM pg_advisory_xact_lock(7); RETURN QUERY SELECT * FROM {name}._forgotten_now(p_keys, p_now); END $$"
    )
    with psycopg.connect(process.dsn) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(7)")
        yield holder.commit
    process.execute(
        f"DROP FUNCTION {name}._forgotten(text[], bigint);"
        f"ALTER FUNCTION {name}._forgotten_now(text[], bigint) RENAME TO _forgotten"
    )


# ── processes of the release before ──────────────────────────────────────────────────────────────────────────────────


async def test_calls_of_the_release_before_still_work(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = quoted(schema)
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.override(Override("A", 0, until=1))
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t", uses=A)])
    async with engine.pools.connection() as connection:
        await connection.fetchrow(f"SELECT * FROM {name}.sweep($1, $2, $3, $4)", None, 10, [1, 1, 1], "me")
        rows = await connection.fetch(
            "SELECT place, id, number, task, queue, args, tenant, priority, tries, retry, timeout, metadata, enqueued, "
            "progress, at, leased, refused::text[], cancelling, next_due, more, wake, ended, again, set_aside "
            f"FROM {name}.exchange($1, $2, $3::text::integer[], $4, $5, $6::text::bigint[], $7, $8, $9, $10, $11, "
            "$12::text::bigint[], $13, $14)",
            "w", [], "{}", [], [], "{}", 1, None, None, 8, 10, "{1,1,1}", "me", False,
        )  # fmt: skip
    assert [row["id"] for row in rows] == ["j", None]
    assert rows[-1]["leased"]
