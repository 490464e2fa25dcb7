"""What the guide promises: its programs and statements run, its views have the columns that it names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headgate.engine.contract import Limit, Override, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.support.docs_pages import blocks
from tests.support.docs_running import run_page
from tests.support.postgres_server import PostgresProcess

URL = "postgresql://ada@localhost/shop"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "postgresql.md"
VIEWS = re.findall(r"^\| `(\w+_view)` \| .* \| (.*) \|$", GUIDE.read_text("utf-8"), re.MULTILINE)


class Database:
    """A database of the test's own, with the schema named as in the guide."""

    def __init__(self, process: PostgresProcess) -> None:
        self.process = process
        self.dsn = process.dsn.removesuffix("postgres") + "guide"

    def __call__(self, statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)  # pyright: ignore[reportArgumentType, reportCallIssue]
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def sql(process: PostgresProcess) -> Iterator[Database]:
    process.execute("DROP DATABASE IF EXISTS guide WITH (FORCE)")
    process.execute("CREATE DATABASE guide")
    process.execute("DROP ROLE IF EXISTS worker")
    process.execute("CREATE ROLE worker")
    yield Database(process)
    process.execute("DROP DATABASE guide WITH (FORCE)")
    process.execute("DROP ROLE worker")


async def busy(sql: Database) -> PostgresEngine:
    """A store where one job holds a key that two others wait on, and one is ready."""
    engine = PostgresEngine(sql.dsn)
    await engine.open()
    await engine.declare([Limit("customer", "concurrency", 1), Limit("api", "rate", 5, 60_000_000)])
    key = Use(Key("customer", "42", "acme").ident)
    await engine.enqueue([NewJob(f"j{n}", "send", "mail", tenant="acme", uses=(key,)) for n in range(3)])
    await engine.enqueue([NewJob("free", "send", metadata='{"a": 1}', unique="u")])
    await engine.register(Worker("w", frozenset({"send"})))
    answer = await engine.exchange("w", [], 5, ["mail"])
    assert [attempt.job for attempt in answer.attempts] == ["j0"]
    return engine


def test_every_python_block_of_the_guide_runs(sql: Database, tmp_path: Path) -> None:
    found = [replace(block, text=block.text.replace(URL, sql.dsn)) for block in blocks(GUIDE)]
    assert sum(sql.dsn in block.text for block in found) == 1
    run_page(found, tmp_path)
    asyncio.set_event_loop(None)
    items = sql("SELECT item FROM orders ORDER BY id")
    assert items == [("tea",), ("milk",), ("salt",)]


async def test_every_statement_of_the_guide_runs(sql: Database) -> None:
    engine = await busy(sql)
    statements = [block.text for block in blocks(GUIDE) if block.language == "sql"]
    assert len(statements) >= 3
    for statement in statements:
        assert sql(statement) is not None
    (job,) = [job for job in await engine.get(await ids(sql)) if job is not None and job.queue == "email"]
    assert (job.task, job.args, job.uses) == ("send", '{"to": "a@b.c"}', (Use("c0:customer=42"),))
    assert job.state is JobState.SCHEDULED
    assert audit(await engine.snapshot()) == []
    await engine.close()


async def ids(sql: Database) -> list[str]:
    return [id for (id,) in sql("SELECT id FROM headgate.jobs_view")]


async def test_the_views_have_the_columns_that_the_guide_names(sql: Database) -> None:
    engine = await busy(sql)
    await engine.close()
    assert [view for view, _ in VIEWS] == ["jobs_view", "limits_view", "holders_view", "waiting_view"]
    for view, columns in VIEWS:
        there = sql(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'headgate' AND table_name = %s ORDER BY ordinal_position",
            view,
        )
        assert re.findall(r"`(\w+)`", columns) == [name for (name,) in there]


async def test_the_views_show_who_holds_what_and_who_waits(sql: Database) -> None:
    engine = await busy(sql)
    await engine.override(Override("customer", 1, "42", "acme", by="ops"))
    assert sql("SELECT key, tenant, job, task, queue, worker, reserved FROM headgate.holders_view") == [
        ("customer=42", "acme", "j0", "send", "mail", "w", False)
    ]
    waiting = sql("SELECT key, tenant, queue, job, place FROM headgate.waiting_view ORDER BY place")
    assert waiting == [
        ("customer=42", "acme", "mail", "j1", 1),
        ("customer=42", "acme", "mail", "j2", 2),
    ]
    limits = sql(
        'SELECT key, tenant, kind, "max", declared, held, waiting FROM headgate.limits_view ORDER BY key'
    )
    assert ("customer=42", "acme", "concurrency", 1, 1, 1, 2) in limits
    assert ("api", None, "rate", 5, 5, 0, 0) in limits
    jobs = sql(
        "SELECT id, state, tenant, waiting_on, limits, worker, attempt FROM headgate.jobs_view ORDER BY id"
    )
    assert jobs == [
        ("free", "ready", None, None, [], None, 0),
        ("j0", "running", "acme", None, ["customer=42"], "w", 1),
        ("j1", "waiting", "acme", "customer=42", ["customer=42"], None, 0),
        ("j2", "waiting", "acme", "customer=42", ["customer=42"], None, 0),
    ]
    ((age, unique, metadata),) = sql(
        "SELECT extract(epoch FROM now() - enqueued_at), \"unique\", metadata FROM headgate.jobs_view WHERE id = 'free'"
    )
    assert 0 <= age < 60
    assert (unique, metadata) == ("u", '{"a": 1}')
    assert audit(await engine.snapshot()) == []
    await engine.close()
