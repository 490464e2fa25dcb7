"""Enqueueing in a caller's transaction: invisible until it commits, gone when it rolls back, in the way of no other."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import sessionmaker

from headgate import App, ConcurrencyLimit, ConfigError, JobExists
from headgate.engine.contract import Filter, Limit, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.headers import read_headers
from headgate.job import JobState, NewJob
from headgate.keys import Use
from tests.postgres.callers import WAYS, Open, by_asyncpg, settled
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import stays, until

JOBS = [NewJob("j1", "t", unique="u"), NewJob("j2", "t", uses=(Use("c0:A"),), metadata='{"a": 1}')]


@pytest.mark.parametrize("way", WAYS)
async def test_jobs_appear_with_the_callers_commit(
    engine: PostgresEngine, process: PostgresProcess, way: Open
) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    async with way(process.dsn) as (connection, commit, _):
        enqueued = await engine.enqueue_within(connection, JOBS)
        assert [each.created for each in enqueued] == [True, True]
        assert await engine.states(["j1", "j2"]) == [None, None]
        await settled(commit)
    assert await engine.states(["j1", "j2"]) == [JobState.READY, JobState.READY]


@pytest.mark.parametrize("way", WAYS)
async def test_jobs_are_gone_with_the_callers_rollback(
    engine: PostgresEngine, process: PostgresProcess, way: Open
) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    async with way(process.dsn) as (connection, _, rollback):
        await engine.enqueue_within(connection, JOBS)
        await settled(rollback)
    assert await engine.states(["j1", "j2"]) == [None, None]


@pytest.mark.parametrize("way", WAYS)
async def test_a_refused_job_leaves_the_callers_transaction_usable(
    engine: PostgresEngine, process: PostgresProcess, way: Open
) -> None:
    await engine.enqueue([NewJob("j1", "t")])
    async with way(process.dsn) as (connection, commit, _):
        with pytest.raises(JobExists):
            await engine.enqueue_within(connection, [NewJob("j0", "t"), NewJob("j1", "t")])
        await engine.enqueue_within(connection, [NewJob("j3", "t")])
        await settled(commit)
    assert await engine.states(["j0", "j3"]) == [None, JobState.READY]


async def test_what_has_no_transaction_of_the_callers_is_refused(
    engine: PostgresEngine, process: PostgresProcess
) -> None:
    """What a pool or an engine runs would be stored whatever becomes of the caller's changes."""
    alchemy = sqlalchemy.create_engine(process.dsn.replace("postgresql://", "postgresql+psycopg://"))
    async with asyncpg.create_pool(process.dsn, min_size=1) as pool:
        with psycopg.connect(process.dsn) as connection:
            for wrong, name in (
                ("connection", r"builtins\.str"), (pool, r"asyncpg\.pool\.Pool"), (alchemy, "Engine"),
                (sessionmaker(alchemy), "sessionmaker"), (connection.cursor(), r"psycopg\.Cursor"),
            ):  # fmt: skip
                with pytest.raises(ConfigError, match=f"connection=.*{name} cannot be enqueued on"):
                    await engine.enqueue_within(wrong, JOBS)
    assert await engine.states(["j1", "j2"]) == [None, None]


async def test_an_open_transaction_blocks_nobody(open_engine: OpenEngine, process: PostgresProcess) -> None:
    engine, other = await open_engine(), await open_engine()
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([NewJob("old", "t", uses=(Use("c0:A"),), unique="u", delay=10**9)])
    async with asyncio.timeout(10):
        async with by_asyncpg(process.dsn) as (connection, commit, _):
            await engine.enqueue_within(connection, [NewJob("open", "t", uses=(Use("c0:A"),))])
            replacing = NewJob("new", "t", uses=(Use("c0:A"),), unique="u", on_conflict="replace")
            await engine.enqueue_within(connection, [replacing])
            await other.enqueue([NewJob("other", "t", uses=(Use("c0:A"),))])
            answer = await other.exchange("w", [], 10)
            assert [attempt.job for attempt in answer.attempts] == ["other"]
            await other.declare([Limit("A", "concurrency", 3)])
            await other.sweep()
            await commit()
    answer = await other.exchange("w", [], 10)
    assert [attempt.job for attempt in answer.attempts] == ["open", "new"]
    assert await engine.states(["old"]) == [JobState.CANCELLED]


NULLS = '{"delay": null, "unique": null, "metadata": null, "limits": null, "at": null, "priority": null}'
WRONG = [
    ('{"limits": [{"name": "nobody"}]}', '"nobody" is not declared'),
    ('{"limits": [{"name": "customer", "units": 2}]}', "units are for rates"),
    ('{"limits": [{"name": "api", "units": 0}]}', "a limit is written as"),
    ('{"limits": [{"name": "api", "colour": 1}]}', "a limit is written as"),
    ('{"limits": ["api"]}', "a limit is written as"),
    ('{"limits": {"name": "api"}}', "limits must be a list"),
    ('{"colour": 1}', "unknown options: colour"),
    ('["queue"]', "the options must be a JSON object"),
    ('{"priority": 100}', "priority must be a whole number from 0 to 99, not 100"),
    ('{"priority": 1.5}', "priority must be a whole number"),
    ('{"delay": -1}', "delay must be a number of seconds from 0"),
    ('{"delay": "soon"}', "delay must be a number"),
    ('{"delay": 1, "at": "2030-01-01"}', "exclude each other"),
    ('{"at": "soon"}', "invalid input syntax for type timestamp"),
    ('{"timeout": 0}', "timeout must be a number of seconds"),
    ('{"attempts": 0}', "attempts must be a whole number from 1"),
    ('{"unique": 5}', "unique must be a text of 1 to 256 bytes, not 5"),
    ('{"id": ""}', "id must be a text"),
    ('{"queue": "headgate"}', "reserved"),
    ('{"on_conflict": "ignore"}', "on_conflict must be return, raise, replace or update"),
    ('{"metadata": [1]}', "metadata must be a JSON object"),
    (
        json.dumps({"limits": [{"name": "customer", "key": str(n)} for n in range(17)]}),
        "17 limits; at most 16",
    ),
    (json.dumps({"limits": [{"name": "customer", "key": "x" * 248}]}), "257 bytes; at most 256"),
    (json.dumps({"limits": [{"name": "customer", "tenant": "x" * 257}]}), "tenant .* 257 bytes"),
    (json.dumps({"limits": [{"name": "customer", "key": [1]}]}), "a limit is written as"),
    ('{"limits": [{"name": "customer=1"}]}', 'contains "="'),
    ('{"headers": ["a"]}', "headers must be a JSON object of texts"),
    ('{"headers": {"a": 1}}', 'the value of header "a" is 1, not a text'),
    ('{"headers": {"a b": "1"}}', '"a b" is not the name of a header'),
    (json.dumps({"headers": {"a": "x" * 8192}}), "at most 8192"),
    (json.dumps({"headers": {f"h{n}": "x" for n in range(65)}}), "65 headers; at most 64"),
    (json.dumps({"tenant": "x" * 257}), "tenant must be a text of 1 to 256 bytes"),
    (json.dumps({"queue": "x" * 257}), "queue must be a text of 1 to 256 bytes"),
]


async def test_any_client_can_enqueue_by_a_plain_function(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("customer", "concurrency", 1), Limit("api", "rate", 5, 10**6)])
    name = '"' + schema.replace('"', '""').replace("%", "%%") + '"'
    options = (
        '{"queue": "mail", "priority": 5, "delay": 0, "unique": "u", "attempts": 7, "metadata": {"a": 1},'
        ' "headers": {"id": "a1"},'
        ' "limits": [{"name": "api", "units": 2}, {"name": "customer", "key": "42"}]}'
    )
    ((id,),) = process.execute(f"SELECT {name}.enqueue('send', '{{\"to\": \"x\"}}', %s)", options)
    (job,) = await engine.get([id])
    assert job is not None
    assert (job.task, job.queue, job.args, job.priority) == ("send", "mail", '{"to": "x"}', 5)
    assert job.uses == (Use("c0:customer=42"), Use("r0:api", 2))
    assert job.retry.attempts == 7
    assert read_headers(job.headers) == {"id": "a1"}
    assert process.execute(f"SELECT {name}.enqueue('send', '{{}}', %s)", '{"unique": "u"}') == [(id,)]
    assert process.execute(f"SELECT {name}.enqueue('send', '{{}}', %s)", NULLS) != [(id,)]
    assert await engine.count(Filter()) == 2
    for wrong, says in (*WRONG, (f'{{"id": "{id}"}}', "exists already")):
        with pytest.raises(psycopg.Error, match=says):
            process.execute(f"SELECT {name}.enqueue('send', '{{}}', %s)", wrong)
    for task, args, says in (
        ("", "{}", "task must be a text"), (None, "{}", "task must be a text"), ("send", "[1]", "JSON object"),
        ("send", None, "the arguments must be a JSON object .* not NULL"), ("a=b", "{}", "contains \"=\""),
        ("x" * 252, "{}", "252 bytes; at most 251"),
    ):  # fmt: skip
        with pytest.raises(psycopg.Error, match=says):
            process.execute(f"SELECT {name}.enqueue(%s, %s)", task, args)
    assert await engine.count(Filter()) == 2
    await engine.sweep()
    assert audit(await engine.snapshot()) == []


async def test_an_app_enqueues_inside_a_transaction(process: PostgresProcess, schema: str) -> None:
    from typing import Annotated
    from urllib.parse import quote

    app = App(process.url(quote(schema)))
    ran: list[int] = []

    @app.task
    async def note(number: Annotated[int, ConcurrencyLimit(1)]) -> None:
        ran.append(number)

    told: list[tuple[str, bool]] = []
    app.on("enqueued", lambda event: told.append((event.job, event.within_transaction)))
    async with app, by_asyncpg(process.dsn) as (connection, commit, _), app.worker(concurrency=2):
        handle = await app.enqueue(note.job(1), connection=connection)
        assert told == [(handle.id, True)]
        await stays(lambda: ran == [], "no job runs before the commit")
        await commit()
        await handle.result(timeout=5)
    assert ran == [1]


async def test_a_job_starts_promptly_on_a_key_that_went_idle_while_its_transaction_was_open(
    process: PostgresProcess, schema: str
) -> None:
    """When its slot was given back, the job was still invisible to others; its commit has to bring it to the worker."""
    from typing import Annotated
    from urllib.parse import quote

    app = App(process.url(quote(schema)))
    finish, began, started = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task(name="hold")
    async def hold(key: Annotated[str, ConcurrencyLimit(1, scope="key")], last: bool) -> None:
        if last:
            started.set()
        else:
            began.set()
            await finish.wait()

    async with app, by_asyncpg(process.dsn) as (connection, commit, _), app.worker(concurrency=2):
        first = await hold.enqueue("k", False)
        await asyncio.wait_for(began.wait(), 5)
        second = await app.enqueue(hold.job("k", True), connection=connection)
        finish.set()
        await first.result(timeout=5)
        await asyncio.sleep(0.2)  # the worker has gone to sleep
        assert not started.is_set()
        await commit()
        await asyncio.wait_for(started.wait(), 0.9)  # before it would look again by itself
        await second.result(timeout=5)
        assert (await app.audit()).ok


@pytest.mark.parametrize("verb", ["cancel", "expedite"])
async def test_whoever_waits_for_a_callers_transaction_holds_up_nobody(
    open_engine: OpenEngine, process: PostgresProcess, verb: str
) -> None:
    """The job's row is held by a transaction that replaces it; who steers the job waits without holding the rules."""
    engine, other = await open_engine(), await open_engine()
    await engine.enqueue([NewJob("old", "t", delay=10**9, unique="u")])
    connection = await asyncpg.connect(process.dsn)
    try:
        async with connection.transaction():
            replacing = NewJob("new", "t", unique="u", on_conflict="replace")
            await engine.enqueue_within(connection, [replacing])
            steering = asyncio.create_task(getattr(engine, verb)(["old"]))
            await until(process.waiting, "it to wait for the job's row")
            async with asyncio.timeout(3):
                await other.declare([Limit("A", "concurrency", 1)])
                await other.register(Worker("w", frozenset("t")))
                assert (await other.exchange("w", [], 1)).attempts == ()
            assert not steering.done()
        (verdict,) = await asyncio.wait_for(steering, 3)
        assert (verdict.done, verdict.state) == (False, JobState.CANCELLED), "it was replaced"
    finally:
        await connection.close()
    assert audit(await engine.snapshot()) == []
