"""Servers, schemas and rights that do not fit: one clear error each, with what to do about it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from headgate import App, ConfigError, EngineUnavailable, SchemaMismatch
from headgate.cli.program import program
from headgate.engine.contract import Settings
from headgate.engine.open import make_engine
from headgate.engine.postgres import PostgresEngine, migrate
from headgate.engine.postgres.migrate import newest
from headgate.job import NewJob
from tests.postgres.test_deploy import GRANTS
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until


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


@pytest.mark.parametrize(
    ("option", "kind", "says"),
    [
        ("sslmode=perhaps", ConfigError, "`sslmode` parameter must be one of"),
        ("shema=jobs", ConfigError, 'option that neither Headgate nor the server knows .*"shema"'),
        ("statement_timeout=soon", ConfigError, "value that the server does not take .*statement_timeout"),
        ("options=-cfoo", ConfigError, "option that the server cannot read"),
        ("target_session_attrs=standby", EngineUnavailable, "none of the servers .* target_session_attrs"),
    ],
)
async def test_an_option_of_the_url_that_does_not_fit(
    process: PostgresProcess, option: str, kind: type[Exception], says: str
) -> None:
    await refused(f"{process.url()}&{option}", kind, says)


async def test_a_user_that_is_not_there(process: PostgresProcess) -> None:
    await refused(process.url(user="nobody_here"), ConfigError, "does not let this user in")


async def test_a_user_without_rights(process: PostgresProcess) -> None:
    process.execute("DROP ROLE IF EXISTS poor")
    process.execute("CREATE ROLE poor LOGIN")
    await refused(process.url("of_the_poor", user="poor"), ConfigError, "lacks a right")


GUARDED = ["host all guarded 127.0.0.1/32 scram-sha-256", "host all banned 127.0.0.1/32 reject"]


async def test_a_wrong_password_and_a_user_who_is_not_let_in() -> None:
    server = PostgresProcess("password_encryption=scram-sha-256", hba=GUARDED)
    server.start()
    try:
        server.execute("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'")
        server.execute("CREATE ROLE banned LOGIN")
        for user in ("guarded:wrong", "guarded"):
            await refused(server.url(user=user), ConfigError, "the password is wrong or missing")
        await refused(server.url(user="banned"), ConfigError, "does not let this user in")
        with pytest.raises(ConfigError) as caught:
            await make_engine(server.url(user="guarded:wr0ng"), Settings()).open()
        assert "wr0ng" not in str(caught.value)
        engine = make_engine(server.url(user="guarded:right"), Settings())
        await engine.open()
        await engine.close()
    finally:
        server.stop()


async def test_the_rights_that_the_guide_names_are_enough(process: PostgresProcess) -> None:
    """One user makes the schema, another works in it."""
    for statement in ("DROP SCHEMA IF EXISTS headgate CASCADE", "DROP OWNED BY worker", "DROP ROLE worker"):
        with suppress(psycopg.Error):
            process.execute(statement)
    process.execute("CREATE ROLE worker LOGIN")
    await refused(process.url(user="worker"), ConfigError, "lacks a right")
    owner = make_engine(process.url(), Settings())
    await owner.open()
    await owner.close()
    await refused(process.url(user="worker"), ConfigError, "lacks a right")
    process.execute(GRANTS)
    app = App(process.url(user="worker"))

    @app.task(max_concurrent=1)
    async def add(one: int, two: int) -> int:
        return one + two

    async with app, app.worker(concurrency=2):
        assert await (await add.enqueue(1, 2)).result(timeout=10) == 3
        await app.set_limit("task:add", 2, by="worker")
        assert (await app.audit()).ok
    process.execute("DROP OWNED BY worker")
    process.execute("DROP ROLE worker")
    process.execute("DROP SCHEMA headgate CASCADE")


async def test_a_database_in_another_encoding(process: PostgresProcess) -> None:
    process.execute("DROP DATABASE IF EXISTS latin")
    process.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    await refused(process.url(database="latin"), ConfigError, "LATIN1; Headgate needs UTF8")
    process.execute("DROP DATABASE latin")


async def test_a_server_that_is_too_old(process: PostgresProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no old one: the oldest that is taken is newer than the one there is. See test_versions.py."""
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 999)
    await refused(process.url("too_old"), SchemaMismatch, r"is PostgreSQL \d+; Headgate needs 999 or newer")
    assert process.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'too_old'") == []


async def test_a_read_only_server(process: PostgresProcess) -> None:
    url = process.url("read_only") + "&options=-c%20default_transaction_read_only%3Don"
    await refused(url, EngineUnavailable, "read-only")


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_a_default_isolation_under_which_the_verbs_would_fail(
    process: PostgresProcess, level: str
) -> None:
    url = process.url("isolated") + "&default_transaction_isolation=" + level.replace(" ", "%20")
    await refused(url, ConfigError, f"are {level} by default; Headgate needs read committed: ALTER ROLE")


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


def test_the_command_migrates_once_however_often_it_is_started(process: PostgresProcess) -> None:
    process.execute('DROP SCHEMA IF EXISTS "by command" CASCADE')
    command = [
        sys.executable,
        "-m",
        "headgate.cli",
        "migrate",
        "--json",
        "--url",
        process.url("by%20command"),
    ]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [msgspec.json.decode(each.communicate(timeout=60)[0]) for each in running]
    assert [each.returncode for each in running] == [0] * 4
    assert sorted(each["before"] for each in said) == [0, newest(), newest(), newest()]
    assert {each["after"] for each in said} == {newest()}
    process.execute("""UPDATE "by command".meta SET value = '99' WHERE name = 'version'""")
    newer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert newer.returncode != 0
    assert "has version 99" in newer.stderr
    assert "Traceback" not in newer.stderr
    process.execute('DROP SCHEMA "by command" CASCADE')


def test_commands_that_look_never_make_a_store(process: PostgresProcess) -> None:
    """A schema that is misspelt is not there afterwards either; nor is anything in one that is there and empty."""
    process.execute("DROP SCHEMA IF EXISTS misspelt CASCADE")
    process.execute("DROP SCHEMA IF EXISTS empty CASCADE")
    process.execute("CREATE SCHEMA empty")
    for name in ("misspelt", "empty"):
        for words in (["jobs"], ["limits"], ["pause", "default"]):
            result = CliRunner().invoke(program, [*words, "--url", process.url(name)])
            assert result.exit_code == 3
            assert "no Headgate store at postgresql://…@127.0.0.1" in result.stderr
            assert "headgate migrate" in result.stderr
    assert process.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'misspelt'") == []
    assert process.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'empty'") == []


async def test_a_statement_that_takes_too_long(process: PostgresProcess) -> None:
    engine = PostgresEngine(process.dsn + "?options=-c%20statement_timeout%3D200", schema="patient")
    await engine.open()
    process_lock = "BEGIN; LOCK TABLE patient.jobs IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1); COMMIT"
    holding = asyncio.create_task(asyncio.to_thread(process.execute, process_lock))
    locked = (
        "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'patient.jobs'::regclass"
    )
    await until(lambda: process.execute(locked), "the lock to be held")
    with pytest.raises(EngineUnavailable, match="statement_timeout"):
        await engine.enqueue([NewJob("j", "t")])
    await holding
    assert await engine.enqueue([NewJob("j", "t")])
    await engine.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://host/db?schema=", "names no schema"),
        ("postgresql://host:x/db", "'host:x' is no host and port"),
        ("postgresql://one:5432,two:x/db", "'two:x' is no host and port"),
        ("postgresql://host/db?prepared=maybe", "on or off"),
        ("postgresql://host/db#x", "%23"),
        ("postgresql+asyncpg://host/db", "write postgresql://"),
    ],
)
def test_a_url_that_can_never_work_is_refused_at_once(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        App(url)


@pytest.mark.parametrize("name", ["", "x" * 64, "pg_mine", "a$$b", "a\nb", "a\0b"])
def test_a_schema_name_that_cannot_be(name: str) -> None:
    with pytest.raises(ConfigError, match="schema name"):
        PostgresEngine("postgresql://host/db", schema=name)
