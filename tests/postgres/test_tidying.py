"""Tables stay small under churn."""

from __future__ import annotations

import pytest

from headgate.engine.audit import audit
from headgate.engine.contract import Succeeded, Worker
from headgate.engine.postgres import PostgresEngine, tidying
from headgate.engine.postgres.lanes import Lanes
from headgate.job import NewJob
from tests.postgres.statistics import flush
from tests.postgres_server import PostgresProcess


@pytest.mark.parametrize("dead", [0, 10**6])
async def test_dead_rows_are_vacuumed_when_there_are_enough_of_them(
    engine: PostgresEngine, process: PostgresProcess, schema: str, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    monkeypatch.setattr(tidying, "DEAD", dead)
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([NewJob(f"j{number}", "t") for number in range(200)])
    answer = await engine.exchange("w", [], 200)
    await engine.exchange("w", [Succeeded(each.job, each.number) for each in answer.attempts], 0)
    lanes = Lanes(process.dsn, "the server", {})
    await flush(engine)
    vacuums = "SELECT vacuum_count FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'live'"
    before = process.execute(vacuums, schema)[0][0]
    await tidying.Tidy(lanes, schema).run()
    await lanes.close()
    await flush(engine)
    assert process.execute(vacuums, schema)[0][0] - before == (0 if dead else 1)
    assert audit(await engine.snapshot()) == []
