"""Sleepers are woken in whichever event loop they sleep, and a server that forbids listening does not matter."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis

from headgate.engine.contract import Worker
from headgate.engine.redis import RedisEngine
from headgate.job import NewJob
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_servers import RedisProcess
from tests.support.waiting import stays, until


def subscribers(server: RedisProcess) -> int:
    """How many listen to what became ready."""
    with server.client() as client:
        answer: Any = client.execute_command("PUBSUB", "NUMSUB", "{headgate:p0}:work")
        return answer[1]


async def until_listening(server: RedisProcess, count: int) -> None:
    """Wait until so many listen."""
    await until(lambda: subscribers(server) == count, f"{count} to listen")


async def test_each_event_loop_listens_for_itself_and_stops_with_its_end(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    asleep, woken = threading.Event(), threading.Event()

    async def sleep() -> None:
        rung = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop = engine.watch_work(lambda: loop.call_soon_threadsafe(rung.set) and None, ["there"])
        await asyncio.wait_for(rung.wait(), 10)  # everybody is woken once when it listens
        rung.clear()
        asleep.set()
        await asyncio.wait_for(rung.wait(), 10)
        woken.set()
        stop()

    elsewhere = threading.Thread(target=asyncio.run, args=(sleep(),))
    elsewhere.start()
    await asyncio.to_thread(asleep.wait, 10)
    assert subscribers(server) == 1
    await engine.enqueue([NewJob("j", "t", queue="there")])
    assert await asyncio.to_thread(woken.wait, 10)
    await asyncio.to_thread(elsewhere.join)
    await until_listening(server, 0)


async def test_a_closed_engine_listens_no_more(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    engine = await open_engine(server.url, check=False)
    engine.watch_work(lambda: None)
    await until_listening(server, 1)
    await engine.close()
    await until_listening(server, 0)


async def test_who_sleeps_beside_an_enqueue_finds_its_jobs_with_one_look(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """The look goes out before the enqueue is answered, and is answered behind it."""
    server = start_server()
    engine = await open_engine(server.url)
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    found: list[str] = []

    async def look() -> None:
        found.extend(attempt.job for attempt in (await engine.exchange("w", [], 10)).attempts)

    await engine.enqueue([NewJob("warm", "t")])  # the server has the scripts from now on
    await look()
    looks: list[asyncio.Task[None]] = []
    rung = asyncio.Event()

    def wake() -> None:
        looks.append(asyncio.ensure_future(look()))
        rung.set()

    stop = engine.watch_work(wake)
    await asyncio.wait_for(rung.wait(), 10)  # everybody is woken once when it listens
    await asyncio.gather(*looks)
    looks.clear()
    await engine.enqueue([NewJob("j", "t")])
    await looks[0]
    assert found == ["warm", "j"]
    stop()
    await asyncio.gather(*looks)


async def test_work_goes_on_where_listening_is_forbidden_which_is_said_once(
    start_server: StartServer, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
        engine: RedisEngine = await open_engine(f"redis://deaf:pw@127.0.0.1:{server.port}")
        rung = asyncio.Event()
        stop = engine.watch_work(rung.set)
        await until(lambda: "does not let this user listen" in caplog.text)
        await engine.enqueue([NewJob("j", "t")])
        assert rung.is_set()  # this process knows without being told
        before = connections(client)
        await stays(lambda: connections(client) <= before + 1, "it does not ask again and again", 1)
        assert caplog.text.count("does not let this user listen") == 1
    stop()


def connections(client: redis.Redis) -> int:
    """How many there were since the server was started."""
    stats: Any = client.info("stats")
    return stats["total_connections_received"]
