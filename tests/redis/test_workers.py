"""Workers on servers that lose their data, run out of memory or are away for a while: noticed, said once, survived."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest

from headgate import EngineUnavailable
from tests.redis.conftest import StartServer
from tests.support.at_work import at_work as at_work_with
from tests.support.waiting import PATIENCE, until

at_work = partial(at_work_with, lease=3)


def said(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.message for record in caplog.records)


async def test_a_worker_notices_a_flushed_server_and_goes_on(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server("--appendonly", "yes")
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(server.url) as (_, add):
            with server.client() as client:
                client.flushall()
            await until(lambda: said(caplog, "lost its lease") > 0)
            assert await (await add.enqueue(2, 3)).result(timeout=PATIENCE) == 5
    assert said(caplog, "does not hold the jobs it held before") == 1


async def test_a_worker_notices_a_server_that_came_back_empty_and_goes_on(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server("--save", "")
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(server.url) as (_, add):
            server.kill()
            await until(lambda: said(caplog, "the engine cannot be reached") > 0)
            await asyncio.to_thread(server.start)
            await until(lambda: said(caplog, "lost its lease") > 0)
            assert await (await add.enqueue(2, 3)).result(timeout=PATIENCE) == 5
            await until(lambda: said(caplog, "the engine can be reached again") > 0)
    assert said(caplog, "does not hold the jobs it held before") == 1
    assert said(caplog, "was restarted or replaced") == 1
    assert said(caplog, "the engine cannot be reached") == 1
    assert said(caplog, "the engine can be reached again") == 1


async def test_a_worker_waits_for_a_server_that_was_killed_and_loses_nothing(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(server.url) as (_, add):
            handles = [await add.options(delay=0.5).enqueue(number, 1) for number in range(20)]
            server.kill()
            await until(lambda: said(caplog, "the engine cannot be reached") > 0)
            await asyncio.to_thread(server.start)
            results = await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in handles))
            assert results == [number + 1 for number in range(20)]
    assert said(caplog, "the engine cannot be reached") == 1
    assert said(caplog, "does not hold") == 0


async def test_a_worker_waits_while_the_server_is_full(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What runs out is memory for new data; nothing is half done, and no process has to be restarted."""
    server = start_server("--save", "")
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(server.url) as (_, add):
            with server.client() as client:
                handle = await add.options(delay=1).enqueue(2, 3)
                client.config_set("maxmemory", "100kb")
                with pytest.raises(EngineUnavailable, match="out of memory"):
                    await add.enqueue(1, 1)
                await until(lambda: said(caplog, "out of memory") > 0)
                client.config_set("maxmemory", "0")
            assert await handle.result(timeout=PATIENCE) == 5
    assert said(caplog, "out of memory") == 1


async def test_a_worker_works_through_a_socket(start_server: StartServer, tmp_path: Path) -> None:
    start_server("--unixsocket", str(tmp_path / "s"), "--save", "")
    async with at_work(f"unix://{tmp_path}/s") as (_, add):
        assert await (await add.enqueue(2, 3)).result(timeout=PATIENCE) == 5


async def test_a_master_that_becomes_a_replica_is_waited_for(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Without sentinels there is no telling where the master is now: one line says what to do, and the worker waits."""
    server, other = start_server("--save", ""), start_server("--save", "")
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(server.url) as (_, add):
            with server.client() as client:
                client.execute_command("REPLICAOF", "127.0.0.1", str(other.port))
                await until(lambda: said(caplog, "this server is a replica") > 0)
                client.execute_command("REPLICAOF", "NO", "ONE")
            assert await (await add.enqueue(2, 3)).result(timeout=PATIENCE) == 5
    assert said(caplog, "this server is a replica") == 1
