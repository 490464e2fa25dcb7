"""A worker at work while a test makes trouble for its server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from headgate import App, Task
from tests.support.waiting import PATIENCE


@asynccontextmanager
async def at_work(url: str, lease: float, **options: Any) -> AsyncGenerator[tuple[App, Task]]:
    """A worker, and a task with these options that adds two numbers. The store is audited at the end."""
    app = App(url)

    @app.task(**options)
    async def add(one: int, two: int) -> int:
        return one + two

    async with app:
        async with app.worker(concurrency=4, lease=lease):
            assert await (await add.enqueue(1, 2)).result(timeout=PATIENCE) == 3
            yield app, add
        assert (await app.audit()).ok
