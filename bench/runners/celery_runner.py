"""Celery on Redis."""

# pyright: reportMissingImports=false

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from celery import Celery

from bench.child import main
from bench.contender import Contender, Jobs

POOL = "threads"
THREADS = 2  # one is slower, eight no better; `solo` comes in between
PREFETCH = 1000


class CeleryQueue(Contender):
    """Threads in one process; no results, no events, no talk between workers."""

    how = f"{THREADS} {POOL}, prefetch {PREFETCH}, results ignored"

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        super().__init__(url, jobs, concurrency)
        self._app = Celery("bench", broker=url)
        self._app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=PREFETCH,
            worker_hijack_root_logger=False,
            worker_redirect_stdouts=False,
            broker_connection_retry_on_startup=True,
        )

        @self._app.task(name="noop")
        def noop(n: int) -> None:
            jobs.plain(n)

        self._noop: Any = noop

    async def enqueue(self, n: int) -> None:
        self._noop.delay(n)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        worker = self._app.Worker(
            pool=POOL,
            concurrency=THREADS,
            loglevel="ERROR",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        threading.Thread(target=worker.start, daemon=True).start()
        yield


if __name__ == "__main__":
    main("celery", CeleryQueue)
