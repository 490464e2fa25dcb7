"""Several callers open the store together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, ConfigError, EngineUnavailable
from headgate.engine.memory import MemoryEngine
from tests.support.child import Child
from tests.support.sqlite_lock import HOLD, hold
from tests.support.waiting import turns


async def test_who_gives_up_while_the_store_is_opened_does_so_alone(tmp_path: Path):
    path = tmp_path / "jobs.db"
    await App(f"sqlite:///{path}").migrate()
    app = App(f"sqlite:///{path}")

    @app.task(max_concurrent=1)
    async def work() -> None: ...

    with Child(HOLD, path) as other:
        await hold(other, None)
        opener = asyncio.create_task(work.enqueue())
        await turns()
        impatient = asyncio.create_task(asyncio.wait_for(work.enqueue(), 0.1))
        patient = asyncio.create_task(work.enqueue())
        with pytest.raises(TimeoutError):
            await impatient
        other.tell("go")
        assert (await opener).created
        assert (await patient).created
    await app.close()


@pytest.mark.parametrize(("given", "seconds"), [(5, 5), (0.1, 0.1), (timedelta(minutes=2), 120)])
def test_the_timeout_of_a_store_is_a_duration(given: Any, seconds: float):
    app = App("memory://", timeout=given)
    assert app._client.settings.timeout == seconds * 1_000_000  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, r"timeout=0: a store needs time to answer, at least 0\.1 seconds"),
        (0.05, r"timeout=0\.05: a store needs time"),
        (-1, "timeout= must be a number of seconds"),
        ("30", "timeout= must be a number of seconds"),
        (None, "timeout= must be a number of seconds"),
        (float("inf"), "timeout= must be a number of seconds"),
    ],
)
def test_a_timeout_in_which_no_store_can_answer_is_refused(given: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        App("memory://", timeout=given)


@pytest.mark.parametrize("verb", ["open", "declare"])
async def test_callers_of_a_store_that_cannot_be_opened_fail_together_and_leave_nothing_open(
    monkeypatch: pytest.MonkeyPatch, verb: str
):
    tries, closed = [], []

    async def fail(self: MemoryEngine, *_: object) -> None:
        tries.append(self)
        await turns(20)
        raise EngineUnavailable("down")

    async def close(self: MemoryEngine) -> None:
        closed.append(self)

    monkeypatch.setattr(MemoryEngine, verb, fail)
    monkeypatch.setattr(MemoryEngine, "close", close)
    app = App("memory://")
    errors = await asyncio.gather(*(app.open() for _ in range(10)), return_exceptions=True)
    assert [type(error) for error in errors] == [EngineUnavailable] * 10
    assert len(tries) == 1, "not one after the other"
    assert closed == tries


async def test_callers_whose_opener_gave_up_open_the_store_themselves(monkeypatch: pytest.MonkeyPatch):
    opening = asyncio.Event()
    really_open = MemoryEngine.open

    async def slow(self: MemoryEngine) -> None:
        if not opening.is_set():
            opening.set()
            await asyncio.Event().wait()
        await really_open(self)

    monkeypatch.setattr(MemoryEngine, "open", slow)
    app = App("memory://")
    first = asyncio.create_task(app.open())
    await opening.wait()
    second = asyncio.create_task(app.open())
    await turns()
    first.cancel()
    await asyncio.wait_for(second, 5)
