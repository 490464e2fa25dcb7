"""kill -9 of the server in the middle of load: acknowledged jobs survive and run, limits hold, nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated

import pytest

from headgate import App, ConcurrencyLimit, EngineUnavailable, Retry
from headgate.engine.rules.audit import audit
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_killed_server_loses_no_acknowledged_job_and_no_slot() -> None:
    server = PostgresProcess()
    server.start()
    try:
        await _survive(server)
    finally:
        server.stop()


async def _survive(server: PostgresProcess) -> None:
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
        for _ in range(3):
            await asyncio.sleep(1)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.start)
        await enqueuing
        await until(lambda: set(acknowledged) <= set(ran), "every acknowledged job", 90)
        await until(lambda: not running.total())
    engine = (await app._client.opened()).engine
    problems = audit(await engine.snapshot())
    await app.close()
    assert problems == []
    assert max(most.values()) <= 2
