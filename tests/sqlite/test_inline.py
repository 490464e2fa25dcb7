"""A job or two are stored on the caller's own thread, which is quicker than two hops between threads, but never at the
price of an event loop that stands still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.clock import SECOND, now_us
from headgate.engine.contract import Filter, Limit, Settings
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine, writer
from headgate.errors import JobExists
from headgate.job import NewJob
from tests.support.child import Child
from tests.support.sqlite_lock import HOLD, hold
from tests.support.waiting import stays, turns


class Witness:
    """A clock that notes on which thread it is asked, which is where a step runs; `slow` makes it take that long."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.slow = 0.0

    def __call__(self) -> int:
        self.threads.append(threading.get_ident())
        time.sleep(self.slow)
        return now_us()

    @property
    def here(self) -> bool:
        """Whether the last step ran on the caller's thread."""
        return self.threads[-1] == threading.get_ident()


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
async def engine(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteEngine]:
    monkeypatch.setattr(writer, "INLINE_SECONDS", 60.0)  # no machine is too slow for these tests
    engine = SqliteEngine(tmp_path / "jobs.db", Settings(busy_timeout=20 * SECOND), clock=witness)
    await engine.open()
    yield engine
    assert audit(await engine.snapshot()) == []
    await engine.close()


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t")


async def test_one_job_is_stored_here_and_many_on_the_writers_thread(engine: SqliteEngine, witness: Witness):
    await engine.enqueue([job("one")])
    assert witness.here
    await engine.enqueue([job(f"j{n}") for n in range(100)])
    assert not witness.here
    assert await engine.count(Filter()) == 101


async def test_where_a_commit_waits_for_the_disk_nothing_is_stored_here(tmp_path: Path, witness: Witness):
    engine = SqliteEngine(tmp_path / "full.db", clock=witness, synchronous="FULL")
    await engine.open()
    await engine.enqueue([job("one")])
    assert not witness.here
    await engine.close()


async def test_limits_that_come_with_a_job_are_declared_by_the_writer(engine: SqliteEngine, witness: Witness):
    await engine.enqueue([job("one")], limits=[Limit("A", "concurrency", 1)])
    assert not witness.here


async def test_the_event_loop_turns_while_another_process_holds_the_file(engine: SqliteEngine):
    with Child(HOLD, Path(engine.path)) as other:
        await hold(other, None)
        storing, began = asyncio.create_task(engine.enqueue([job("one")])), time.monotonic()
        await stays(lambda: not storing.done(), "it waits for the lock", 0.05)
        assert time.monotonic() - began < 10, "the loop's thread waited for the lock"
        other.tell("go")
        assert [enqueued.created for enqueued in await storing] == [True]


async def test_others_get_their_turn_between_two_jobs(engine: SqliteEngine):
    count = 0

    async def turn() -> None:
        nonlocal count
        while True:
            count += 1
            await turns()

    other = asyncio.create_task(turn())
    for n in range(50):
        await engine.enqueue([job(f"j{n}")])
    other.cancel()
    assert count >= 50


async def test_callers_at_the_same_time_share_a_transaction(engine: SqliteEngine, witness: Witness):
    await asyncio.gather(*(engine.enqueue([job(f"j{n}")]) for n in range(50)))
    assert witness.threads.count(threading.get_ident()) < 25
    assert await engine.count(Filter()) == 50


async def test_a_slow_disk_sends_the_work_back_to_the_writers_thread(
    engine: SqliteEngine, witness: Witness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "INLINE_SECONDS", 0.2)
    monkeypatch.setattr(writer, "CAUTION", 1000)
    witness.slow = 0.3
    await engine.enqueue([job("slow")])
    assert witness.here
    witness.slow = 0
    await engine.enqueue([job("next")])
    assert not witness.here


async def test_what_is_refused_here_leaves_nothing_behind(engine: SqliteEngine, witness: Witness):
    await engine.enqueue([job("one")])
    with pytest.raises(JobExists):
        await engine.enqueue([job("two"), job("one")])
    assert witness.here
    await engine.enqueue([job("two")])
    assert await engine.count(Filter()) == 2
