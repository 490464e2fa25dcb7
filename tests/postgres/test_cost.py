"""What a verb reads follows what it does, not what waits: counted by the server, with 100,000 jobs waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headgate.engine.contract import Filter, Limit, Override, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.engine.rules.status import COUNTED_MOST
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.postgres.statistics import flush
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import eventually

WAITING = 100_000
MOST = 300
"""Rows and index entries that one call with a handful of jobs may read. Who looks at all waiters reads 100,000."""

A = (Use(Key("A").ident),)
R = (Use(Key("R", rate=True).ident),)


class Meter:
    """Counts rows and index entries that the server read in a schema. The server's own vacuum reads, too: it is kept
    away from the schema's tables."""

    def __init__(self, engine: PostgresEngine, process: PostgresProcess, schema: str) -> None:
        self.engine = engine
        self.process = process
        self.schema = schema
        self._keep_vacuum_away()

    async def cost(self, call: Callable[[], Awaitable[object]]) -> tuple[int, int]:
        """Sequential scans of tables with many rows, and all rows and entries read, by one call."""
        before = await self._counts()
        await call()
        scans, read = await self._counts()
        return scans - before[0], read - before[1]

    def vacuum(self, *tables: str) -> None:
        """What the engine does once a while. Without INDEX_CLEANUP, the server leaves the entries of dead rows in the
        indexes where few pages have any, and the next call would read them: thousands. Rows that a transaction of
        another test may still see stay: then it is done again."""
        for table in tables:
            eventually(lambda table=table: self._is_clean(table), "no dead rows", every=0.2)

    def _is_clean(self, table: str) -> bool:
        schema = self.schema.replace('"', '""')
        self.process.execute(f'VACUUM (INDEX_CLEANUP ON, ANALYZE) "{schema}".{table}')
        ((dead,),) = self.process.execute(
            "SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = %s AND relname = %s",
            self.schema,
            table,
        )
        return dead == 0

    def _keep_vacuum_away(self) -> None:
        schema = self.schema.replace('"', '""')
        for table in ("jobs", "live", "ended", "holders", "keys", "rechecks"):
            self.process.execute(f'ALTER TABLE "{schema}".{table} SET (autovacuum_enabled = off)')

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
    meter = Meter(engine, process, schema)
    await engine.declare([Limit("A", "concurrency", 1), Limit("R", "rate", 1, 3_600_000_000)])
    for batch in range(WAITING // 2000):
        uses = A if batch % 2 else R
        await engine.enqueue([NewJob(f"w{batch}-{n}", "t", uses=uses) for n in range(2000)])
    while await engine.meet():
        pass
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    running = {attempt.job: attempt.number for attempt in (await engine.exchange("w", [], 2)).attempts}
    assert sorted(running) == ["w0-0", "w1-0"]
    meter.vacuum("live")

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
        ("find what waits", lambda: engine.find(Filter(waiting_on="A"), limit=10)),
        ("cancel a waiter", lambda: engine.cancel(["w1-900"])),
        ("lower a limit", lambda: engine.override(Override("A", 0))),
        ("raise a limit", lambda: engine.declare([Limit("A", "concurrency", 3)])),
        ("retire", lambda: engine.retire("w")),
    ]
    for name, step in steps:
        costs[name] = await meter.cost(step)
    assert await engine.states(["late0", "late4"]) == [JobState.WAITING, JobState.WAITING]
    assert {name: cost for name, cost in costs.items() if cost[0]} == {}, "tables read from end to end"
    assert {name: cost for name, cost in costs.items() if cost[1] > MOST} == {}
    assert audit(await engine.snapshot()) == []


KEYS = 4_000


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_no_verb_reads_what_other_keys_there_are(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """Thousands of keys are waited for. A change of their limit reads each of them a few times, in slices."""
    meter = Meter(engine, process, schema)
    await engine.declare(
        [Limit("A", "concurrency", 0), Limit("F", "floating", 1), Limit("B", "concurrency", 1)]
    )
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    for batch in range(KEYS // 1000):
        await engine.enqueue(
            [NewJob(f"w{batch}-{n}", "t", uses=(Use(f"c0:A={batch}-{n}"),)) for n in range(1000)]
        )
    while (await engine.sweep()).more:
        pass
    for _ in range(2):  # a sweep looks at as many keys as were made since the last
        await flush(engine)
        await engine.sweep()
    meter.vacuum("live", "rechecks")
    steps: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("enqueue", lambda: engine.enqueue([NewJob("j", "t", uses=(Use("c0:B"),))])),
        ("exchange", lambda: engine.exchange("w", [], 10, number=1)),
        ("resume", lambda: engine.resume_worker("w", 2, [])),
        ("compute", lambda: engine.compute("c0:F=1", 3)),
        ("keys in use", lambda: engine.keys_in_use("F")),
        ("limits", lambda: engine.limits("A", after=("A", "A=1-5", ""), limit=10)),
        ("states", lambda: engine.states(["w0-1"])),
        ("declare another", lambda: engine.declare([Limit("B", "concurrency", 2)])),
        ("override another", lambda: engine.override(Override("B", 3))),
        ("override a key", lambda: engine.override(Override("A", 0, "1-5"))),
        ("lower all keys", lambda: engine.override(Override("A", 0))),
        ("find what waits on a key", lambda: engine.find(Filter(waiting_on="A=1-5"), limit=10)),
        ("sweep", lambda: engine.sweep()),
        ("report lost", lambda: engine.report_lost(["w"])),
    ]
    costs = {name: await meter.cost(step) for name, step in steps}
    assert {name: cost for name, cost in costs.items() if cost[0] or cost[1] > MOST} == {}
    _, read = await meter.cost(lambda: engine.limits("A", limit=10))
    assert read < 3 * COUNTED_MOST, "it stops counting"

    async def raise_all_keys() -> None:
        await engine.override(Override("A", 1))
        await asyncio.gather(*engine._store._going_on)

    scans, read = await meter.cost(raise_all_keys)
    assert scans == 0
    assert read < 30 * KEYS
    assert await engine.count(Filter(states=(JobState.READY,))) == KEYS, "all but one, and an unrelated job"
    assert audit(await engine.snapshot()) == []


@pytest.mark.slow
async def test_states_do_not_read_what_is_noted_down_to_be_looked_at(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    for n in range(3):
        await engine.enqueue([NewJob(f"j{n}", "t", uses=A)])
    name = schema.replace('"', '""')
    process.execute(
        f"INSERT INTO \"{name}\".rechecks SELECT 'c0:A=' || n FROM generate_series(1, 100000) AS n"
    )
    _, read = await Meter(engine, process, schema).cost(lambda: engine.states(["j0", "j1"]))
    assert read < MOST


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_what_ever_new_keys_leave_behind_is_forgotten_as_fast_as_it_comes(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    now = 1_000_000_000
    await engine.declare(
        [
            Limit("A", "concurrency", 1), Limit("R", "rate", 5, 1_000_000), Limit("F", "floating", 1),
            Limit("W", "rate", 5, 1_000_000, algorithm="sliding_window"),
        ], now=now,
    )  # fmt: skip
    await engine.register(Worker("w", frozenset({"t"}), lease=10**12), now=now)
    for turn in range(5):
        uses = [
            (Use(f"c0:A={n}"), Use(f"c0:F={n}"), Use(f"r0:R={n}", 1), Use(f"r0:W={n}", 1))
            for n in range(turn * 400, turn * 400 + 400)
        ]
        await engine.enqueue([NewJob(f"j{turn}-{n}", "t", uses=use) for n, use in enumerate(uses)], now=now)
        for use in uses[:50]:
            await engine.compute(use[1].key, 2, now=now)
        while attempts := (await engine.exchange("w", [], 200, now=now)).attempts:
            await engine.exchange("w", [Succeeded(each.job, each.number) for each in attempts], 0, now=now)
        now += 3_700_000_000
        while (await engine.sweep(now=now)).more:
            pass
    for _ in range(4):
        await engine.sweep(now=now)
    name = schema.replace('"', '""')
    for table in ("keys", "meters", "starts", "computed", "holders", "timers", "rechecks", "changes"):
        assert process.execute(f'SELECT count(*) FROM "{name}".{table}') == [(0,)], table
