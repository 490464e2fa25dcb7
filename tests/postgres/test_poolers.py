"""Through pgbouncer in transaction mode, where it is installed: by polling, and it says so."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

import pytest

from headgate import App, ConcurrencyLimit, ConfigError, Task
from headgate.engine.contract import Settings
from headgate.engine.open import make_engine
from headgate.engine.postgres import waking
from tests.postgres.pgbouncer import PgBouncer, program
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(program() is None, reason="pgbouncer is not installed")


@pytest.fixture
def pgbouncer(process: PostgresProcess) -> Iterator[PgBouncer]:
    pooler = PgBouncer(process)
    yield pooler
    pooler.stop()


def adding(app: App) -> Task:
    @app.task(name="add")
    async def add(one: Annotated[int, ConcurrencyLimit(1)], two: int) -> int:
        return one + two

    return add


async def test_it_works_by_polling_and_says_so(
    pgbouncer: PgBouncer,
    schema: str,
    process: PostgresProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(waking, "ECHO_TIMEOUT", 0.3)
    app = App(pgbouncer.url(quote(schema), "prepared=off"))
    add = adding(app)

    def polling() -> bool:
        return "notifications do not come through" in caplog.text

    with caplog.at_level(logging.WARNING, "headgate"):
        async with app, app.worker(concurrency=10):
            handles = await asyncio.gather(*(add.enqueue(number % 5, number) for number in range(100)))
            results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
            assert results == [number % 5 + number for number in range(100)]
            await until(polling, "a worker that asks", 10)
            name = '"' + schema.replace('"', '""') + '"'
            assert process.execute(f"SELECT * FROM {name}.listeners") == [], "no notification is sent in vain"
            async with App(app.url) as elsewhere:
                began = time.monotonic()
                handle = await adding(elsewhere).enqueue(1, 2)
                assert await handle.result(timeout=10) == 3
                assert time.monotonic() - began < 2 * waking.POLL + 0.5
            assert (await app.audit()).ok
    assert caplog.text.count("notifications do not come through") <= 2, "once for each app"
    assert caplog.text.count("ERROR") == 0


async def test_prepared_statements_that_the_pooler_mixes_up_are_said(
    pgbouncer: PgBouncer, schema: str
) -> None:
    """pgbouncer before 1.21, or with max_prepared_statements = 0."""
    engines = [make_engine(pgbouncer.url(quote(schema)), Settings()) for _ in range(4)]
    errors: list[object] = []
    for _ in range(10):
        calls = [call for engine in engines for call in (engine.open(), engine.sweep())]
        errors += [error for error in await asyncio.gather(*calls, return_exceptions=True) if error]
    for engine in engines:
        await engine.close()
    assert any(isinstance(error, ConfigError) and "?prepared=off" in str(error) for error in errors)
