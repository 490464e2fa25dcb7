"""What it costs to look at a store, in instructions of SQLite: what is shown, not what is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import HISTORY_MINUTE, Done, Filter, Limit, Worker
from headgate.engine.sqlite import SqliteEngine, overview, reading
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine, reader

START = 1_700_000_000 * SECOND
KEY, RATE = Key("A").ident, Key("R", rate=True).ident
Look = Callable[[SqliteEngine], Awaitable[object]]


async def crowd(engine: SqliteEngine, number: int) -> None:
    """So many jobs in each state and on each key, and two keys besides."""
    await engine.declare(
        [Limit("A", "concurrency", 1), Limit("R", "rate", 1, 3600 * SECOND), Limit("K", "concurrency", 1)],
        now=START,
    )
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    for first in range(0, number, 1000):
        some = range(first, min(first + 1000, number))
        await engine.enqueue([NewJob(f"a{n}", "t", uses=(Use(KEY),)) for n in some], now=START)
        await engine.enqueue([NewJob(f"r{n}", "t", uses=(Use(RATE),)) for n in some], now=START)
        await engine.enqueue([NewJob(f"s{n}", "t", delay=SECOND) for n in some], now=START)
        await engine.enqueue([NewJob(f"x{n}", "unknown") for n in some], now=START)
        await engine.enqueue([NewJob(f"c{n}", "t") for n in some], now=START)
        await engine.cancel([f"c{n}" for n in some], now=START)
    while (await engine.exchange("w", [], 100, now=START)).more:
        pass
    await engine.heartbeat("w", done=[Done(START, "q", "t", started=1)], now=START)


async def instructions(engine: SqliteEngine, look: Look) -> int:
    """How many instructions the reader's connection executes while something is looked at."""
    await look(engine)  # what is read once and kept is not counted
    connection, count = reader(engine), 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(step, 1)
    await look(engine)
    connection.set_progress_handler(None)
    assert count > 0
    return count


LOOKS: dict[str, Look] = {
    "totals": lambda engine: engine.totals(most=50),
    "keys": lambda engine: engine.keys([KEY, RATE, Key("K").ident], holders=5, waiters=5, now=START),
    "history": lambda engine: engine.history(START - START % HISTORY_MINUTE, each=True),
    "paused schedules": lambda engine: engine.paused_schedules(),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_a_look_costs_what_it_shows(open_engine: OpenEngine, name: str):
    path = (await open_engine()).path
    few, many = await open_engine(at=f"{path}.few"), await open_engine()
    await crowd(few, 1_100)
    await crowd(many, 3_300)
    cheap, dear = await instructions(few, LOOKS[name]), await instructions(many, LOOKS[name])
    assert dear <= cheap * 1.05, f"{cheap} instructions with few jobs, {dear} with many"


async def test_the_table_of_queues_looks_at_a_bounded_number_of_jobs(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    await crowd(engine, 2_000)
    whole = await instructions(engine, lambda engine: engine.queues())
    monkeypatch.setattr(overview, "MOST_IN_LINES", 100)
    bounded = await instructions(engine, lambda engine: engine.queues(most=100))
    assert bounded * 5 < whole
    (queue,) = await engine.queues(most=100)
    assert (queue.exact, queue.scheduled, queue.waiting) == (False, 100, 100)


async def test_the_search_for_the_tightest_keys_looks_at_a_bounded_number_of_them(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    jobs = [
        NewJob(f"{key}-{n}", "t", uses=(Use(Key("A", f"{key:04}").ident),))
        for key in range(500)
        for n in range(2)
    ]
    await engine.enqueue(jobs, now=START)
    whole = await instructions(engine, lambda engine: engine.tightest(limit=3))
    monkeypatch.setattr(overview, "MOST_KEYS", 20)
    assert await instructions(engine, lambda engine: engine.tightest(limit=3)) * 5 < whole
    monkeypatch.undo()
    monkeypatch.setattr(overview, "MOST_WAITING", 20)
    assert await instructions(engine, lambda engine: engine.tightest(limit=3)) * 5 < whole
    assert len(await engine.tightest(limit=30)) == 10


async def test_jobs_of_a_state_that_few_have_are_found_without_looking_at_the_others(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "LOOKED_AT", 50)
    monkeypatch.setattr(reading, "CANDIDATES", 30)
    await engine.enqueue(
        [NewJob(f"old{n}", "t", "q" if n % 2 else "p", delay=SECOND) for n in range(100)], now=START
    )
    for first in range(0, 4000, 1000):
        await engine.enqueue([NewJob(f"x{n}", "t") for n in range(first, first + 1000)], now=START)
    scheduled, expected = (JobState.SCHEDULED,), [f"old{n}" for n in reversed(range(100))]

    async def look(filter: Filter, limit: int, after: str | None = None) -> list[str]:
        return [job.id for job in await engine.find(filter, limit=limit, after=after)]

    assert await look(Filter(states=scheduled), 200) == expected
    assert await look(Filter(states=scheduled), 10) == expected[:10]
    assert await look(Filter(states=scheduled), 10, "old90") == expected[10:20]
    assert await look(Filter(states=scheduled, queue="q"), 200) == expected[::2]
    assert await look(Filter(states=scheduled, queue="p"), 3, "old50") == ["old48", "old46", "old44"]
    assert await look(Filter(states=(JobState.READY, *scheduled)), 4050) == [
        *(f"x{n}" for n in reversed(range(4000))), *expected[:50]
    ]  # fmt: skip
    assert await look(Filter(states=(JobState.FAILED,)), 10) == []
    for filter in (Filter(states=scheduled), Filter(states=(JobState.FAILED,))):
        assert (
            await instructions(engine, lambda engine, filter=filter: engine.find(filter, limit=10)) < 20_000
        )
