"""Self-healing (rule 20): each kind of damage that a recheck mends, written into the store behind its back.

On SQLite into the tables, on the memory engine into the dictionaries; the sentences are the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Engine, Limit, Worker
from headgate.engine.memory import MemoryEngine
from headgate.engine.memory.store import Holding
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use

START = 1_700_000_000 * SECOND
A, R = Key("A").ident, Key("R", rate=True).ident
Damage = Callable[[Any], None]


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine = MemoryEngine() if request.param == "memory" else SqliteEngine(tmp_path / "jobs.db")
    await engine.open()
    await engine.declare([Limit("A", "concurrency", 1), Limit("R", "rate", 1, 10 * SECOND)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    await engine.enqueue([_job("a1", A), _job("a2", A), _job("r1", R), _job("r2", R)], now=START)
    await engine.exchange("w", [], 10, now=START)
    assert await engine.states(["a1", "a2", "r1", "r2"]) == [JobState.RUNNING, JobState.WAITING] * 2
    yield engine
    await engine.close()


def _job(id: str, key: str) -> NewJob:
    return NewJob(id=id, task="t", uses=(Use(key),))


def damage(engine: Engine, statement: str, otherwise: Damage) -> None:
    """Into the tables, or into the dictionaries."""
    if isinstance(engine, MemoryEngine):
        otherwise(engine._store)
        engine._store.undo.clear()
        return
    assert isinstance(engine, SqliteEngine)
    connection = apsw.Connection(engine.path)
    connection.set_busy_timeout(5000)
    connection.execute(statement)
    assert connection.changes() > 0
    connection.close()


async def heal(engine: Engine, now: int = START) -> str:
    """The audit complains, a recheck heals, and then neither finds anything."""
    assert audit(await engine.snapshot(now=now)) != []
    healed: list[str] = []
    after = None
    for _ in range(10):
        answer = await engine.recheck(after, most=1, now=now)
        healed += answer.healed
        if (after := answer.after) is None:
            break
    assert audit(await engine.snapshot(now=now)) == []
    assert (await engine.recheck(now=now)).healed == ()
    return "\n".join(healed)


async def test_a_holder_whose_attempt_is_over(engine: Engine):
    def leave(store: Any) -> None:
        job = store.jobs["a1"]
        store.change(job, state=JobState.SUCCEEDED, worker=None, ended_at=START, expires_at=START + SECOND)

    damage(
        engine,
        f"UPDATE jobs SET state = 'succeeded', worker = NULL, ended_at = {START}, expires_at = {START + SECOND}"
        " WHERE id = 'a1'",
        leave,
    )
    said = await heal(engine)
    assert "'A' was held by job 'a1', which is succeeded: the slot was given back" in said
    assert await engine.states(["a2"]) == [JobState.READY]


async def test_a_holder_whose_job_waits_for_its_next_attempt(engine: Engine):
    later = START + 3600 * SECOND
    damage(
        engine,
        f"UPDATE jobs SET state = 'scheduled', worker = NULL, due = {later} WHERE id = 'a1'",
        lambda store: store.change(store.jobs["a1"], state=JobState.SCHEDULED, worker=None, due=later),
    )
    assert "'A' was held by job 'a1', which is scheduled: the slot was given back" in await heal(engine)


async def test_a_holder_that_nobody_knows(engine: Engine):
    def forget(store: Any) -> None:
        store.change(store.jobs["a1"], state=JobState.FAILED, worker=None, ended_at=START, expires_at=START)
        store.remove(store.jobs["a1"])

    damage(engine, "DELETE FROM jobs WHERE id = 'a1'", forget)
    assert "the slot was given back" in await heal(engine)
    answer = await engine.exchange("w", [], 5, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["a2"]


async def test_a_reservation_of_a_job_that_runs_no_more(engine: Engine):
    def reserve(store: Any) -> None:
        ended = store.jobs["r1"]
        store.change(ended, state=JobState.FAILED, worker=None, ended_at=START, expires_at=START + SECOND)
        store.let_go(A, store.holders[A]["a1"])
        store.hold(A, Holding(ended, START, 1, True))
        store.change(
            store.jobs["a1"], state=JobState.CANCELLED, worker=None, ended_at=START, expires_at=START
        )

    damage(
        engine,
        f"UPDATE jobs SET state = 'failed', worker = NULL, ended_at = {START}, expires_at = {START + SECOND}"
        " WHERE id IN ('a1', 'r1');"
        "UPDATE holders SET reserved = 1, job = (SELECT seq FROM jobs WHERE id = 'r1') WHERE key = 'c0:A'",
        reserve,
    )
    assert "'A' was held by job 'r1', which is failed" in await heal(engine)


async def test_room_that_was_not_offered(engine: Engine):
    def free(store: Any) -> None:
        store.let_go(A, store.holders[A]["a1"])
        store.change(
            store.jobs["a1"], state=JobState.CANCELLED, worker=None, ended_at=START, expires_at=START
        )

    damage(
        engine,
        f"UPDATE jobs SET state = 'cancelled', worker = NULL, ended_at = {START}, expires_at = {START}"
        " WHERE id = 'a1'; DELETE FROM holders",
        free,
    )
    said = await heal(engine)
    assert said == "job 'a2' of queue 'default' waited on 'A', which has room for it: it was offered"


@pytest.mark.parametrize("at", [None, START + 3600 * SECOND])
async def test_a_timer_that_is_missing_or_rings_too_late(engine: Engine, at: int | None):
    damage(
        engine,
        "DELETE FROM timers" if at is None else f"UPDATE timers SET at = {at}",
        lambda store: store.put(store.timers, R, at),
    )
    said = await heal(engine, START + 20 * SECOND)
    assert "'R' without a timer that rings in time: it was armed" in said


async def test_an_attempt_whose_worker_is_not_registered(engine: Engine):
    damage(engine, "DELETE FROM workers", lambda store: store.put(store.workers, "w", None))
    said = await heal(engine)
    assert "job 'a1' ran on worker 'w', which is not registered: the attempt is lost" in said
    assert JobState.RUNNING not in await engine.states(["a1", "a2", "r1", "r2"])
