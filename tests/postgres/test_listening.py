"""Notifications between processes: only where a worker sleeps, and never missing."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from headgate.engine.contract import Worker
from headgate.engine.postgres import PostgresEngine, waking
from headgate.job import NewJob
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener polls until it has tested whether notifications come through: here it does so at once."""
    monkeypatch.setattr(waking, "ECHO_AFTER", 0.0)


class Ear:
    """Hears wakes from any thread."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.rung = asyncio.Event()

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.rung.set)

    async def hears(self, seconds: float = 3) -> bool:
        try:
            await asyncio.wait_for(self.rung.wait(), seconds)
        except TimeoutError:
            return False
        return True


async def listening(engine: PostgresEngine) -> None:
    """Wait until the store knows that this engine listens."""

    async def known() -> bool:
        return bool(await engine._store.call("wake", False, False, None) and await _listeners(engine))

    await until(known, "a listener", 5)
    await asyncio.sleep(0.1)


async def _listeners(engine: PostgresEngine) -> list[Any]:
    async with engine.pools.connection() as connection:
        return await connection.fetch(f"SELECT id, work, ended FROM {engine._store.name}.listeners")


async def test_a_full_worker_is_not_notified_until_it_has_room_again(open_engine: OpenEngine) -> None:
    engine, other = await open_engine(), await open_engine()
    ear = Ear()
    stop = engine.watch_work(ear.wake)
    await listening(engine)
    await engine.register(Worker("w", frozenset("t")))
    await other.enqueue([NewJob("j1", "t")])
    assert await ear.hears()
    await engine.exchange("w", [], 1)
    assert [row["work"] for row in await _listeners(engine)] == [False]
    ear.rung.clear()
    await other.enqueue([NewJob("j2", "t")])
    assert not await ear.hears(0.3)
    answer = await engine.exchange("w", [], 2)
    assert (len(answer.attempts), answer.more) == (1, True), "it looks once more before it sleeps"
    assert not (await engine.exchange("w", [], 2)).more
    ear.rung.clear()
    await other.enqueue([NewJob("j3", "t")])
    assert await ear.hears()
    stop()


async def test_a_lost_connection_comes_back_by_itself(
    open_engine: OpenEngine, process: PostgresProcess
) -> None:
    engine, other = await open_engine(), await open_engine()
    ear = Ear()
    stop = engine.watch_work(ear.wake)
    await listening(engine)
    process.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE '%%listeners%%' AND pid <> pg_backend_pid()"
    )
    assert await ear.hears(), "who sleeps is woken once, since a call may have been missed"
    await asyncio.sleep(1)
    ear.rung.clear()
    await other.enqueue([NewJob("j1", "t")])
    assert await ear.hears()
    stop()


async def test_a_machine_whose_clock_is_wrong_is_notified_like_the_others(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps forget listeners that were not heard of, by the store's clock."""
    engine, other = await open_engine(), await open_engine()
    late, ear = time.time_ns() - 3600 * 10**9, Ear()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: late)
        stop = engine.watch_work(ear.wake)
        await listening(engine)
    await other.sweep()
    assert len(await _listeners(engine)) == 1
    ear.rung.clear()
    await other.enqueue([NewJob("j1", "t")])
    assert await ear.hears()
    stop()


async def test_where_notifications_do_not_come_through_it_polls_and_says_so(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await open_engine()
    monkeypatch.setattr(waking, "ECHO_TIMEOUT", 0.0)
    ear = Ear()
    with caplog.at_level(logging.WARNING, "headgate.postgres"):
        stop = engine.watch_work(ear.wake)
        await until(lambda: "notifications do not come through" in caplog.text, "it to say so")
        ear.rung.clear()
        assert await ear.hears(1)
    stop()


async def test_a_process_that_no_longer_watches_is_forgotten(open_engine: OpenEngine) -> None:
    engine = await open_engine()
    stop = engine.watch_ended(lambda: None)
    await listening(engine)
    assert [(row["work"], row["ended"]) for row in await _listeners(engine)] == [(None, True)]
    stop()

    async def forgotten() -> bool:
        return not await _listeners(engine)

    await until(forgotten, "the store to forget the listener", 5)
