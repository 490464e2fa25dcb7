"""During a deploy: workers of the code of yesterday go on while a newer release changes the schema under their feet."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import psycopg
import pytest

from headgate import App, ConcurrencyLimit, SchemaMismatch
from headgate.clock import SECOND
from headgate.engine.contract import Limit, Worker
from headgate.engine.postgres import PostgresEngine, migrate
from headgate.engine.postgres.migrate import newest
from headgate.engine.postgres.scripts import scripts
from headgate.engine.rules.audit import audit
from headgate.job import NewJob
from headgate.keys import Use
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


async def test_jobs_that_the_release_before_did_not_ask_for_their_keys_are_asked_after_an_upgrade(
    process: PostgresProcess, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to version 4 newcomers that needed tokens alone were ready, in a line of their own."""

    def of_yesterday(folder: str) -> tuple[tuple[str, str], ...]:
        return scripts(folder)[:4] if folder == "migrations" else scripts(folder)

    engine = PostgresEngine(process.dsn, schema=store)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "scripts", of_yesterday)
        assert await engine.migrate() == (0, 4)
    await engine.declare([Limit("R", "rate", 1, 100 * SECOND)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use("r0:R"),)) for n in range(3)])
    process.execute(
        "UPDATE deployed.live SET state = 'ready', fresh = true, unseen = false, waiting_on = NULL, units = 0, "
        "refusals = NULL"
    )
    process.execute("DELETE FROM deployed.rechecks")
    assert await engine.migrate() == (4, newest())
    await engine.register(Worker("w", frozenset({"t"})))
    assert [attempt.job for attempt in (await engine.exchange("w", [], 5)).attempts] == ["j0"]
    assert audit(await engine.snapshot()) == []
    await engine.close()
