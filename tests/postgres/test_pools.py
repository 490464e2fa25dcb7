"""Connections: what is planned once is not planned again, and a new one asks the server nothing that is known."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from headgate.engine.contract import Failed, Limit, Progress, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine, pools
from headgate.job import NewJob
from headgate.keys import Key, Use

KEYED = (Use(Key("A").ident),)


async def pid(engine: PostgresEngine, *, exchange: bool) -> int:
    async with engine.pools.connection(exchange=exchange) as connection:
        return await connection.fetchval("SELECT pg_backend_pid()")


async def statements(connection: Any) -> list[str]:
    return [text for (text,) in await connection.fetch("SELECT statement FROM pg_prepared_statements")]


async def test_only_exchanges_use_the_connection_that_has_exchanged(engine: PostgresEngine) -> None:
    first = await pid(engine, exchange=False)
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.exchange("w", [], 1)
    assert await pid(engine, exchange=True) == first, "the connection that was there was good enough"
    await engine.sweep()
    await engine.enqueue([NewJob("j", "t")])
    assert await pid(engine, exchange=False) != first
    async with engine.pools.connection() as connection:
        assert not any("exchange(" in text for text in await statements(connection))
    await engine.exchange("w", [], 1)
    assert await pid(engine, exchange=True) == first


async def test_one_that_was_closed_is_replaced(engine: PostgresEngine) -> None:
    first = await pid(engine, exchange=True)
    async with engine.pools.connection(exchange=True) as connection:
        await connection.close()
    assert await pid(engine, exchange=True) != first


async def test_those_that_nobody_has_needed_for_a_while_are_hung_up(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        held = [
            await stack.enter_async_context(engine.pools.connection(exchange=exchange))
            for exchange in (False, False, True, True)
        ]
    assert not any(connection.is_closed() for connection in held)
    monkeypatch.setattr(pools, "IDLE", 0.0)
    await engine.clock()
    assert sum(connection.is_closed() for connection in held) == 3


async def test_nothing_is_asked_about_types_on_a_job_s_way(engine: PostgresEngine) -> None:
    """The driver asks about all arrays but those of texts: many milliseconds on each new connection."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("j", "t", uses=KEYED)])
    await engine.enqueue(
        [NewJob(f"later-{n}", "t", uses=KEYED, unique=f"{n}", delay=n * 10**9) for n in (1, 2)]
    )
    for number, end in ((1, Failed("j", 1, "no", retry_in=0)), (2, Succeeded("j", 2))):
        (attempt,) = (await engine.exchange("w", [], 1)).attempts
        assert attempt.number == number
        answer = await engine.exchange("w", [Progress("j", number, "5"), Progress("j", 9, "6"), end], 0)
        assert answer.refused == (("j", 9),)
    (job,) = await engine.get(["j"])
    assert job is not None
    assert (job.uses, job.progress, len(job.history)) == (KEYED, "5", 2)
    await engine.heartbeat("w")
    await engine.sweep()
    await engine.retire("w")
    known: list[str] = []
    for exchange in (True, False):
        async with engine.pools.connection(exchange=exchange) as connection:
            known += await statements(connection)
    for verb in (
        "register",
        "_enqueue_one",
        "_enqueue",
        "exchange",
        "_history",
        "heartbeat",
        "sweep",
        "retire",
    ):
        assert any(f"{verb}(" in text for text in known)
    assert not any("typeinfo_tree" in text for text in known)
