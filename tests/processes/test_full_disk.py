"""The disk of a server is full while jobs come and run: clear errors, nothing by half, and then work goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

import pytest

from headgate import App, ConcurrencyLimit, Retry
from headgate.errors import EngineUnavailable
from tests.support import postgres_server, preloaded
from tests.support.postgres_server import PostgresProcess
from tests.support.redis_servers import RedisProcess, binary
from tests.support.server_disk import ServerDisk
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not preloaded.available(), reason="needs Linux and a C compiler"),
]
KINDS = [kind for kind in ("valkey", "redis6", "redis7") if binary(kind)]
LARGE = "x" * 10_000
BATCH = 10
needs_postgres = pytest.mark.skipif(not postgres_server.available(), reason="no PostgreSQL here")


@pytest.fixture
async def disk() -> AsyncIterator[ServerDisk]:
    disk = ServerDisk()
    yield disk
    disk.close()


def redis(kind: str, disk: ServerDisk, sync: str) -> RedisProcess:
    options = ("--save", "", "--appendonly", "yes", "--appendfsync", sync)
    return RedisProcess(str(binary(kind)), *options, environment=disk.environment)


@pytest.fixture
def postgres(disk: ServerDisk) -> PostgresProcess:
    server = PostgresProcess("restart_after_crash=on", environment=disk.environment)
    server.start()
    return server


class Shop:
    """Batches of jobs that come all the time, two workers that run them, and what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.app = App(url, timeout=5)
        self.stored: list[list[str]] = []
        self.refused: list[list[str]] = []
        self.errors: list[EngineUnavailable] = []
        self.ran = Counter[str]()
        self.live, self.most = Counter[int](), Counter[int]()

        @self.app.task(retry=Retry(attempts=50, delay=0.05))
        async def visit(id: str, customer: Annotated[int, ConcurrencyLimit(1)], text: str) -> None:
            self.live[customer] += 1
            self.most[customer] = max(self.most[customer], self.live[customer])
            await asyncio.sleep(0.005)  # it works
            self.live[customer] -= 1
            self.ran[id] += 1

        self.visit = visit

    async def enqueue(self) -> bool:
        """One batch, in one step; returns whether it was acknowledged."""
        ids = [f"{len(self.stored) + len(self.refused)}-{n}" for n in range(BATCH)]
        jobs = [self.visit.options(id=id).job(id, n % 5, LARGE) for n, id in enumerate(ids)]
        try:
            await self.app.enqueue_many(jobs)
        except EngineUnavailable as error:
            self.errors.append(error)
            self.refused.append(ids)
            return False
        self.stored.append(ids)
        return True

    async def until_refused(self) -> None:
        """The disk is full now."""
        async with asyncio.timeout(60):
            while await self.enqueue():
                pass

    async def until_stored(self) -> None:
        """There is room again."""
        await until(self.enqueue, "a batch to be stored", 60)

    async def judge(self) -> None:
        """All that was acknowledged succeeds, what was refused is there whole or not at all, limits held."""
        ids = [id for batch in self.stored for id in batch]
        await until(lambda: all(self.ran[id] for id in ids), "all that was stored to run", 60)
        await until(self._idle, "all to be settled", 60)
        for batch in self.refused:
            there = [id in self.ran for id in batch]
            assert len(set(there)) == 1, f"stored by half: {batch}, {there}"
        assert dict(self.most) == dict.fromkeys(range(5), 1)
        assert (await self.app.audit()).ok

    async def _idle(self) -> bool:
        return not await self.app.count(state=["scheduled", "ready", "waiting", "running"])


@contextlib.asynccontextmanager
async def at_work(url: str) -> AsyncGenerator[Shop]:
    shop = Shop(url)
    async with shop.app, shop.app.worker(concurrency=5, lease=10), shop.app.worker(concurrency=5, lease=10):
        for _ in range(5):
            assert await shop.enqueue()
        yield shop


@needs_postgres
async def test_postgres_whose_tables_cannot_grow_refuses_and_goes_on(
    postgres: PostgresProcess, disk: ServerDisk
):
    try:
        async with at_work(postgres.url()) as shop:
            disk.fill()
            await shop.until_refused()
            assert "the server's disk is full; nothing was stored" in str(shop.errors[0])
            disk.make_room()
            await shop.until_stored()
            await shop.judge()
    finally:
        postgres.stop()


@needs_postgres
async def test_postgres_whose_log_cannot_grow_stops_and_loses_nothing(
    postgres: PostgresProcess, disk: ServerDisk
):
    try:
        async with at_work(postgres.url()) as shop:
            await shop.judge()
            disk.fill()
            with contextlib.suppress(Exception):  # the next segment cannot be made
                for _ in range(10):
                    postgres.execute("SELECT pg_switch_wal(), pg_logical_emit_message(true, 'a', 'b')")
            await shop.until_refused()
            await until(lambda: not postgres.answers(), "the server to give up", 30)
            disk.make_room()
            postgres.restart()
            await shop.until_stored()
            await shop.judge()
    finally:
        postgres.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_redis_that_cannot_write_its_log_refuses_and_goes_on(kind: str, disk: ServerDisk):
    server = redis(kind, disk, "everysec")
    try:
        async with at_work(server.url) as shop:
            disk.fill()
            await shop.until_refused()
            assert "the server cannot write its data to disk and refuses changes" in str(shop.errors[0])
            disk.make_room()
            await shop.until_stored()
            await shop.judge()
    finally:
        server.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_redis_that_syncs_always_ends_and_has_all_that_was_acknowledged(kind: str, disk: ServerDisk):
    server = redis(kind, disk, "always")
    try:
        async with at_work(server.url) as shop:
            disk.fill()
            await shop.until_refused()
            process = server.process
            await until(lambda: process is not None and process.poll() is not None, "the server to end", 30)
            disk.make_room()
            server.kill()
            server.start()
            await shop.until_stored()
            await shop.judge()
    finally:
        server.stop()
