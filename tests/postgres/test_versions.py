"""Every version that is named or installed here: tables, functions and views are made and work, limits hold, nothing
leaks. Those that are too old are refused."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Annotated

import pytest

from headgate import App, ConcurrencyLimit, RateLimit, SchemaMismatch
from headgate.engine.contract import TABLES
from headgate.engine.postgres.migrate import OLDEST_SERVER
from headgate.engine.postgres.scripts import scripts
from tests.support.postgres_binaries import installations
from tests.support.postgres_server import PostgresProcess


def test_what_forbids_scans_forbids_compiling() -> None:
    """Before 18 a scan that is made all the same seems endless, and the server compiles it, for 0.1 s at each call."""
    heads = [
        function.partition("$$")[0]
        for _, script in scripts("functions")
        for function in script.split("CREATE OR REPLACE FUNCTION ")[1:]
    ]
    forbidding = [head for head in heads if "enable_seqscan = off" in head]
    assert len(forbidding) > 5
    assert [head.partition("(")[0] for head in forbidding if "jit = off" not in head] == []


def test_what_melts_into_a_plan_is_called_with_plain_arguments() -> None:
    """Else servers before 18 plan it at each call: with a query among the arguments, or a function that is VOLATILE."""
    calls = re.compile(
        r"headgate\._(?:free|rules|rooms|uses_of|lines|next_due|cancelling)\((?:ARRAY\(|headgate\.)"
    )
    assert {name: found for name, script in scripts("functions") if (found := calls.findall(script))} == {}


@pytest.mark.parametrize("version", installations())
async def test_a_mixed_load_on_each_version(version: int) -> None:
    server = PostgresProcess("fsync=off", bin=installations()[version])
    server.start()
    try:
        await (_work if version >= OLDEST_SERVER else _refused)(server)
    finally:
        server.stop()


async def _refused(server: PostgresProcess) -> None:
    app = App(server.url())
    for call in (app.open, app.migrate):
        with pytest.raises(SchemaMismatch, match=r"is PostgreSQL \d+; Headgate needs 14 or newer"):
            await call()
    await app.close()
    assert server.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'headgate'") == []


async def _work(server: PostgresProcess) -> None:
    app = App(server.url())
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()

    @app.task(max_concurrent=6)
    async def work(
        number: int, key: Annotated[int, ConcurrencyLimit(2)], api: Annotated[str, RateLimit(1000, per=1)]
    ) -> int:
        running[key] += 1
        most[key] = max(most[key], running[key])
        await asyncio.sleep(0.002)  # it works, beside others of its key
        running[key] -= 1
        return number

    async with app:
        async with app.worker(concurrency=20):
            handles = await app.enqueue_many([work.job(n, n % 5, "a") for n in range(200)])
            handles.append(await work.options(delay=0.2, unique="u", priority=1).enqueue(200, 0, "b"))
            again = await work.options(unique="u").enqueue(201, 0, "b")
            assert again.id == handles[-1].id
            results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
            assert results == list(range(201))
        server.execute("SELECT headgate.enqueue('nobody', '{}', '{\"queue\": \"elsewhere\"}')")
        views = [
            "jobs_view",
            "limits_view",
            "holders_view",
            "waiting_view",
            *(f"sql_{table.name}" for table in TABLES),
        ]
        for view in views:
            server.execute(f"SELECT * FROM headgate.{view}")
        assert (await app.audit()).ok
    assert max(most.values()) == 2
