"""Bad input and bad days: each has a clear error, and nothing is stored by half."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from headgate.engine.contract import Filter, Limit, Settings, Succeeded, Worker
from headgate.engine.redis import opening
from headgate.engine.rules.audit import audit
from headgate.errors import ConfigError, EngineError, EngineUnavailable, LeaseLost, SchemaMismatch
from headgate.job import JobState, NewJob
from tests.redis.conftest import KINDS, OpenEngine, StartServer
from tests.support.redis_servers import free_port
from tests.support.waiting import until

PASSWORD = "s/e:c@r?e#t%41ö"
"""Every mark that means something in a URL."""


@pytest.mark.parametrize("user", ["", "default"])
async def test_a_wrong_password_is_said_and_a_right_one_is_used(
    start_server: StartServer, open_engine: OpenEngine, user: str
) -> None:
    server = start_server("--requirepass", PASSWORD)
    at = f"127.0.0.1:{server.port}"
    with pytest.raises(EngineError, match="a password is needed; write redis://user:password@host"):
        await open_engine(f"redis://{at}", check=False)
    with pytest.raises(EngineError, match="the user name or password is wrong") as caught:
        await open_engine(f"redis://{user}:guess@{at}", check=False)
    assert "guess" not in str(caught.value)
    engine = await open_engine(f"redis://{user}:{quote(PASSWORD, safe='')}@{at}/3")
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


@pytest.mark.parametrize("founded", [False, True])
async def test_a_replica_is_said(start_server: StartServer, open_engine: OpenEngine, founded: bool) -> None:
    """Whether or not it has a store's data."""
    server = start_server("--repl-diskless-sync-delay", "0")
    if founded:
        await open_engine(server.url)
    replica = start_server("--replicaof", "127.0.0.1", str(server.port))
    with replica.client() as client:
        await until(lambda: "up" in str(client.info("replication").get("master_link_status")))
        assert client.dbsize() == founded
    with pytest.raises(EngineUnavailable, match="this server is a replica; name its master"):
        await open_engine(replica.url, check=False)


async def test_a_full_server_changes_nothing(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob("before", "t")])
    with server.client() as client:
        client.config_set("maxmemory", "100kb")
        with pytest.raises(EngineUnavailable, match="out of memory"):
            await engine.enqueue([NewJob("j1", "t"), NewJob("j2", "t")])
        client.config_set("maxmemory", "0")
    assert await engine.states(["before", "j1", "j2"]) == [JobState.READY, None, None]


async def test_a_full_server_can_be_looked_at(start_server: StartServer, open_engine: OpenEngine) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob("j", "t")])
    with server.client() as client:
        client.config_set("maxmemory", "100kb")
        other = await open_engine(server.url)
        assert await other.states(["j"]) == [JobState.READY]
        assert [job.id for job in await other.find(Filter())] == ["j"]
        assert [queue.ready for queue in await other.queues()] == [1]
        assert audit(await other.snapshot()) == []
        client.config_set("maxmemory", "0")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "redis6"], indirect=True)
async def test_a_full_server_lets_jobs_be_cancelled_and_deleted_and_keeps_leases(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """Only functions can do that: a server without them refuses."""
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob("running", "t"), NewJob("ready", "t")])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    await engine.exchange("w", [], 1)
    with server.client() as client:
        client.config_set("maxmemory", "100kb")
        with pytest.raises(EngineUnavailable, match="out of memory"):
            await engine.exchange("w", [Succeeded("running", 1)], 1)
        assert [verdict.done for verdict in await engine.cancel(["ready"])] == [True]
        assert [verdict.done for verdict in await engine.delete(["ready"])] == [True]
        assert (await engine.heartbeat("w")).cancelling == ()
        await engine.sweep()
        await engine.retire("w")
        client.config_set("maxmemory", "0")
    assert await engine.states(["running", "ready"]) == [JobState.READY, None]


async def test_data_of_another_version_is_left_alone(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server(spoiled=True)
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
    server = start_server(spoiled=True)
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
    start_server("--unixsocket", str(tmp_path / "s"), "--requirepass", PASSWORD)
    with pytest.raises(EngineError, match="a password is needed"):
        await open_engine(f"unix://{tmp_path}/s", check=False)
    engine = await open_engine(f"unix://:{quote(PASSWORD, safe='')}@{tmp_path}/s?prefix=socket&db=2")
    await engine.enqueue([NewJob("j", "t")])
    assert await engine.states(["j"]) == [JobState.READY]


async def test_a_database_that_the_server_has_not_got_is_said(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server("--databases", "4")
    with pytest.raises(ConfigError, match="a database that this server does not have"):
        await open_engine(server.url.replace("/0", "/4"), check=False)
    await open_engine(server.url.replace("/0", "/3"))


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


async def test_a_server_that_does_not_tell_its_settings_is_warned_of(
    start_server: StartServer, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of hosting services often do not."""
    opening._told.clear()
    server = start_server("--save", "")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", "on", ">pw", "~*", "&*", "+@all", "-config")
        client.execute_command(
            "ACL", "SETUSER", "other", "on", ">pw", "~*", "&*", "+@all", "-config", "-info"
        )
    for user, words in {"some": "or every job if it takes none", "other": "INFO is not allowed"}.items():
        caplog.clear()
        with caplog.at_level(logging.WARNING, "headgate.engine"):
            engine = await open_engine(f"redis://{user}:pw@127.0.0.1:{server.port}")
        assert [words in each.message for each in caplog.records] == [True]
        await engine.enqueue([NewJob(f"of {user}", "t")])


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
    """`other` stands for another process: what it enqueues can be heard of through the server only."""
    server = start_server("--appendonly", "yes", "--appendfsync", "always")
    engine, other = await open_engine(server.url), await open_engine(server.url)
    called = asyncio.Event()
    stop = engine.watch_work(called.set)
    await asyncio.wait_for(called.wait(), 10)
    server.kill()
    with pytest.raises(EngineUnavailable):
        await other.enqueue([NewJob("j1", "t")])
    called.clear()
    with caplog.at_level(logging.WARNING, "headgate.engine"):
        server.start()
        await asyncio.wait_for(called.wait(), 10)  # reconnected: everybody is woken once
    assert "was restarted" in caplog.text
    called.clear()
    await other.enqueue([NewJob("j2", "t")])
    await asyncio.wait_for(called.wait(), 10)
    stop()


async def test_a_server_that_does_not_answer_is_given_up(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url, Settings(timeout=300_000))
    with server.client() as client:
        client.execute_command("CLIENT", "PAUSE", 1000, "ALL")
        with pytest.raises(EngineUnavailable, match="no answer"):
            await engine.enqueue([NewJob("j", "t")])
        await asyncio.to_thread(client.ping)  # answered when the pause is over
