"""During a deploy: workers of the code of yesterday go on while a newer release changes the schema under their feet."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import psycopg
import pytest

from headgate import App, ConcurrencyLimit, SchemaMismatch
from headgate.clock import SECOND
from headgate.engine.contract import Done, Filter, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine, migrate
from headgate.engine.postgres.migrate import newest
from headgate.engine.postgres.scripts import scripts
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "postgresql.md").read_text("utf-8")
GRANTS = "GRANT" + GUIDE.partition("```sql\nGRANT")[2].partition("```")[0]
LATER = """
ALTER TABLE headgate.jobs ADD COLUMN colour text;
ALTER TABLE headgate.live ADD COLUMN colour text;
ALTER TABLE headgate.holders ADD COLUMN colour text;
ALTER TABLE headgate.keys ADD COLUMN colour text;
CREATE INDEX jobs_colour ON headgate.jobs (colour) WHERE colour IS NOT NULL;
CREATE TABLE headgate.colours (colour text PRIMARY KEY);
"""


def of_tomorrow(folder: str) -> tuple[tuple[str, str], ...]:
    """The scripts of a release with one migration more."""
    return (*scripts(folder), *([("999_later.sql", LATER)] if folder == "migrations" else []))


@pytest.fixture
def store(process: PostgresProcess) -> str:
    """A schema that no other test uses: its version is not ours any more."""
    process.execute("DROP SCHEMA IF EXISTS deployed CASCADE")
    return "deployed"


async def test_running_workers_go_on_while_the_schema_is_migrated(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(process.url(quote(store)))
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    ran: Counter[int] = Counter()

    @app.task
    async def work(number: int, key: Annotated[int, ConcurrencyLimit(2)]) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        await asyncio.sleep(0.002)  # it works, beside others of its key
        ran[number] += 1
        running[key] -= 1

    stop = asyncio.Event()
    handles = []

    async def enqueue() -> None:
        while not stop.is_set():
            handles.append(await work.enqueue(len(handles), len(handles) % 10))

    caplog.set_level(logging.WARNING, "headgate")
    async with app, app.worker(concurrency=20), asyncio.timeout(60):
        enqueuing = asyncio.create_task(enqueue())
        await until(lambda: len(ran) >= 100)
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "scripts", of_tomorrow)
            newer = PostgresEngine(process.dsn, schema=store)
            assert await newer.migrate() == (newest() - 1, newest())
            await newer.enqueue([NewJob("from-tomorrow", "work", args='{"number": -1, "key": 99}')])
            await newer.close()
        after = len(ran)
        await until(lambda: len(ran) >= after + 100)
        stop.set()
        await enqueuing
        for handle in handles:
            await handle.result(timeout=30)
        await (await app.job("from-tomorrow")).result(timeout=30)
        assert (await app.audit()).ok
    assert set(ran.values()) == {1}
    assert max(most.values()) == 2
    assert [record.message for record in caplog.records] == []
    yesterday = PostgresEngine(process.dsn, schema=store)
    with pytest.raises(SchemaMismatch, match="upgrade Headgate"):
        await yesterday.open()
    await yesterday.close()


async def test_a_migration_waits_its_turn_and_holds_up_nobody_for_long(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes tables in whatever order it needs them, others in another: it steps back instead of waiting."""
    engine = PostgresEngine(process.dsn, schema=store)
    await engine.open()
    with monkeypatch.context() as patch, psycopg.connect(process.dsn) as other:
        patch.setattr(migrate, "scripts", of_tomorrow)
        other.execute("SELECT count(*) FROM deployed.keys")
        newer = PostgresEngine(process.dsn, schema=store)
        migrating = asyncio.create_task(newer.migrate())
        await until(process.waiting, "the migration to wait")
        await asyncio.wait_for(engine.enqueue([NewJob("j", "t")]), 5)
        assert not migrating.done()
        other.rollback()
        assert await migrating == (newest() - 1, newest())
        await newer.close()
    await engine.close()


async def test_what_was_granted_and_built_upon_the_views_outlives_a_migration(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose user is not the owner goes on, and so does a report that is under way."""
    for statement in ("DROP OWNED BY hand CASCADE", "DROP ROLE hand"):
        with suppress(psycopg.Error):
            process.execute(statement)
    process.execute("CREATE ROLE hand LOGIN")
    owner = PostgresEngine(process.dsn, schema=store)
    await owner.open()
    process.execute(GRANTS.replace("headgate", store).replace("worker", "hand"))
    process.execute("CREATE SCHEMA reports")
    process.execute("CREATE VIEW reports.failed AS SELECT * FROM deployed.jobs_view WHERE state = 'failed'")
    app = App(process.url(store, user="hand"))

    @app.task
    async def work(key: Annotated[int, ConcurrencyLimit(1)]) -> int:
        return key

    try:
        async with app, app.worker(concurrency=2):
            assert await (await work.enqueue(1)).result(timeout=10) == 1
            with monkeypatch.context() as patch:
                patch.setattr(migrate, "scripts", of_tomorrow)
                assert await owner.migrate() == (newest() - 1, newest())
            assert await (await work.enqueue(2)).result(timeout=10) == 2
            assert (await app.audit()).ok
        process.execute("SET ROLE hand; SELECT * FROM deployed.colours; SELECT * FROM deployed.limits_view")
        assert process.execute("SELECT * FROM reports.failed") == []
    finally:
        await owner.close()
        process.execute("DROP SCHEMA reports CASCADE")
        process.execute("DROP OWNED BY hand CASCADE")
        process.execute("DROP ROLE hand")


def tables_of_version(number: int) -> Callable[[str], tuple[tuple[str, str], ...]]:
    """The scripts that made the tables of a version; its functions, which belong to its code, are left out."""
    return lambda folder: scripts(folder)[:number] if folder == "migrations" else ()


async def older(
    process: PostgresProcess, store: str, patch: pytest.MonkeyPatch, number: int
) -> PostgresEngine:
    """A store of an older version, with the jobs j0, j1 and j2 of a task, each in a row as plain as that version's."""
    engine = PostgresEngine(process.dsn, schema=store)
    with patch.context() as patched:
        patched.setattr(migrate, "scripts", tables_of_version(number))
        assert await engine.migrate() == (0, number)
    for n in range(3):
        process.execute(
            f"INSERT INTO {store}.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, retry) "
            f"VALUES (nextval('{store}.arrivals'), 'j{n}', 't', 'default', '', 50, 1, '{{}}', '[3,0,1.0,0,0.0]'); "
            f"INSERT INTO {store}.live (seq, task, queue, tenant, priority, due, state) "
            f"VALUES (currval('{store}.arrivals'), 't', 'default', '', 50, 1, 'ready')"
        )
    return engine


async def test_jobs_that_the_release_before_did_not_ask_for_their_keys_are_asked_after_an_upgrade(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to version 4 newcomers that needed tokens alone were ready, in a line of their own."""
    engine = await older(process, store, monkeypatch, 4)
    process.execute(
        f"INSERT INTO {store}.limits (name, kind, max, period, algorithm) "
        f"VALUES ('R', 'rate', 1, {100 * SECOND}, 'token_bucket'); "
        f"UPDATE {store}.jobs SET use_keys = '{{r0:R}}', use_units = '{{1}}'; "
        f"UPDATE {store}.live SET use_keys = '{{r0:R}}', use_units = '{{1}}', fresh = true"
    )
    assert await engine.migrate() == (4, newest())
    await engine.register(Worker("w", frozenset({"t"})))
    assert [attempt.job for attempt in (await engine.exchange("w", [], 5)).attempts] == ["j0"]
    assert audit(await engine.snapshot()) == []
    await engine.close()


async def test_what_version_6_has_set_aside_keeps_its_order_and_jobs_get_headers_from_then_on(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await older(process, store, monkeypatch, 6)
    process.execute(f"UPDATE {store}.live SET set_aside = true, task = 'sync' WHERE seq <= 2")
    process.execute(f"UPDATE {store}.jobs SET task = 'sync' WHERE seq <= 2")
    assert await engine.migrate() == (6, newest())
    await engine.enqueue([NewJob("new", "sync", headers='{"id":"a"}')])
    await engine.register(Worker("w", frozenset({"t", "sync"}), threaded=frozenset({"sync"})))
    first = await engine.exchange("w", [], 5, threads=1)
    assert [(attempt.job, attempt.headers) for attempt in first.attempts] == [("j0", None), ("j2", None)]
    rest = await engine.exchange("w", [], 5, threads=5)
    assert [(attempt.job, attempt.headers) for attempt in rest.attempts] == [
        ("j1", None),
        ("new", '{"id":"a"}'),
    ]
    assert audit(await engine.snapshot()) == []
    await engine.close()


async def test_what_version_7_has_stored_is_counted_and_adds_to_the_history_from_then_on(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await older(process, store, monkeypatch, 7)
    process.execute(
        f"INSERT INTO {store}.ended (seq, state, due, attempt, tries, ended_at, cancel_requested, expires_at) "
        f"VALUES (1, 'failed', 1, 1, 1, 1, false, {4 * 10**15}); DELETE FROM {store}.live WHERE seq = 1"
    )
    assert await engine.migrate() == (7, newest())
    totals = await engine.totals(most=2)
    assert (totals.counts[JobState.FAILED], totals.counts[JobState.READY], totals.partial) == (
        1,
        2,
        {JobState.READY},
    )
    assert [job.id for job in await engine.find(Filter(states=(JobState.FAILED,)))] == ["j0"]
    now = await engine.register(Worker("w", frozenset({"t"})))
    await engine.heartbeat("w", done=[Done(now, "q", "t", started=1)])
    assert [done.started for done in await engine.history(0)] == [1]
    assert (await engine.select("select id from jobs order by id")).rows == (("j0",), ("j1",), ("j2",))
    await engine.close()


async def test_what_version_8_holds_and_lets_wait_goes_on_and_gets_shares_and_sizes_from_then_on(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await older(process, store, monkeypatch, 8)
    process.execute(
        f"INSERT INTO {store}.limits (name, kind, max, period, algorithm) "
        "VALUES ('A', 'concurrency', 1, 0, 'token_bucket'), ('F', 'floating', 1, 0, 'token_bucket'), "
        f"('queue:q', 'concurrency', 5, 0, 'token_bucket'), ('R', 'rate', 1, {10**15}, 'token_bucket'); "
        f"INSERT INTO {store}.computed VALUES ('c0:F', 7, {4 * 10**15}); "
        f"INSERT INTO {store}.meters VALUES ('r0:R', {4 * 10**15}); "
        f"INSERT INTO {store}.keys VALUES ('c0:A'), ('c0:F'); "
        f"INSERT INTO {store}.workers (id, tasks, lease, host, pid, concurrency, registered_at, lease_until) "
        f"VALUES ('w', '{{t}}', {10**15}, 'h', 1, 9, 1, {4 * 10**15}); "
        f"UPDATE {store}.jobs SET use_keys = '{{c0:A}}', use_units = '{{1}}' WHERE seq <= 2; "
        f"UPDATE {store}.live SET use_keys = '{{c0:A}}', use_units = '{{1}}', state = 'running', worker = 'w', "
        "attempt = 1, tries = 1, started_at = 1 WHERE seq = 1; "
        f"INSERT INTO {store}.holders VALUES ('c0:A', 1, 1, false, NULL); "
        f"UPDATE {store}.live SET use_keys = '{{c0:A}}', use_units = '{{1}}', state = 'waiting', waiting_on = 'c0:A', "
        "units = 1, refusals = 0 WHERE seq = 2"
    )
    assert await engine.migrate() == (8, newest())
    assert audit(await engine.snapshot()) == []
    status = {line.key: line for line in await engine.limits()}
    assert (status["A"].held, status["A"].waiting, status["F"].max) == (1, 1, 7)
    assert status["R"].tokens is not None
    assert status["R"].tokens <= 0
    answer = await engine.exchange("w", [Succeeded("j0", 1)], 5)
    assert [attempt.job for attempt in answer.attempts] == ["j1", "j2"]
    await engine.enqueue([NewJob("shared", "t", share="a")])
    (job,) = await engine.get(["shared"])
    assert job is not None
    assert (job.share, job.tag) == ("a", 10_000)
    assert audit(await engine.snapshot()) == []
    await engine.close()


KEEP = "'{1000000,1000000,1000000}'"
CALLS_OF_THE_RELEASE_BEFORE = (
    f"register('w', '{{t}}', NULL, 1000000000000, 'host', 1, 5, NULL, 1000, {KEEP}, 'me')",
    (
        "_enqueue_one('one', 't', 'q', '{}', '', 50::smallint, 0, NULL, '[3,0,1.0,0,0.0]', NULL, '{}', NULL, NULL, "
        "NULL, NULL, NULL, 'me', NULL)"
    ),
    (
        "_enqueue('{two,three}', '{t}', '{q}', '{\"{}\"}', '{\"\"}', '{50}', '{0}', '{NULL}', '{\"[3,0,1.0,0,0.0]\"}', "
        "'{NULL}', '{NULL}', '{return}', '{NULL}', '{NULL}', '{}', '{}', '{}', '{}', '{}', NULL, NULL, 1000, "
        f"{KEEP}, 'me', NULL)"
    ),
    f"steer('cancel', '{{three}}', NULL, 1000, {KEEP}, 'me')",
    f"exchange('w', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', 5, NULL, NULL, 8, 1000, {KEEP}, 'me', false, 1, true)",
    "heartbeat('w', NULL::bigint)",
    "_waiting_for('A', NULL, NULL, NULL, NULL, NULL, 100, 10)",
    (
        "_enqueue_one('four', 't', 'q', '{}', '', 50::smallint, 0, NULL, '[3,0,1.0,0,0.0]', NULL, '{}', NULL, NULL, "
        "NULL, NULL, NULL, NULL, 'me', NULL)"
    ),
    (
        "_enqueue('{five}', '{t}', '{q}', '{\"{}\"}', '{\"\"}', '{50}', '{0}', '{NULL}', '{\"[3,0,1.0,0,0.0]\"}', "
        "'{NULL}', '{NULL}', '{return}', '{NULL}', '{NULL}', '{NULL}', '{}', '{}', '{}', '{}', '{}', NULL, NULL, 1000, "
        f"{KEEP}, 'me', NULL)"
    ),
    f"steer('cancel', '{{five}}', NULL, NULL, NULL, NULL, 1000, {KEEP}, 'me')",
    f"sweep(NULL, 1000, {KEEP}, 'me', 1000)",
)
"""As its statements call functions whose parameters or results are others now."""


async def test_calls_of_the_release_before_do_what_they_did(process: PostgresProcess, store: str) -> None:
    engine = PostgresEngine(process.dsn, schema=store)
    await engine.open()
    for call in CALLS_OF_THE_RELEASE_BEFORE:
        process.execute(f"SELECT * FROM {store}.{call}")
    states = await engine.states(["one", "two", "three", "four", "five"])
    assert [str(state) for state in states] == ["running", "running", "cancelled", "ready", "cancelled"]
    assert audit(await engine.snapshot()) == []
    await engine.close()
