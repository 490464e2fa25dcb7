"""Bad input and bad days: each has a clear error, and nothing is stored by half."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from headgate.engine.contract import Limit, Settings, Succeeded, Worker
from headgate.engine.redis import RedisEngine, opening
from headgate.engine.redis.url import parse
from headgate.errors import ConfigError, EngineError, EngineUnavailable, LeaseLost, SchemaMismatch
from headgate.job import JobState, NewJob
from tests.redis.conftest import OpenEngine, StartServer
from tests.redis_servers import free_port


async def test_a_wrong_password_is_said(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server("--requirepass", "secret")
    for user in ("", ":wrong@"):
        with pytest.raises(EngineError, match="password") as caught:
            await open_engine(f"redis://{user}127.0.0.1:{server.port}", check=False)
        assert "wrong" not in str(caught.value).replace("is wrong", "").replace("WRONG", "")
    engine = await open_engine(f"redis://:secret@127.0.0.1:{server.port}")
    await engine.enqueue([NewJob("j", "t")])


async def test_a_user_without_rights_for_scripts_is_said(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-@scripting")
    with pytest.raises(EngineError, match=r"\+@scripting"):
        await open_engine(f"redis://poor:pw@127.0.0.1:{server.port}", check=False)


async def test_the_rights_that_the_guide_names_are_enough(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "redis.md").read_text()
    rule = next(line for line in guide.splitlines() if line.startswith("ACL SETUSER"))
    server = start_server()
    with server.client() as client:
        client.execute_command(*rule.split())
    engine = await open_engine(f"redis://headgate:password@127.0.0.1:{server.port}")
    called = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = engine.watch_work(lambda: loop.call_soon_threadsafe(called.set) and None)
    await asyncio.wait_for(called.wait(), 10)
    await engine.enqueue([NewJob("j", "t")])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    (attempt,) = (await engine.exchange("w", [], 1)).attempts
    await engine.exchange("w", [Succeeded("j", attempt.number)], 0)
    stop()


async def test_a_replica_is_said(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    replica = start_server("--replicaof", "127.0.0.1", str(server.port))
    with pytest.raises(EngineUnavailable, match="replica"):
        await open_engine(replica.url, check=False)


async def test_a_full_server_changes_nothing(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob("before", "t")])
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(EngineUnavailable, match="out of memory"):
            await engine.enqueue([NewJob("j1", "t"), NewJob("j2", "t")])
        client.config_set("maxmemory", "0")
    assert await engine.states(["before", "j1", "j2"]) == [JobState.READY, None, None]


async def test_data_of_another_version_is_left_alone(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url, check=False)
    with server.client() as client:
        client.hset("{headgate:p0}:meta", "version", "99")
        with pytest.raises(SchemaMismatch, match="version 99"):
            await engine.enqueue([NewJob("j", "t")])
        with pytest.raises(SchemaMismatch, match="version 99"):
            await open_engine(server.url, check=False)
        assert client.dbsize() == 1
    await engine.close()


@pytest.mark.parametrize("key", ["{headgate:p0}:meta", "{headgate:p0}:jobs"])
async def test_keys_of_somebody_else_are_left_alone(
    start_server: StartServer, open_engine: OpenEngine, key: str
) -> None:
    server = start_server()
    with server.client() as client:
        client.set(key, "mine")
        with pytest.raises(SchemaMismatch, match="prefix"):
            await open_engine(server.url, check=False)
        assert client.keys() == [key.encode()]
    await open_engine(f"{server.url}?prefix=other")


async def test_nobody_there(open_engine: OpenEngine) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await open_engine(f"redis://127.0.0.1:{free_port()}", check=False)


async def test_a_socket_works(start_server: StartServer, open_engine: OpenEngine, tmp_path: Path) -> None:
    start_server("--unixsocket", str(tmp_path / "s"))
    engine = await open_engine(f"unix://{tmp_path}/s?prefix=socket")
    await engine.enqueue([NewJob("j", "t")])
    assert await engine.states(["j"]) == [JobState.READY]


async def test_a_store_without_persistence_is_warned_of(
    start_server: StartServer, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    opening._told.clear()
    for options, words in {
        ("--save", ""): "every job",
        ("--save", "900", "1"): "since its last snapshot",
        ("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"): "noeviction",
    }.items():
        caplog.clear()
        with caplog.at_level(logging.WARNING, "headgate.engine"):
            await open_engine(start_server(*options).url)
        assert words in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "headgate.engine"):
        await open_engine(start_server("--appendonly", "yes").url)
    assert caplog.text == ""


async def test_a_flushed_server_is_noticed_and_limits_are_declared_again(
    start_server: StartServer, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    engine, other = await open_engine(server.url), await open_engine(server.url)
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    await engine.enqueue([NewJob("gone", "t")])
    with server.client() as client:
        client.flushall()
    with caplog.at_level(logging.ERROR, "headgate.engine"), pytest.raises(LeaseLost):
        await engine.exchange("w", [Succeeded("gone", 1)], 1)
    assert "was flushed" in caplog.text
    assert [status.max for status in await engine.limits("A")] == [1]
    await other.enqueue([NewJob("new", "t")])
    assert await engine.states(["gone", "new"]) == [None, JobState.READY]


async def test_a_restarted_server_is_noticed_and_used_again(
    start_server: StartServer, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server("--appendonly", "yes", "--appendfsync", "always")
    engine = await open_engine(server.url)
    called = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = engine.watch_work(lambda: loop.call_soon_threadsafe(called.set) and None)
    await asyncio.wait_for(called.wait(), 10)
    await engine.enqueue([NewJob("j1", "t")])
    server.kill()
    with pytest.raises(EngineUnavailable):
        await engine.enqueue([NewJob("j2", "t")])
    called.clear()
    server.start()
    with caplog.at_level(logging.WARNING, "headgate.engine"):
        await engine.enqueue([NewJob("j3", "t")])
    assert "restarted" in caplog.text
    await asyncio.wait_for(called.wait(), 10)  # reconnected: everybody is woken once
    await asyncio.sleep(0.2)
    called.clear()
    await engine.enqueue([NewJob("j4", "t")])
    await asyncio.wait_for(called.wait(), 10)
    stop()


async def test_a_server_that_does_not_answer_is_given_up(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url, Settings(busy_timeout=500_000))
    with server.client() as client:
        client.execute_command("CLIENT", "PAUSE", 2000, "ALL")
        with pytest.raises(EngineUnavailable, match="no answer"):
            await engine.enqueue([NewJob("j", "t")])
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h/zero", "database"),
        ("redis://h?partition=2", "unknown option 'partition'"),
        ("redis://h?partitions=0", "partitions"),
        ("redis://h?prefix={x}", "braces"),
        ("redis://h:port", "port"),
        ("redis+sentinel://h", "names no master"),
        ("redis+cluster://h?db=1", "only database 0"),
        ("unix://", "names no socket"),
    ],
)
def test_urls_that_cannot_work_are_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(url, url)


def test_urls_are_read() -> None:
    target = parse("rediss+sentinel://me:p%40ss@a,b:27000/main?partitions=4&prefix=x", "…")
    assert target.addresses == (("a", 26379), ("b", 27000))
    assert (target.user, target.password, target.master, target.partitions) == ("me", "p@ss", "main", 4)
    assert target.tls
    assert parse("valkey://[::1]:7000/3", "…").addresses == (("::1", 7000),)
    assert parse("redis://h/3", "…").db == 3


async def test_numbers_that_lua_would_round_are_refused(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine: RedisEngine = await open_engine(start_server().url)
    with pytest.raises(ConfigError, match="2223"):
        await engine.enqueue([NewJob("j", "t", at=2**53)])
    with pytest.raises(ConfigError, match="126 years"):
        await engine.declare([Limit("R", "rate", 1, 10**15, 1000)])
