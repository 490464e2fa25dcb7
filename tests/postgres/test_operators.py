"""Schedules that are paused while they tick, and heartbeats of many workers that add to the same history."""

from __future__ import annotations

import asyncio

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from headgate.engine.contract import DAY, HISTORY_MINUTE, HISTORY_MOST, Done, Limit, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.job import NewJob
from headgate.keys import Use
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

NOW = 1_700_000_000_000_000


async def test_a_pause_ends_behind_the_tick_that_is_under_way(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """What the tick makes is there when the caller is told that the task is paused."""
    await engine.tick("nightly", None, 100, [])
    other = await asyncpg.connect(process.dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    transaction = other.transaction()
    await transaction.start()
    try:
        assert await other.fetchval(f"SELECT {quoted(schema)}.tick('nightly', 100, 200)")
        pausing = asyncio.create_task(engine.pause_schedule("nightly"))
        await until(lambda: pausing.done() or process.waiting(), "the pause to wait")
        assert not pausing.done()
        await transaction.commit()
        assert await pausing
    finally:
        await other.close()
    assert await engine.ticks(["nightly"]) == {"nightly": 200}
    assert not await engine.tick("nightly", 200, 300, [NewJob("j", "t")])
    assert await engine.states(["j"]) == [None]


async def test_heartbeats_that_add_to_the_same_rows_in_other_orders_wait_in_no_circle(
    open_engine: OpenEngine,
) -> None:
    engines = [await open_engine() for _ in range(3)]
    tasks = [f"t{n}" for n in range(40)]
    for n, engine in enumerate(engines):
        await engine.register(Worker(f"w{n}", frozenset({"t"}), lease=DAY), now=NOW)

    async def beat(n: int) -> None:
        for turn in range(20):
            order = tasks if (n + turn) % 2 else tasks[::-1]
            await engines[n].heartbeat(
                f"w{n}", done=[Done(NOW, "q", task, started=1) for task in order], now=NOW
            )

    await asyncio.gather(*map(beat, range(3)))
    rows = await engines[0].history(0, each=True)
    assert {row.task: row.started for row in rows} == dict.fromkeys(tasks, 60)


async def test_history_is_forgotten_in_slices(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    name = quoted(schema)
    process.execute(
        f"INSERT INTO {name}.history SELECT m * {HISTORY_MINUTE}, 'q', 't' || n, 1, 0, 0, 0, 0, 0, 0, 0 "
        f"FROM generate_series(0, 9) AS m, generate_series(1, {HISTORY_MOST}) AS n"
    )
    now = DAY + 10 * HISTORY_MINUTE
    left: list[int] = []
    more = True
    while more:
        more = (await engine.sweep(now=now)).more
        left += process.execute(f"SELECT count(*) FROM {name}.history")[0]
    assert left[:2] == [1000, 0]
    await engine.register(Worker("w", frozenset({"t"}), lease=DAY), now=now)
    await engine.heartbeat("w", done=[Done(now, "q", "t", started=1)], now=now)
    assert not (await engine.sweep(now=now + DAY)).more
    assert len(await engine.history(0)) == 1


async def test_a_lapsed_worker_adds_nothing(engine: PostgresEngine) -> None:
    await engine.register(Worker("w", frozenset({"t"}), lease=1000), now=NOW)
    with pytest.raises(Exception, match="lease"):
        await engine.heartbeat("w", done=[Done(NOW, "q", "t", started=1)], now=NOW + 2000)
    assert await engine.history(0) == []


async def test_the_first_waiters_of_a_key_are_the_first_of_all_its_queues(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.enqueue(
        [NewJob(f"{queue}{priority}", "t", queue=queue, priority=priority, uses=(Use("c0:A"),))
         for priority in (9, 3, 6) for queue in ("a", "b")]
    )  # fmt: skip
    (stands,) = await engine.keys(["c0:A"], waiters=3)
    assert stands is not None
    assert [waiter.job for waiter in stands.waiters] == ["a3", "b3", "a6"]
