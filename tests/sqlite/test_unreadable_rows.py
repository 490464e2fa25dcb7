"""A row that makes no sense ends as failed, gives back what it holds, can be deleted, and disturbs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Failed, Filter, Limit, Succeeded, Worker
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine
from headgate.errors import LeaseLost
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
    "tag": "last",
    "start_by": "soon",
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
    if column not in ("state", "units", "waiting_on", "id", "error", "worker"):
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


TEXTS = ["task", "queue", "args", "tenant", "retry", "uses", "metadata", "progress"]


def garble_text(path: Path, id: str, column: str) -> None:
    """Bytes that are no UTF-8, as text."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute(f"UPDATE jobs SET {column} = CAST(x'61ff62' AS TEXT) WHERE id = ?", (id,))
    assert connection.changes() == 1
    connection.close()


@pytest.mark.parametrize("column", [*TEXTS, "id"])
async def test_text_that_is_no_utf8_is_met_by_a_claim(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("bad", KEY), job("next", KEY, priority=60), job("free", priority=60)], now=START)
    garble_text(path, "bad", column)
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next", "free"]
    assert await store.count(Filter()) == 3
    await check_failed(store, "unreadable-1" if column == "id" else "bad", column)
    assert [one.state for one in await store.find(Filter())] == [JobState.RUNNING] * 2


@pytest.mark.parametrize("column", [*TEXTS, "id"])
async def test_text_that_is_no_utf8_is_met_when_its_key_is_offered(
    store: SqliteEngine, path: Path, column: str
):
    await store.enqueue([job("holder", KEY, priority=1)], now=START)
    await store.exchange("w", [], 1, now=START)
    await store.enqueue([job("bad", KEY, priority=2), job("next", KEY)], now=START)
    garble_text(path, "bad", column)
    answer = await store.exchange("w", [Succeeded("holder", 1)], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next"]
    await check_failed(store, "unreadable-2" if column == "id" else "bad", column)


@pytest.mark.parametrize("column", [*TEXTS, "id", "unique_key", "error", "worker"])
async def test_text_of_a_running_job_that_is_no_utf8_ends_it_when_its_worker_is_lost(
    store: SqliteEngine, path: Path, column: str
):
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    await store.exchange("w", [], 1, now=START)
    garble_text(path, "bad", column)
    await store.report_lost(["w"], now=START)
    await store.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    if column == "worker":
        healed = await store.recheck(now=START)
        assert any("not registered" in what for what in healed.healed)
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["next"]
    await check_failed(store, "unreadable-1" if column == "id" else "bad", column)


@pytest.mark.parametrize("column", [*TEXTS, "unique_key"])
async def test_listings_show_text_that_is_no_utf8_as_far_as_it_goes(
    store: SqliteEngine, path: Path, column: str
):
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    garble_text(path, "bad", column)
    (found,) = await store.get(["bad"])
    assert found is not None
    assert "not UTF-8" in (found.error or "")
    assert [one.id for one in await store.find(Filter())] == ["next", "bad"]
    assert len(await store.queues()) == (2 if column == "queue" else 1)
    assert len((await store.snapshot(now=START)).jobs) == 2
    assert await store.explain("bad", now=START) is not None
    await store.cancel(["bad"], now=START)


async def test_a_job_that_waits_on_a_key_that_is_no_utf8_is_met_by_a_recheck(store: SqliteEngine, path: Path):
    await store.enqueue([job("holder", KEY)], now=START)
    await store.exchange("w", [], 1, now=START)
    await store.enqueue([job("bad", KEY), job("next", KEY)], now=START)
    garble_text(path, "bad", "waiting_on")
    assert (await store.limits("A", limit=10, now=START))[0].waiting == 1
    await store.recheck(now=START)
    await check_failed(store, "bad", "waiting_on")


@pytest.mark.parametrize("column", ["error", "worker", "outcome"])
async def test_a_past_attempt_that_is_no_utf8_does_not_hide_its_job(
    store: SqliteEngine, path: Path, column: str
):
    await store.enqueue([job("bad")], now=START)
    await store.exchange("w", [], 1, now=START)
    await store.exchange("w", [Failed("bad", 1, "oh", retry_in=SECOND)], 0, now=START)
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE attempts SET {column} = CAST(x'61ff62' AS TEXT)")
    connection.close()
    (found,) = await store.get(["bad"])
    assert found is not None
    assert len(found.history) == 1
    await store.sweep(now=START + SECOND)
    answer = await store.exchange("w", [], 1, now=START + SECOND)
    assert [attempt.number for attempt in answer.attempts] == [2]


@pytest.mark.parametrize("column", ["due", "expires_at"])
async def test_a_time_that_is_no_number_does_not_stop_sweeps(store: SqliteEngine, path: Path, column: str):
    await store.enqueue([job("bad", delay=SECOND)], now=START)
    if column == "expires_at":
        await store.cancel(["bad"], now=START)
    garble(path, "bad", column, "soon")
    swept = await store.sweep(now=START)
    assert swept.next_due is None or swept.next_due > START
    assert await store.states(["bad"]) == [JobState.FAILED if column == "due" else None]


WORKER_DAMAGE = {
    "tasks": "rubbish",
    "queues": "rubbish",
    "lease": "long",
    "concurrency": "many",
    "lease_until": "later",
    "number": "last",
}


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("column", [*WORKER_DAMAGE, "id"])
async def test_a_worker_whose_row_cannot_be_read_is_lost(
    store: SqliteEngine, path: Path, column: str, text: bool
):
    await store.register(Worker("v", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    await store.enqueue([job("run", KEY), job("next", KEY)], now=START)
    await store.exchange("v", [], 1, now=START)
    damage = "CAST(x'61ff62' AS TEXT)" if text or column == "id" else f"'{WORKER_DAMAGE[column]}'"
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE workers SET {column} = {damage} WHERE id = 'v'")
    connection.close()
    assert "w" in [one.worker.id for one in await store.workers(now=START)]
    assert (await store.explain("next", now=START)) is not None
    assert not (await store.exchange("w", [], 5, now=START)).attempts, "the key is still held"
    if column not in ("queues", "lease"):
        with pytest.raises(LeaseLost):
            await store.exchange("v", [], 5, now=START)
    assert any("not registered" in what for what in (await store.recheck(now=START)).healed)
    assert [one.worker.id for one in await store.workers(now=START)] == ["w"]
    answer = await store.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["run"]
    await store.register(Worker("v", frozenset({"t"})), now=START)
    await store.exchange("v", [], 5, now=START)


async def test_a_lease_that_ends_at_no_time_is_met_by_a_sweep(store: SqliteEngine, path: Path):
    await store.enqueue([job("run")], now=START)
    await store.exchange("w", [], 1, now=START)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE workers SET lease_until = 'later'")
    connection.close()
    assert (await store.sweep(now=START)).lost == 1
