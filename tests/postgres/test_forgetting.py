"""What a sweep forgets, and what it must not."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.job import NewJob
from headgate.keys import Key, Use
from tests.postgres.statistics import flush
from tests.support.postgres_server import PostgresProcess

NOW = 1_700_000_000 * SECOND


class Store:
    """An engine, and a look at its tables."""

    def __init__(self, engine: PostgresEngine, process: PostgresProcess, schema: str) -> None:
        self.engine = engine
        self.process = process
        self.schema = schema
        self.number = 0

    async def run(self, id: str, *keys: str, now: int = NOW) -> list[str]:
        """Enqueue a job; returns what a claim starts, which ends at once."""
        uses = tuple(Use(key) for key in keys)
        await self.engine.enqueue([NewJob(id, "t", uses=uses)], now=now)
        self.number += 1
        started = (await self.engine.exchange("w", [], 5, number=self.number, now=now)).attempts
        self.number += 1
        ended = [Succeeded(each.job, each.number) for each in started]
        await self.engine.exchange("w", ended, 0, number=self.number, now=now)
        return [each.job for each in started]

    def count(self, table: str) -> int:
        return self.process.execute(f"SELECT count(*) FROM {quoted(self.schema)}.{table}")[0][0]


@pytest.fixture
async def store(engine: PostgresEngine, process: PostgresProcess, schema: str) -> Store:
    await engine.declare(
        [
            Limit("A", "concurrency", 1), Limit("F", "floating", 1), Limit("R", "rate", 1, 60 * SECOND),
            Limit("W", "rate", 1, 60 * SECOND, algorithm="sliding_window"), Limit("closed", "concurrency", 0),
        ], now=NOW,
    )  # fmt: skip
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=NOW)
    return Store(engine, process, schema)


@pytest.mark.parametrize("name", ["R", "W"])
async def test_what_was_spent_counts_as_long_as_it_must(store: Store, name: str) -> None:
    key = Key(name, "1", rate=True).ident
    assert await store.run("first", key) == ["first"]
    await store.engine.sweep(now=NOW + 30 * SECOND)
    assert store.count("meters") + store.count("starts") == 1
    assert await store.run("second", key, now=NOW + 30 * SECOND) == []
    await store.engine.sweep(now=NOW + 61 * SECOND)
    assert await store.run("third", now=NOW + 61 * SECOND) == ["second", "third"]
    await store.engine.sweep(now=NOW + 200 * SECOND)
    assert store.count("meters") + store.count("starts") == 0


async def test_a_computed_number_outlives_an_hour_without_use(store: Store) -> None:
    key = Key("F", "1").ident
    await store.engine.compute(key, 7, now=NOW)
    await store.engine.sweep(now=NOW + 3599 * SECOND)
    assert store.count("computed") == 1
    for seconds in (3601, 3602):
        await store.engine.sweep(now=NOW + seconds * SECOND)
    assert store.count("computed") == 0
    assert store.count("keys") == 0


async def test_idle_keys_are_found_again_and_again_among_those_in_use(store: Store) -> None:
    """Some slices' worth of keys that are waited for, and idle ones before, between and behind them."""
    jobs = [NewJob(f"c{n}", "t", uses=(Use(f"c0:closed={n:03}"),)) for n in range(150)]
    await store.engine.enqueue(jobs, now=NOW)
    while (await store.engine.sweep(now=NOW)).more:
        pass
    for turn in range(2):
        for name in ("A=1", "closed=075x", "closed=zzz"):
            if name.startswith("A"):
                assert await store.run(f"{turn}{name}", f"c0:{name}") == [f"{turn}{name}"]
            else:
                await store.run(f"{turn}{name}", f"c0:{name}")
                await store.engine.cancel([f"{turn}{name}"], now=NOW)
        assert store.count("keys") == 153
        for _ in range(12):
            await store.engine.sweep(now=NOW)
        assert store.count("keys") == 150


async def test_a_sweep_looks_at_more_keys_where_more_were_made(store: Store) -> None:
    jobs = [NewJob(f"c{n}", "t", uses=(Use(f"c0:closed={n:03}"),)) for n in range(300)]
    await store.engine.enqueue(jobs, now=NOW)
    while (await store.engine.sweep(now=NOW)).more:
        pass
    await flush(store.engine)
    await store.engine.sweep(now=NOW)
    await store.run("last", "c0:closed=zzz")
    await store.engine.cancel(["last"], now=NOW)
    fresh = [NewJob(f"d{n}", "t", uses=(Use(f"c0:closed=1{n:03}"),)) for n in range(200)]
    await store.engine.enqueue(fresh, now=NOW)
    await store.engine.sweep(now=NOW)
    await flush(store.engine)
    for _ in range(
        6
    ):  # twice as many as were made, and a few more each time; six times a few would not be enough
        await store.engine.sweep(now=NOW)
    assert store.count("keys") == 500
