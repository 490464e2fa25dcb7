"""What Lua's numbers cannot count exactly is refused before anything is stored; the largest that fit are kept."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Limit, Override
from headgate.engine.redis.number_range import EARLIEST, LATEST, LONGEST
from headgate.errors import ConfigError
from headgate.job import NewJob
from headgate.keys import Key
from tests.redis.conftest import OpenEngine, StartServer


async def test_numbers_and_times_at_the_edge_are_kept_as_they_are(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    jobs = [
        NewJob("early", "t", at=EARLIEST),
        NewJob("late", "t", at=LATEST),
        NewJob("long", "t", delay=LONGEST, retention=LONGEST),
    ]
    await engine.enqueue(jobs, now=10**15)
    assert [job.due for job in await engine.get(["early", "late", "long"]) if job] == [
        EARLIEST,
        LATEST,
        10**15 + LONGEST,
    ]
    await engine.declare([Limit("A", "concurrency", LONGEST), Limit("F", "floating", 1)])
    await engine.override(Override("A", LONGEST - 1, until=LATEST))
    await engine.compute(Key("F").ident, LONGEST)
    (limit,) = await engine.limits("A")
    assert (limit.declared, limit.max) == (LONGEST, LONGEST - 1)
    assert limit.override is not None
    assert limit.override.until == LATEST
    assert [line.max for line in await engine.limits("F") if line.max != 1] == [LONGEST]


async def test_numbers_and_times_beyond_the_edge_are_refused(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.declare([Limit("A", "concurrency", 1), Limit("F", "floating", 1)])
    with server.client() as client:
        before = {key: client.dump(key) for key in client.scan_iter()}
        for job in (
            NewJob("j", "t", at=EARLIEST - 1),
            NewJob("j", "t", at=LATEST + 1),
            NewJob("j", "t", delay=LONGEST + 1),
            NewJob("j", "t", retention=LONGEST + 1),
        ):
            with pytest.raises(ConfigError, match="Redis keeps"):
                await engine.enqueue([job])
            with pytest.raises(ConfigError, match="Redis keeps"):
                await engine.tick("tick", None, 1, [job])
        for limit in (Limit("B", "concurrency", LONGEST + 1), Limit("R", "rate", 1, LONGEST // 2, burst=3)):
            with pytest.raises(ConfigError, match="exactly"):
                await engine.declare([limit])
            with pytest.raises(ConfigError, match="exactly"):
                await engine.enqueue([NewJob("j", "t")], limits=[limit])
        for until in (EARLIEST - 1, LATEST + 1):
            with pytest.raises(ConfigError, match="leave until out"):
                await engine.override(Override("A", 1, until=until))
        with pytest.raises(ConfigError, match="None lifts the limit"):
            await engine.override(Override("A", LONGEST + 1))
        with pytest.raises(ConfigError, match="None lifts the limit"):
            await engine.compute(Key("F").ident, LONGEST + 1)
        assert {key: client.dump(key) for key in client.scan_iter()} == before
