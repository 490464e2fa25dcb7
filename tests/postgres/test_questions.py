"""Questions in SQL: the connection stays as it was, rights of reading are enough, trouble of the server is not the
question's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import quote

import psycopg
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import TABLES, Limit, Settings, Worker
from headgate.engine.open import make_engine
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.errors import ConfigError, EngineUnavailable
from headgate.job import NewJob
from headgate.keys import Use
from tests.postgres.conftest import OpenEngine
from tests.postgres.pgbouncer import PgBouncer, program
from tests.support.postgres_server import PostgresProcess


async def one(engine: PostgresEngine, question: str) -> object:
    ((value,),) = (await engine.select(question)).rows
    return value


SETTINGS = ("statement_timeout", "search_path", "transaction_read_only", "jit", "work_mem")


async def test_a_question_leaves_nothing_on_its_connection(engine: PostgresEngine) -> None:
    async def settings() -> list[str]:
        async with engine.pools.connection() as connection:
            return [await connection.fetchval(f"SELECT current_setting('{name}')") for name in SETTINGS]

    before = await settings()
    await engine.select(
        "select set_config('work_mem', '64kB', false), set_config('search_path', 'nowhere', false)"
    )
    await engine.select("select pg_advisory_lock(1), pg_advisory_lock_shared(2)")
    with pytest.raises(ConfigError):
        await engine.select("select 1 / 0")
    assert await settings() == before
    assert await one(engine, "select count(*) from pg_locks where locktype = 'advisory'") == 0
    async with engine.pools.connection() as connection:
        prepared = await connection.fetch("SELECT statement FROM pg_prepared_statements")
        assert [text for (text,) in prepared if "AS question" in text] == []
        assert not connection.is_in_transaction()
    await engine.enqueue([NewJob("j", "t")])
    assert await one(engine, "select count(*) from jobs") == 1


async def test_what_the_server_can_do_beyond_sql_is_refused_where_it_would_write(
    engine: PostgresEngine, schema: str
) -> None:
    name = quoted(schema)
    await engine.enqueue([NewJob("j", "t")])
    for question in (
        f"select {name}.enqueue('t', '{{}}')", f"select nextval('{schema.replace(chr(39), chr(39) * 2)}.arrivals')",
        "select set_config('transaction_read_only', 'off', true)", "select * from jobs) as q; delete from jobs; --",
        f"with gone as (delete from {name}.jobs returning 1) select * from gone",
        f"select 1 from {name}.jobs for update",
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            await engine.select(question)
    with suppress(ConfigError):  # before 16, the server allows it in a transaction that only reads
        await engine.select("select lo_create(0)")
    assert await one(engine, "select count(*) from pg_largeobject_metadata") == 0
    assert await one(engine, "select count(*) from jobs") == 1


async def test_the_servers_words_and_hints_are_told(engine: PostgresEngine) -> None:
    with pytest.raises(ConfigError, match=r'column "stat" does not exist.*"jobs\.state"'):
        await engine.select("select stat from jobs")
    with pytest.raises(ConfigError, match="begins with SELECT, WITH, VALUES or TABLE"):
        await engine.select("explain analyze select 1")
    with pytest.raises(ConfigError, match="parameters"):
        await engine.select("select $1::text")
    with pytest.raises(ConfigError, match="no question"):
        await engine.select("select '\0'")
    with pytest.raises(ConfigError, match="cannot be read"):
        await engine.select("select '\ud800'")
    with pytest.raises(ConfigError, match="cannot be read"):
        await engine.select("select timestamptz '20000-01-01'")


@pytest.mark.parametrize("begin", ["", "  \n", "-- why\n", "/* a */ /* b */", "((", "/**/" * 1000])
async def test_a_question_may_begin_with_comments(engine: PostgresEngine, begin: str) -> None:
    end = ")" * begin.count("(")
    assert (await engine.select(f"{begin}select 1{end} ; ")).rows == ((1,),)


async def test_values_of_other_types_come_as_text(engine: PostgresEngine) -> None:
    found = await engine.select(
        "select 1.5::numeric, interval '1 day', '{1,NULL}'::int[], '{\"a\": 1}'::jsonb, 'jobs'::name, inet '10.0.0.1', "
        "date '2026-01-02', timestamptz '2026-01-02 03:04:05.000006+00', true, null"
    )
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    assert found.rows == (
        (
            Decimal("1.5"),
            "1 day, 0:00:00",
            [1, None],
            '{"a": 1}',
            "jobs",
            "10.0.0.1",
            "2026-01-02",
            moment,
            True,
            None,
        ),
    )


async def test_characters_that_the_server_does_not_store_come_back(engine: PostgresEngine) -> None:
    await engine.enqueue([NewJob("j", "t", queue="a\0b\x1bc")])
    assert await one(engine, "select queue from jobs") == "a\0b\x1bc"


async def test_a_question_that_takes_too_long_frees_its_connection(engine: PostgresEngine) -> None:
    with pytest.raises(ConfigError, match=r"longer than 0\.1 s"):
        await engine.select("select pg_sleep(60)", timeout=SECOND // 10)
    assert await one(engine, "select 1") == 1


async def test_trouble_of_the_server_is_not_the_questions(
    engine: PostgresEngine, process: PostgresProcess
) -> None:
    with pytest.raises(EngineUnavailable):
        await engine.select("select pg_terminate_backend(pg_backend_pid())")
    assert await one(engine, "select 1") == 1


@pytest.fixture
def reader(process: PostgresProcess) -> Iterator[str]:
    """A user that may only look."""
    for statement in ("DROP OWNED BY reader CASCADE", "DROP ROLE reader"):
        with suppress(psycopg.Error):
            process.execute(statement)
    process.execute("CREATE ROLE reader LOGIN")
    yield "reader"
    process.execute("DROP OWNED BY reader CASCADE")
    process.execute("DROP ROLE reader")


async def test_who_may_only_look_can_ask_and_see_every_page(
    engine: PostgresEngine, process: PostgresProcess, schema: str, reader: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use("c0:A=x"),)) for n in range(3)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.exchange("w", [], 1)
    process.execute(f"GRANT USAGE ON SCHEMA {quoted(schema)} TO reader")
    process.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(schema)} TO reader")
    looking = make_engine(process.url(quote(schema), user=reader), Settings())
    await looking.open()
    for table in TABLES:
        await looking.select(f"select * from {table.name}")
    for most in (None, 100):
        assert sum((await looking.totals(most=most)).counts.values()) == 3
        assert [queue.waiting for queue in await looking.queues(most=most)] == [2]
    assert [status.key for status in await looking.tightest()] == ["A=x"]
    (stands,) = await looking.keys(["c0:A=x"], waiters=5)
    assert stands is not None
    assert [waiter.job for waiter in stands.waiters] == ["j1", "j2"]
    assert await looking.history(0) == []
    assert await looking.paused_schedules() == frozenset()
    with pytest.raises(ConfigError, match="lacks a right"):
        await looking.pause_schedule("t")
    await looking.close()


@pytest.mark.skipif(program() is None, reason="pgbouncer is not installed")
async def test_questions_pass_a_pooler(
    process: PostgresProcess, schema: str, open_engine: OpenEngine
) -> None:
    await (await open_engine()).enqueue([NewJob("j", "t")])
    pooler = PgBouncer(process)
    engine = make_engine(pooler.url(quote(schema), "prepared=off"), Settings())
    await engine.open()
    for _ in range(5):
        found = await engine.select("select id, due, interval '1 day' from jobs")
        assert [row[0] for row in found.rows] == ["j"]
    with pytest.raises(ConfigError):
        await engine.select("select nothing from jobs")
    await engine.close()
    pooler.stop()


async def test_a_table_is_found_by_index(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """As the reference promises: what is asked for by its id does not read all jobs."""
    name = quoted(schema)
    await engine.enqueue([NewJob(f"j{n}", "t") for n in range(3000)])
    process.execute(f"VACUUM ANALYZE {name}.jobs")
    process.execute(f"VACUUM ANALYZE {name}.live")
    plan = process.execute(f"EXPLAIN SELECT * FROM {name}.sql_jobs WHERE id = 'j77'")
    assert not [line for (line,) in plan if "Seq Scan on jobs" in line or "Seq Scan on live" in line]
