"""A stored record that cannot be read ends as failed, gives back what it holds, and disturbs no other."""

from __future__ import annotations

import struct

import pytest

from headgate.engine.contract import Filter, Limit, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.records import encode
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_servers import RedisProcess

USE = (Use(Key("A").ident),)
TAG = "{headgate:p0}:"


def garble(server: RedisProcess, id: str, how: str) -> None:
    """Spoil one part of what is stored of a job."""
    with server.client() as client:
        record = client.get(f"{TAG}job:{id}")
        assert isinstance(record, bytes)
        head = struct.calcsize(">BBBdddIIIdIddd")
        (length,) = struct.unpack_from(">I", record, head)
        match how:
            case "spec":
                client.set(f"{TAG}spec:{id}", b"\xc1 no such thing")
            case "record":
                client.set(f"{TAG}job:{id}", b"garbled")
            case "need":
                client.set(
                    f"{TAG}job:{id}", record[: head + 4] + b"\xc1" * length + record[head + 4 + length :]
                )
            case _:
                wrong = ["t", "default", "", 50, "nonsense" if how == "uses" else False, "{", False, False]
                need = encode(wrong)
                body = struct.pack(">I", len(need)) + need
                client.set(f"{TAG}job:{id}", record[:head] + body + record[head + 4 + length :])


@pytest.fixture
def server(start_server: StartServer) -> RedisProcess:
    return start_server(spoiled=True)


@pytest.fixture
async def engine(server: RedisProcess, open_engine: OpenEngine) -> RedisEngine:
    engine = await open_engine(server.url, check=False)
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    return engine


@pytest.mark.parametrize("how", ["spec", "record", "need", "uses", "retry"])
async def test_a_ready_job_that_cannot_be_read_fails_and_the_next_one_starts(
    engine: RedisEngine, server: RedisProcess, how: str
) -> None:
    await engine.enqueue([NewJob("bad", "t"), NewJob("good", "t")])
    garble(server, "bad", how)
    (shown,) = await engine.get(["bad"])
    assert shown is not None
    assert "cannot be read" in (shown.error or "")
    assert len(await engine.find(Filter())) == 2
    started = [each.job for each in (await engine.exchange("w", [], 2)).attempts]
    started += [each.job for each in (await engine.exchange("w", [], 2)).attempts]
    assert started == ["good"]
    assert await engine.states(["bad"]) == [JobState.FAILED]
    (shown,) = await engine.get(["bad"])
    assert shown is not None
    assert "cannot be read" in (shown.error or "")
    assert [verdict.done for verdict in await engine.delete(["bad"])] == [True]
    assert await engine.get(["bad"]) == [None]
    await engine.close()


@pytest.mark.parametrize("how", ["need", "uses", "retry"])
async def test_a_running_job_that_cannot_be_read_gives_its_slot_back(
    engine: RedisEngine, server: RedisProcess, how: str
) -> None:
    await engine.enqueue([NewJob("bad", "t", uses=USE), NewJob("next", "t", uses=USE)])
    assert len((await engine.exchange("w", [], 1)).attempts) == 1
    garble(server, "bad", how)
    await engine.report_lost(["w"])
    assert await engine.states(["bad"]) == [JobState.FAILED]
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    assert [each.job for each in (await engine.exchange("w", [], 2)).attempts] == ["next"]
    await engine.close()


@pytest.mark.parametrize("how", ["record", "need", "uses", "retry"])
async def test_a_scheduled_or_waiting_job_that_cannot_be_read_disturbs_neither_sweeps_nor_offers(
    engine: RedisEngine, server: RedisProcess, how: str
) -> None:
    await engine.enqueue([NewJob("runs", "t", uses=USE)])
    (running,) = (await engine.exchange("w", [], 1)).attempts
    await engine.enqueue([NewJob("waits", "t", uses=USE), NewJob("behind", "t", uses=USE)])
    await engine.enqueue([NewJob("later", "t", delay=1)])
    for id in ("waits", "later"):
        garble(server, id, how)
    await engine.snapshot()
    await engine.sweep()
    assert await engine.states(["later"]) == [JobState.FAILED]
    await engine.cancel([running.job])
    assert (await engine.resume_worker("w", 1, [])).taken_back == 1
    started = [each.job for each in (await engine.exchange("w", [], 1)).attempts]
    started += [each.job for each in (await engine.exchange("w", [], 1)).attempts]
    assert started == ["behind"]
    assert await engine.states(["waits"]) == [JobState.FAILED]
    await engine.close()
