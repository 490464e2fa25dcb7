"""Huey on SQLite or Redis. Its consumer polls; 1 ms keeps that from showing."""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from huey import Huey, RedisHuey
from huey.storage import SqliteStorage

from bench.child import main
from bench.contender import Contender, Jobs

# On SQLite all threads share one connection under a lock. Of 1, 2, 4, 8 and 16, two came out best or nearly so.
THREADS = 2


class NormalStorage(SqliteStorage):
    """Syncs the file at checkpoints instead of at every commit: the durability that the other systems have."""

    def _create_connection(self) -> Any:
        connection = super()._create_connection()
        connection.execute("pragma synchronous = normal")
        return connection


class HueyQueue(Contender):
    """Threads; no periodic tasks. WAL is Huey's default on SQLite."""

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100, synchronous: str = "full") -> None:
        super().__init__(url, jobs, concurrency)
        self.how = f"{THREADS} threads, poll 1 ms"
        if url.startswith("redis:"):
            self._huey = RedisHuey("bench", url=url)
        else:
            self.how += f", synchronous={synchronous}"
            storage = NormalStorage if synchronous == "normal" else SqliteStorage
            self._huey = Huey("bench", storage_class=storage, filename=url.removeprefix("sqlite:///"))

        @self._huey.task()
        def noop(n: int) -> None:
            jobs.plain(n)

        self._noop = noop

    async def enqueue(self, n: int) -> None:
        self._noop(n)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        options = {"periodic": False, "initial_delay": 0.001, "max_delay": 0.01}
        self._huey.create_consumer(workers=THREADS, **options).start()
        yield


if __name__ == "__main__":
    main("huey", HueyQueue)
