"""A row that makes no sense ends as failed, gives back what it holds, can be deleted, and disturbs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, Succeeded, Worker
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use

START = 1_700_000_000 * SECOND
KEY = Key("A").ident
DAMAGE = {
    "retry": "rubbish",
    "uses": '[["c0:A", "many"',
    "priority": "high",
    "attempt": "none",
    "due": "soon",
    "units": "x",
}


def garble(path: Path, id: str, column: str, value: Any) -> None:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (value, id))
    assert connection.changes() == 1
    connection.close()


def job(id: str, *keys: str, **fields: Any) -> NewJob:
    return NewJob(id=id, task="t", uses=tuple(Use(key) for key in keys), **fields)


@pytest.fixture
async def store(engine: SqliteEngine) -> SqliteEngine:
    await engine.declare([Limit("A", "concurrency", 1)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    return engine


async def check_failed(engine: SqliteEngine, id: str, column: str = "retry") -> None:
    (found,) = await engine.get([id])
    assert found is not None
    assert found.state is JobState.FAILED
    assert "cannot be read" in (found.error or "")
    assert (await engine.explain(id, now=START)) is not None
    assert id in [one.id for one in await engine.find(Filter())]
    assert audit(await engine.snapshot(now=START)) == []
    if column not in ("state", "units", "waiting_on"):
        (verdict,) = await engine.restart([id], now=START)
        assert not verdict.done, "its limits are not known any more"
    (verdict,) = await engine.delete([id], now=START)
    assert verdict.done
    assert await engine.states([id]) == [None]


@pytest.mark.parametrize("column", DAMAGE)
async def test_a_ready_one_is_met_by_a_claim(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("bad", KEY), job("next", KEY, priority=60), job("free", priority=60)], now=START)
    garble(path, "bad", column, DAMAGE[column])
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next", "free"]
    await check_failed(store, "bad", column)


@pytest.mark.parametrize("column", DAMAGE)
async def test_a_waiting_one_is_met_when_its_key_is_offered(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("holder", KEY, priority=1)], now=START)
    await store.exchange("w", [], 1, now=START)
    await store.enqueue([job("bad", KEY, priority=2), job("next", KEY)], now=START)
    garble(path, "bad", column, DAMAGE[column])
    if column == "priority":  # a text stands behind all numbers in the line
        await store.cancel(["next"], now=START)
    answer = await store.exchange("w", [Succeeded("holder", 1)], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ([] if column == "priority" else ["next"])
    await check_failed(store, "bad", column)


@pytest.mark.parametrize("column", ["retry", "uses", "attempt"])
async def test_a_running_one_gives_back_what_it_holds(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    await store.exchange("w", [], 1, now=START)
    garble(path, "bad", column, DAMAGE[column])
    lost = await store.report_lost(["w"], now=START)
    await store.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    assert lost.attempts == 0
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next"]
    await check_failed(store, "bad")


@pytest.mark.parametrize("column", ["retry", "uses", "priority"])
async def test_a_scheduled_one_is_met_when_it_is_due(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("bad", KEY, delay=SECOND), job("good", delay=SECOND)], now=START)
    garble(path, "bad", column, DAMAGE[column])
    await store.sweep(now=START + SECOND)
    assert await store.states(["bad", "good"]) == [JobState.FAILED, JobState.READY]
    await check_failed(store, "bad")


@pytest.mark.parametrize("verb", ["cancel", "delete", "expedite"])
@pytest.mark.parametrize("column", [*DAMAGE, "state"])
async def test_steering_meets_it_too(store: SqliteEngine, path: Path, column: str, verb: str):
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    garble(path, "bad", column, DAMAGE.get(column, "dancing"))
    (verdict,) = await getattr(store, verb)(["bad"], now=START)
    assert verdict.done == (verb == "delete")
    if verb != "delete":
        await check_failed(store, "bad", column)
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next"]


async def test_looking_changes_nothing_and_shows_what_is_wrong(store: SqliteEngine, path: Path):
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    garble(path, "bad", "retry", "rubbish")
    (found,) = await store.get(["bad"])
    assert found is not None
    assert "cannot be read" in (found.error or "")
    assert (await store.explain("next", now=START)) is not None
    assert len((await store.snapshot(now=START)).jobs) == 2
    assert (await store.queues())[0].ready == 1
    await store.cancel(["bad"], now=START)


async def test_a_job_that_waits_on_a_garbled_key_is_met_by_a_recheck(store: SqliteEngine, path: Path):
    await store.enqueue([job("holder", KEY)], now=START)
    await store.exchange("w", [], 1, now=START)
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    garble(path, "bad", "waiting_on", "rubbish")
    await store.recheck(now=START)
    await check_failed(store, "bad", "waiting_on")
    answer = await store.exchange("w", [Succeeded("holder", 1)], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next"]
