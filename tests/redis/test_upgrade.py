"""Data of an older version is brought up to ours when the store is opened; asking for the version changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, Settings, Succeeded, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.catalogue import VERSION
from headgate.engine.redis.scripts import lone_script
from headgate.engine.redis.url import parse
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_servers import RedisProcess

BASE = "{headgate:p0}:"
BY_STATE = [BASE + "blocks:" + state for state in ("scheduled", "ready", "waiting")]
LINES = ("ready", "aside", "thread", "suspect", "wait")
KEYS = [Key("F", "1"), Key("F", "ü=1", "mäßig"), Key("G")]


def make_old(server: RedisProcess) -> None:
    """What version 1 did not have is taken away."""
    with server.client() as client:
        client.delete(BASE + "computes", BASE + "refreshed", BASE + "numbers", *BY_STATE)
        for worker, record in client.hgetall(BASE + "workers").items():
            assert isinstance(record, bytes)
            client.hset(BASE + "workers", worker, msgspec.msgpack.encode(msgspec.msgpack.decode(record)[:5]))
        client.hset(BASE + "meta", "version", 1)
    without_tags(server)


def without_tags(server: RedisProcess) -> None:
    """Lines as version 4 had them: no tag in their members, all of score 0."""
    with server.client() as client:
        for family in LINES:
            at = 3 if family == "suspect" else 2
            for line in client.keys(f"{BASE}{family}:*"):
                members: Any = client.zrange(line, 0, -1)
                client.delete(line)
                client.zadd(line, {member[:at] + member[at + 16 :]: 0 for member in members})


def shortened(packed: object, length: int) -> bytes:
    """The first so many values of a packed list."""
    assert isinstance(packed, bytes)
    return msgspec.msgpack.encode(msgspec.msgpack.decode(packed)[:length])


async def test_data_of_version_1_is_brought_up_to_ours(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    before = await open_engine(server.url, check=False)
    await before.declare([Limit("F", "floating", 1), Limit("G", "floating", 1)])
    jobs = [NewJob(f"j{n}", "t", tenant=key.tenant, uses=(Use(key.ident),)) for n, key in enumerate(KEYS * 2)]
    await before.enqueue(jobs)
    for key in KEYS:
        await before.compute(key.ident, 7)
    await before.register(Worker("old", frozenset({"t"}), lease=SECOND))
    await before.exchange("old", [], 2)
    await before.close()
    make_old(server)

    engine = await open_engine(server.url)
    assert await engine.version() == VERSION
    with server.client() as client:
        members = [
            b"F=" + KEYS[0].ident.encode(),
            b"F=" + KEYS[1].ident.encode(),
            b"G=" + KEYS[2].ident.encode(),
        ]
        assert client.zrange(BASE + "computes", 0, -1) == sorted(members)
        assert sorted(client.zrange(BASE + "refreshed", 0, -1)) == sorted(key.ident.encode() for key in KEYS)
    now = await engine.clock()
    swept = await engine.sweep(now=now + 2 * SECOND)
    assert swept.lost == 2, "those of the worker of the old version"
    await engine.register(Worker("new", frozenset({"t"}), lease=10**15))
    while attempts := (await engine.exchange("new", [], 10, now=now + 3 * SECOND)).attempts:
        assert {attempt.suspicion for attempt in attempts} <= {0, 1}
    assert await engine.count(Filter(states=(JobState.RUNNING,))) == len(jobs)
    assert {line.max for line in await engine.limits("F") if line.key != "F"} == {7}


async def test_data_of_version_2_is_read_as_it_is(start_server: StartServer, open_engine: OpenEngine) -> None:
    """It knew neither headers nor tasks that need threads."""
    server = start_server()
    before = await open_engine(server.url, check=False)
    await before.enqueue([NewJob(f"j{n}", "t") for n in range(3)])
    await before.register(Worker("old", frozenset({"t"}), concurrency=7))
    await before.exchange("old", [], 1)
    await before.close()
    with server.client() as client:
        for key in client.keys(BASE + "spec:*"):
            client.set(key, shortened(client.get(key), 10))
        client.hset(BASE + "workers", "old", shortened(client.hget(BASE + "workers", "old"), 7))
        client.delete(*BY_STATE)
        client.hset(BASE + "meta", "version", 2)
    without_tags(server)

    engine = await open_engine(server.url)
    assert await engine.version() == VERSION
    (worker,) = await engine.workers()
    assert (worker.worker.concurrency, worker.worker.threaded, worker.running) == (7, frozenset(), 1)
    (attempt,) = (await engine.exchange("old", [Succeeded("j0", 1)], 1, threads=0)).attempts
    assert (attempt.job, attempt.headers) == ("j1", None)
    assert [job and job.headers for job in await engine.get(["j0", "j2"])] == [None, None]


def lines_of(server: RedisProcess) -> dict[Any, Any]:
    """All lines with their members and scores."""
    with server.client() as client:
        names = [name for family in LINES for name in client.keys(f"{BASE}{family}:*")]
        return {name: client.zrange(name, 0, -1, withscores=True) for name in names}


async def make_version_4(server: RedisProcess, open_engine: OpenEngine) -> tuple[list[str], dict[Any, Any]]:
    """Long lines and many lines, of all kinds; the names of the jobs of the longest in order, and what the lines are to
    be again."""
    before = await open_engine(server.url, check=False)
    await before.declare([Limit("one", "concurrency", 1), Limit("many", "concurrency", 0)])
    ready = [NewJob(f"r{n}", "t", priority=41 + n % 3) for n in range(1200)]
    await before.enqueue(ready)
    await before.enqueue([NewJob(f"w{n}", "u", queue="w", uses=(Use(Key("one").ident),)) for n in range(700)])
    keys = [Key("many", f"ü{n}") for n in range(230)]
    await before.enqueue([NewJob(f"m{n}", "u", uses=(Use(key.ident),)) for n, key in enumerate(keys)])
    await before.enqueue([NewJob(f"a{n}", "unknown", queue="a") for n in range(3)])
    await before.register(Worker("old", frozenset({"t", "u"}), lease=SECOND, threaded=frozenset({"t"})))
    await before.exchange("old", [], 3, ["a"])
    await before.exchange("old", [], 2, ["w", "default"], threads=0)
    await before.exchange("old", [], 3, ["default"], threads=2)
    await before.report_lost(["old"])
    await before.close()
    with server.client() as client:
        for family in ("suspect", "aside", "thread"):
            assert client.keys(f"{BASE}{family}:*")
        client.hset(BASE + "meta", "version", 4)
    lines = lines_of(server)
    without_tags(server)
    return [job.id for job in sorted(ready, key=lambda job: job.priority)], lines


async def test_lines_of_version_4_get_tags(start_server: StartServer, open_engine: OpenEngine) -> None:
    """By any number of processes that open the store, also behind one that died over it."""
    server = start_server()
    in_order, lines = await make_version_4(server, open_engine)
    assert lines_of(server) != lines
    with server.client() as client:
        client.eval(lone_script("open"), 1, BASE + "meta", VERSION, "e", 1)
        assert client.eval(lone_script("move_lines"), 1, BASE + "meta", VERSION) == b"1"
        assert client.eval(lone_script("move_lines"), 1, BASE + "meta", VERSION) == b"1"

    engine, *_ = await asyncio.gather(*(open_engine(server.url) for _ in range(3)))
    assert lines_of(server) == lines
    with server.client() as client:
        assert not client.hexists(BASE + "meta", "moving")
        assert client.eval(lone_script("move_lines"), 1, BASE + "meta", VERSION) == b"0"
        assert client.eval(lone_script("move_lines"), 1, BASE + "meta", VERSION + 1) == b"version"
    assert audit(await engine.snapshot()) == []
    await engine.register(Worker("new", frozenset({"t", "u"}), lease=10**12, concurrency=10_000))
    started = [a.job for a in (await engine.exchange("new", [], 2000, ["default"])).attempts]
    suspects = {"r0", "r3"}
    assert [id for id in started if id not in suspects] == [id for id in in_order if id not in suspects]
    (first,) = (await engine.exchange("new", [], 5, ["w"])).attempts
    assert first.job == "w0"


async def test_migrating_says_from_which_version(start_server: StartServer) -> None:
    server = start_server()
    engine = RedisEngine(parse(server.url, server.url), Settings())
    assert await engine.migrate() == (0, VERSION)
    make_old(server)
    assert await engine.version() == 1
    assert await engine.migrate() == (1, VERSION)
    assert await engine.migrate() == (VERSION, VERSION)
    await engine.close()


async def test_asking_for_the_version_founds_nothing(start_server: StartServer) -> None:
    server = start_server()
    engine = RedisEngine(parse(server.url, server.url), Settings())
    assert await engine.version() == 0
    with server.client() as client:
        assert client.dbsize() == 0
    await engine.open()
    assert await engine.version() == VERSION
    await engine.close()
