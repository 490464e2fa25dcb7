"""kill -9 of the server in the middle of load, whole or its first process alone: acknowledged jobs survive and run,
limits hold, nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import pytest
from psycopg.pq import PGconn
from psycopg.pq.abc import PGconn as PGconnection

from headgate import App, ConcurrencyLimit, EngineUnavailable, Retry
from headgate.engine.rules.audit import audit
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import eventually, until

DEATHS = 3
BUSY = """
    DO $$ DECLARE until timestamptz := clock_timestamp() + interval '2 seconds';
    BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$
"""
"""What keeps a backend from noticing that its postmaster is gone."""


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_killed_server_loses_no_acknowledged_job_and_no_slot() -> None:
    server = PostgresProcess()
    server.start()
    try:
        await _survive(server, server.kill)
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_backends_that_outlive_the_postmaster_do_no_harm() -> None:
    server = PostgresProcess()
    server.start()
    refused: list[str] = []

    def die() -> None:
        """The next server is refused as long as an old backend works."""
        busy = PGconn.connect(server.dsn.encode())
        busy.send_query(BUSY.encode())
        server.kill_postmaster()
        try:
            server.start()
        except RuntimeError as error:
            refused.append(str(error))
        eventually(lambda: ended(busy), "the backend to end", every=0.05)
        busy.finish()

    try:
        await _survive(server, die)
    finally:
        server.stop()
    assert len(refused) == DEATHS
    assert all("still in use" in each or "still running" in each for each in refused), refused


def ended(connection: PGconnection) -> bool:
    connection.consume_input()
    return not connection.is_busy()


async def _survive(server: PostgresProcess, die: Callable[[], None]) -> None:
    app = App(server.url())
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    ran: Counter[int] = Counter()

    @app.task(retry=Retry(attempts=20, delay=0.1))
    async def work(number: int, key: Annotated[int, ConcurrencyLimit(2)]) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        try:
            await asyncio.sleep(0.005)
            ran[number] += 1
        finally:
            running[key] -= 1

    acknowledged: list[int] = []

    async def enqueue() -> None:
        for number in range(1500):
            while True:
                try:
                    await work.enqueue(number, number % 10)
                except EngineUnavailable:
                    await asyncio.sleep(0.1)
                    break  # perhaps stored, perhaps not: not acknowledged
                acknowledged.append(number)
                break

    async with app, app.worker(concurrency=30, lease=3):
        enqueuing = asyncio.create_task(enqueue())
        for _ in range(DEATHS):
            await asyncio.sleep(1)
            await asyncio.to_thread(die)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(start, server)
        await enqueuing
        await until(lambda: set(acknowledged) <= set(ran), "every acknowledged job", 90)
        await until(lambda: not running.total())
    engine = (await app._client.opened()).engine
    problems = audit(await engine.snapshot())
    await app.close()
    assert problems == []
    assert max(most.values()) <= 2


def start(server: PostgresProcess) -> None:
    """As a service manager does: again and again until it is there."""

    def started() -> bool:
        with suppress(RuntimeError):
            server.start()
            return True
        return False

    eventually(started, "the server to come back", every=0.2)
