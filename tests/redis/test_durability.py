"""What survives kill -9 of the server: with `appendfsync always`, all that was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib

from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.errors import EngineUnavailable, JobExists
from headgate.ids import new_id
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server(*ALWAYS)
    engine = await open_engine(server.url)
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def enqueue() -> None:
        while True:
            id = new_id()
            await engine.enqueue([NewJob(id, "t")])
            acknowledged.append(id)
            if len(acknowledged) >= 200:
                enough.set()

    tasks = [asyncio.create_task(enqueue()) for _ in range(8)]
    await asyncio.wait_for(enough.wait(), 30)
    server.kill()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(error, EngineUnavailable) for error in errors)
    server.start()
    states = await engine.states(acknowledged)
    assert [state for state in states if state is not JobState.READY] == []


async def test_slots_and_waiters_survive_a_killed_server(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server(*ALWAYS)
    engine = await open_engine(server.url)
    jobs = [NewJob(f"j{number}", "t", uses=(Use(Key("A").ident),)) for number in range(3)]
    await engine.enqueue(jobs, limits=[Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    (first,) = (await engine.exchange("w", [], 5)).attempts
    server.kill()
    server.start()
    with contextlib.suppress(EngineUnavailable):  # the engine hears that its connection is gone
        await engine.clock()
    answer = await engine.exchange("w", [Succeeded(first.job, first.number)], 5)
    assert [attempt.job for attempt in answer.attempts] == ["j1"]
    assert await engine.states(["j0", "j1", "j2"]) == [JobState.SUCCEEDED, JobState.RUNNING, JobState.WAITING]


async def test_an_enqueue_whose_answer_got_lost_can_be_made_again(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    """Its id tells whether it was stored."""
    server = start_server(*ALWAYS)
    engine = await open_engine(server.url)
    server.kill()
    job = NewJob("mine", "t")
    try:
        await engine.enqueue([job])
    except EngineUnavailable:
        server.start()
    with contextlib.suppress(JobExists):
        await engine.enqueue([job])
    assert await engine.states(["mine"]) == [JobState.READY]
