"""Tables stay small under churn."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Limit, Settings, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine, vacuum
from headgate.engine.postgres.pools import Pools
from headgate.engine.postgres.scripts import quoted
from headgate.engine.rules.audit import audit
from headgate.ids import new_id
from headgate.job import NewJob
from headgate.keys import Key, Use, canonical
from tests.postgres.statistics import flush
from tests.support.postgres_server import PostgresProcess


@pytest.mark.parametrize("dead", [0, 10**6])
async def test_dead_rows_are_vacuumed_when_there_are_enough_of_them(
    engine: PostgresEngine, process: PostgresProcess, schema: str, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    monkeypatch.setattr(vacuum, "DEAD", dead)
    await engine.declare([Limit("A", "concurrency", None)])
    await engine.register(Worker("w", frozenset("t")))
    uses = canonical([(Key("A"), 1)])
    for number in range(20):
        await engine.enqueue([NewJob(f"j{number}", "t", uses=uses)])
    answer = await engine.exchange("w", [], 200)
    assert len(answer.attempts) == 20
    await engine.exchange("w", [Succeeded(each.job, each.number) for each in answer.attempts], 0)
    pools = Pools(process.dsn, "the server", {}, Settings())
    await flush(engine)
    before = vacuums(process, schema)
    await vacuum.Vacuum(pools, schema).run()
    await pools.close()
    await flush(engine)
    times = 0 if dead else 1
    assert {table: count - before[table] for table, count in vacuums(process, schema).items()} == {
        "live": times,
        "rechecks": times,
    }
    assert audit(await engine.snapshot()) == []


async def test_a_list_of_keys_that_has_emptied_is_short_again(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """An entry on its last page keeps the first vacuum from shortening it, and goes afterwards."""
    await engine.declare([Limit("A", "concurrency", None)])
    await engine.register(Worker("w", frozenset("t")))
    table = f"{quoted(schema)}.rechecks"
    process.execute(f"INSERT INTO {table} SELECT 'c0:A=' || n FROM generate_series(1, 100000) AS n")
    process.execute(f"DELETE FROM {table} WHERE key <> 'c0:A=100000'")
    process.execute(f"VACUUM {table}")
    process.execute(f"DELETE FROM {table}")

    async def pages_read() -> int:
        await engine.enqueue([NewJob(new_id(), "t", uses=(Use("c0:A"),))])
        before = await pages(engine, process, schema)
        await engine.exchange("w", [], 1)
        return await pages(engine, process, schema) - before

    assert await pages_read() > vacuum.LONG, "each claim passes over the empty pages"
    pools = Pools(process.dsn, "the server", {}, Settings())
    await vacuum.Vacuum(pools, schema).run()
    await pools.close()
    assert await pages_read() < 20


async def pages(engine: PostgresEngine, process: PostgresProcess, schema: str) -> int:
    """How many pages of the list were ever read."""
    await flush(engine)
    ((read,),) = process.execute(
        "SELECT (heap_blks_hit + heap_blks_read)::bigint FROM pg_statio_user_tables "
        "WHERE schemaname = %s AND relname = 'rechecks'",
        schema,
    )
    return read


def vacuums(process: PostgresProcess, schema: str) -> dict[str, int]:
    return dict(
        process.execute(
            "SELECT relname, vacuum_count FROM pg_stat_user_tables WHERE schemaname = %s AND relname = ANY (%s)",
            schema,
            list(vacuum.TABLES),
        )
    )
