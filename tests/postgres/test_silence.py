"""Connections that fall silent: nothing is reset, and no answer comes. Every verb ends all the same, and in time."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from headgate.engine.contract import Filter, Settings, Succeeded, Worker
from headgate.engine.deadline import within
from headgate.engine.postgres import PostgresEngine, pools, waking
from headgate.errors import EngineUnavailable
from headgate.job import JobState, NewJob
from tests.support.postgres_server import PostgresProcess
from tests.support.proxy import Proxy
from tests.support.waiting import until

TIMEOUT = 0.5


@pytest.fixture
def proxy(process: PostgresProcess) -> Iterator[Proxy]:
    with Proxy(process.port) as proxy:
        yield proxy


@pytest.fixture
async def engine(proxy: Proxy, process: PostgresProcess, schema: str) -> AsyncIterator[PostgresEngine]:
    """An engine behind the proxy, with a deadline of half a second."""
    dsn = process.dsn.replace(str(process.port), str(proxy.port))
    engine = PostgresEngine(dsn, Settings(timeout=int(TIMEOUT * 1e6)), schema=schema)
    with within(10):
        await engine.open()
    yield engine
    proxy.forward()
    await engine.close()


@asynccontextmanager
async def in_time(most: float = 4 * TIMEOUT) -> AsyncGenerator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < most


async def test_every_kind_of_verb_ends_at_its_deadline(engine: PostgresEngine, proxy: Proxy) -> None:
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t")])
    proxy.silence()
    calls = [
        engine.exchange("w", [], 1, number=1),
        engine.heartbeat("w"),
        engine.enqueue([NewJob("k", "t")]),
        engine.tick("nightly", None, 1, [NewJob("n", "t")]),
        engine.snapshot(),
        engine.count(Filter()),
        engine.sweep(),
        engine.import_jobs([]),
        engine.limits(),
        engine.resume_worker("w", 2, []),
        engine.cancel(["j"]),
        engine.clock(),
    ]
    async with in_time():
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in ended] == [EngineUnavailable] * len(calls)


async def test_the_message_says_that_it_is_not_known_whether_it_took_effect(
    engine: PostgresEngine, proxy: Proxy
) -> None:
    await engine.clock()
    proxy.silence()
    with pytest.raises(EngineUnavailable, match="not known whether"):
        await engine.enqueue([NewJob("j", "t")])


async def test_a_worker_s_deadline_is_shorter_than_the_app_s(engine: PostgresEngine, proxy: Proxy) -> None:
    await engine.clock()
    proxy.silence()
    async with in_time(TIMEOUT):
        with within(0.1), pytest.raises(EngineUnavailable):
            await engine.heartbeat("w")


async def test_a_cancel_is_heeded_although_the_connection_breaks_at_the_same_moment(
    engine: PostgresEngine, proxy: Proxy
) -> None:
    """A transaction that cannot be rolled back raises that, in place of the cancel that ended it."""
    began = asyncio.Event()

    async def work() -> None:
        async with engine.pools.connection() as connection, connection.transaction():
            began.set()
            await connection.execute("SELECT pg_sleep(30)")

    working = asyncio.create_task(work())
    await began.wait()
    await asyncio.sleep(0.1)
    proxy.reset()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await engine.clock()


async def test_a_silent_connection_is_replaced_by_one_that_answers(
    engine: PostgresEngine, proxy: Proxy
) -> None:
    await engine.register(Worker("w", frozenset({"t"})))
    proxy.silence()
    with pytest.raises(EngineUnavailable):
        await engine.exchange("w", [], 1, number=1)
    proxy.forward()
    await engine.resume_worker("w", 2, [])
    await engine.enqueue([NewJob("j", "t")])
    answer = await engine.exchange("w", [], 1, number=3)
    assert [attempt.job for attempt in answer.attempts] == ["j"]
    await engine.exchange("w", [Succeeded("j", 1)], 0, number=4)
    assert await engine.states(["j"]) == [JobState.SUCCEEDED]


async def test_opening_has_a_deadline_and_leaves_no_connection_behind(
    process: PostgresProcess, proxy: Proxy, schema: str
) -> None:
    dsn = process.dsn.replace(str(process.port), str(proxy.port))
    engine = PostgresEngine(dsn, Settings(timeout=int(TIMEOUT * 1e6)), schema=schema)
    proxy.silence()
    async with in_time():
        ended = await asyncio.gather(*(engine.open() for _ in range(10)), return_exceptions=True)
    assert {type(error) for error in ended} == {EngineUnavailable}


async def test_an_engine_behind_a_silent_network_is_closed_in_time(
    engine: PostgresEngine, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CLOSE_TIMEOUT", 0.2)
    await asyncio.gather(*(engine.clock() for _ in range(8)))
    proxy.silence()
    async with in_time():
        await engine.close()


async def test_callers_beyond_the_last_connection_do_not_wait_for_ever(
    engine: PostgresEngine, proxy: Proxy
) -> None:
    await engine.clock()
    proxy.silence()
    async with in_time():
        ended = await asyncio.gather(
            *(engine.count(Filter()) for _ in range(3 * pools.MOST)), return_exceptions=True
        )
    assert {type(error) for error in ended} == {EngineUnavailable}


async def test_the_connection_that_listens_notices_silence_and_calls_again_after_it(
    engine: PostgresEngine,
    proxy: Proxy,
    process: PostgresProcess,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waking, "ECHO_AFTER", 0.0)
    monkeypatch.setattr(waking, "PROBE", 0.2)
    monkeypatch.setattr(waking, "ANSWER_TIMEOUT", 0.3)
    loop, rung = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(rung.set)

    stop = engine.watch_work(wake)
    await until(
        lambda: process.execute(f'SELECT 1 FROM "{schema.replace(chr(34), chr(34) * 2)}".listeners'),
        patience=5,
    )
    await asyncio.sleep(0.5)
    proxy.silence()
    rung.clear()
    async with asyncio.timeout(5):
        await rung.wait()
    proxy.forward()
    await asyncio.sleep(1.5)
    rung.clear()
    other = PostgresEngine(process.dsn, schema=schema)
    await other.enqueue([NewJob("j", "t")])
    async with asyncio.timeout(5):
        await rung.wait()
    await other.close()
    stop()


async def test_the_connection_that_listens_is_dropped_when_nothing_watches(
    engine: PostgresEngine, process: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "ECHO_AFTER", 0.0)

    def listening() -> int:
        return process.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query LIKE '%listeners AS l%' "
            "AND pid <> pg_backend_pid()"
        )[0][0]

    before = listening()
    stop = engine.watch_work(lambda: None)
    await until(lambda: listening() > before, patience=5)
    stop()
    await until(lambda: listening() <= before, patience=5)


def test_a_loop_that_has_ended_is_not_kept(process: PostgresProcess, schema: str) -> None:
    engine = PostgresEngine(process.dsn, schema=schema)
    for _ in range(3):
        asyncio.run(engine.open())
    gc.collect()
    assert (len(engine.pools._pools), len(engine.pools._ends)) == (0, 0)


async def test_sockets_are_told_to_notice_a_silent_peer(engine: PostgresEngine) -> None:
    import socket

    async with engine.pools.connection() as connection:
        sock = connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == pools.KEEPALIVE["TCP_KEEPIDLE"]
        assert await connection.fetchval("SHOW client_connection_check_interval") == "5s"
