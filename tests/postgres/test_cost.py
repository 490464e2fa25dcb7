"""What a verb reads follows what it does, not what waits: counted by the server, with 100,000 jobs waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from headgate.engine.audit import audit
from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.postgres.statistics import flush
from tests.postgres_server import PostgresProcess

WAITING = 100_000
MOST = 300
"""Rows and index entries that one call with a handful of jobs may read. Who looks at all waiters reads 100,000."""

A = (Use(Key("A").ident),)
R = (Use(Key("R", rate=True).ident),)


class Meter:
    """Counts rows and index entries that the server read in a schema."""

    def __init__(self, engine: PostgresEngine, process: PostgresProcess, schema: str) -> None:
        self.engine = engine
        self.process = process
        self.schema = schema

    async def cost(self, call: Callable[[], Awaitable[object]]) -> tuple[int, int]:
        """Sequential scans of tables with many rows, and all rows and entries read, by one call."""
        before = await self._counts()
        await call()
        scans, read = await self._counts()
        return scans - before[0], read - before[1]

    async def _counts(self) -> tuple[int, int]:
        await flush(self.engine)
        ((scans, rows),) = self.process.execute(
            "SELECT sum(seq_scan) FILTER (WHERE relname IN ('jobs', 'live', 'ended', 'holders', 'keys'))::bigint, "
            "sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE schemaname = %s",
            self.schema,
        )
        ((entries,),) = self.process.execute(
            "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = %s", self.schema
        )
        return scans, rows + entries


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_no_verb_reads_what_waits(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 1), Limit("R", "rate", 1, 3_600_000_000)])
    for batch in range(WAITING // 2000):
        uses = A if batch % 2 else R
        await engine.enqueue([NewJob(f"w{batch}-{n}", "t", uses=uses) for n in range(2000)])
    while await engine.meet():
        pass
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    running = {attempt.job: attempt.number for attempt in (await engine.exchange("w", [], 2)).attempts}
    assert sorted(running) == ["w0-0", "w1-0"]
    # What autovacuum does: entries of jobs that left the line of newcomers stay in its index for a while.
    process.execute(f'VACUUM ANALYZE "{schema.replace(chr(34), chr(34) * 2)}".live')
    meter = Meter(engine, process, schema)

    async def settle_the_holder() -> None:
        answer = await engine.exchange("w", [Succeeded("w1-0", running["w1-0"])], 1)
        assert [attempt.job for attempt in answer.attempts] == ["w1-1"]

    async def claim_unrelated() -> None:
        answer = await engine.exchange("w", [], 10)
        assert sorted(attempt.job for attempt in answer.attempts) == [f"free{n}" for n in range(5)]

    async def settle_unrelated() -> None:
        assert (await engine.exchange("w", [Succeeded(f"free{n}", 1) for n in range(5)], 0)).refused == ()

    async def park_newcomers() -> None:
        assert (await engine.exchange("w", [], 10)).attempts == ()

    costs: dict[str, tuple[int, int]] = {}
    steps: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("enqueue", lambda: engine.enqueue([NewJob(f"free{n}", "t") for n in range(5)])),
        ("claim", claim_unrelated),
        ("settle", settle_unrelated),
        ("enqueue limited", lambda: engine.enqueue([NewJob(f"late{n}", "t", uses=A) for n in range(5)])),
        ("park", park_newcomers),
        ("settle, offer, claim", settle_the_holder),
        ("claim with nothing to be had", lambda: engine.exchange("w", [], 10)),
        ("sweep", lambda: engine.sweep()),
        ("heartbeat", lambda: engine.heartbeat("w")),
        ("cancel a waiter", lambda: engine.cancel(["w1-900"])),
        ("raise a limit", lambda: engine.declare([Limit("A", "concurrency", 3)])),
        ("retire", lambda: engine.retire("w")),
    ]
    for name, step in steps:
        costs[name] = await meter.cost(step)
    assert await engine.states(["late0", "late4"]) == [JobState.WAITING, JobState.WAITING]
    assert {name: cost for name, cost in costs.items() if cost[0]} == {}, "tables read from end to end"
    assert {name: cost for name, cost in costs.items() if cost[1] > MOST} == {}
    assert audit(await engine.snapshot()) == []
