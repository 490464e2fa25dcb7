"""Several callers open the store together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headgate import App
from tests.processes.child import Child
from tests.sqlite.test_busy import HOLD, hold


async def test_who_gives_up_while_the_store_is_opened_does_so_alone(tmp_path: Path):
    path = tmp_path / "jobs.db"
    await App(f"sqlite:///{path}").migrate()
    app = App(f"sqlite:///{path}")

    @app.task(max_concurrent=1)
    async def work() -> None: ...

    with Child(HOLD, path) as other:
        await hold(other, None)
        opener = asyncio.create_task(work.enqueue())
        await asyncio.sleep(0)
        impatient = asyncio.create_task(asyncio.wait_for(work.enqueue(), 0.1))
        patient = asyncio.create_task(work.enqueue())
        with pytest.raises(TimeoutError):
            await impatient
        other.tell("go")
        assert (await opener).created
        assert (await patient).created
    await app.close()
