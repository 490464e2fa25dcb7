"""Servers, schemas and rights that do not fit: one clear error each, with what to do about it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headgate import App, ConfigError, EngineUnavailable, SchemaMismatch
from headgate.engine.contract import Settings
from headgate.engine.open import make_engine
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.migrate import newest
from headgate.job import NewJob
from tests.postgres_server import PostgresProcess


async def refused(url: str, kind: type[Exception], says: str) -> None:
    engine = make_engine(url, Settings())
    try:
        with pytest.raises(kind, match=says):
            await engine.open()
    finally:
        await engine.close()


async def test_a_server_that_is_not_there() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    await refused(f"postgresql://x@127.0.0.1:{port}/db", EngineUnavailable, "cannot be reached")


async def test_a_database_that_is_not_there(process: PostgresProcess) -> None:
    await refused(process.url(database="nowhere"), ConfigError, "no such database")


async def test_a_user_that_is_not_there(process: PostgresProcess) -> None:
    await refused(process.url(user="nobody_here"), ConfigError, "does not let this user in")


async def test_a_user_without_rights(process: PostgresProcess) -> None:
    process.execute("DROP ROLE IF EXISTS poor")
    process.execute("CREATE ROLE poor LOGIN")
    await refused(process.url("of_the_poor", user="poor"), ConfigError, "lacks the rights")


async def test_a_read_only_server(process: PostgresProcess) -> None:
    url = process.url("read_only") + "&options=-c%20default_transaction_read_only%3Don"
    await refused(url, EngineUnavailable, "read-only")


async def test_a_schema_of_another_program(process: PostgresProcess) -> None:
    process.execute("DROP SCHEMA IF EXISTS theirs CASCADE")
    process.execute("CREATE SCHEMA theirs CREATE TABLE jobs (id int)")
    await refused(process.url("theirs"), SchemaMismatch, "holds other tables")


async def test_a_newer_schema_is_refused(process: PostgresProcess) -> None:
    process.execute("DROP SCHEMA IF EXISTS newer CASCADE")
    engine = PostgresEngine(process.dsn, schema="newer")
    assert await engine.migrate() == (0, newest())
    assert await engine.migrate() == (newest(), newest())
    await engine.close()
    process.execute("UPDATE newer.meta SET value = '99' WHERE name = 'version'")
    await refused(process.url("newer"), SchemaMismatch, "has version 99")


async def test_a_schema_that_was_dropped_meanwhile(process: PostgresProcess) -> None:
    engine = PostgresEngine(process.dsn, schema="dropped")
    await engine.open()
    process.execute("DROP SCHEMA dropped CASCADE")
    with pytest.raises(SchemaMismatch, match="headgate migrate"):
        await engine.enqueue([NewJob("j", "t")])
    await engine.close()


async def test_two_processes_migrate_at_once(process: PostgresProcess) -> None:
    process.execute("DROP SCHEMA IF EXISTS twice CASCADE")
    engines = [PostgresEngine(process.dsn, schema="twice") for _ in range(4)]
    await asyncio.gather(*(engine.open() for engine in engines))
    assert await engines[0].enqueue([NewJob("j", "t")])
    for engine in engines:
        await engine.close()


async def test_a_statement_that_takes_too_long(process: PostgresProcess) -> None:
    engine = PostgresEngine(process.dsn + "?options=-c%20statement_timeout%3D200", schema="patient")
    await engine.open()
    process_lock = "BEGIN; LOCK TABLE patient.jobs IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1); COMMIT"
    holding = asyncio.create_task(asyncio.to_thread(process.execute, process_lock))
    await asyncio.sleep(0.2)
    with pytest.raises(EngineUnavailable, match="statement_timeout"):
        await engine.enqueue([NewJob("j", "t")])
    await holding
    assert await engine.enqueue([NewJob("j", "t")])
    await engine.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://host/db?schema=", "names no schema"),
        ("postgresql://host:x/db", "ort"),
        ("postgresql://host/db?prepared=maybe", "on or off"),
        ("postgresql://host/db#x", "%23"),
    ],
)
def test_a_url_that_can_never_work_is_refused_at_once(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        App(url)


@pytest.mark.parametrize("name", ["", "x" * 64, "pg_mine", "a$$b"])
def test_a_schema_name_that_cannot_be(name: str) -> None:
    with pytest.raises(ConfigError, match="schema name"):
        PostgresEngine("postgresql://host/db", schema=name)


async def test_other_programs_views_of_the_store(process: PostgresProcess) -> None:
    engine = PostgresEngine(process.dsn, schema="viewed")
    await engine.open()
    await engine.enqueue([NewJob("j", "t", tenant="acme")])
    assert process.execute("SELECT id, task, tenant, state FROM viewed.jobs_view") == [
        ("j", "t", "acme", "ready")
    ]
    for view in ("limits_view", "holders_view", "waiting_view"):
        assert process.execute(f"SELECT * FROM viewed.{view}") == []
    await engine.close()
    process.execute("DROP SCHEMA viewed CASCADE")
