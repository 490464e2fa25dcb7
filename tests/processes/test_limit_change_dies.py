"""kill -9 of a process in the middle of a change of limits, which acts on many keys in slices: the change is in force,
and what it had not yet reached is offered by the sweeps of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.engine.contract import Engine, Filter, Limit, Override, Settings, Worker
from headgate.engine.open import make_engine
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.support.child import Child
from tests.support.stores import PROCESS_STORES, fresh_url

pytestmark = pytest.mark.slow

KEYS = 3000
"""So many that the change takes many slices."""
CHANGE = """
async def main():
    engine = make_engine(sys.argv[1], Settings())
    await engine.open()
    say("open")
    hear()
    match sys.argv[2]:
        case "raise":
            await engine.override(Override("customer", 1))
        case "lift":
            await engine.clear_override("customer")
        case "declare":
            await engine.declare([Limit("customer", "concurrency", 2)])
    say("done")
    hear()

asyncio.run(main())
"""
BEFORE = {"raise": (1, 0), "lift": (1, 0), "declare": (0, None)}
"""By change: the declared number and the override that keep all jobs waiting until it."""


@pytest.fixture(params=PROCESS_STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as url:
        yield url


async def count(engine: Engine, state: JobState) -> int:
    return await engine.count(Filter(states=(state,)))


async def prepare(engine: Engine, change: str) -> None:
    """A job waits on each of many keys, all of which are closed."""
    declared, override = BEFORE[change]
    await engine.declare([Limit("customer", "concurrency", declared)])
    if override is not None:
        await engine.override(Override("customer", override))
    jobs = [NewJob(f"j{n}", "t", uses=(Use(Key("customer", str(n)).ident),)) for n in range(KEYS)]
    for start in range(0, KEYS, 500):
        await engine.enqueue(jobs[start : start + 500])
    assert await count(engine, JobState.WAITING) == KEYS


@pytest.mark.parametrize("change", BEFORE)
async def test_a_change_of_limits_is_completed_when_its_caller_dies(url: str, change: str):
    engine = make_engine(url, Settings())
    await engine.open()
    await prepare(engine, change)
    with Child(CHANGE, url, change) as caller:
        assert caller.hear() == "open"
        caller.tell("go on")
        while not (reached := await count(engine, JobState.READY)):
            pass
        caller.kill()
    assert reached < KEYS, "it died too late for this test"
    for _ in range(KEYS):
        if not (await engine.sweep()).more:
            break
    assert await count(engine, JobState.READY) == KEYS
    await engine.register(Worker("w", frozenset({"t"})))
    assert len((await engine.exchange("w", [], 50, number=1)).attempts) == 50
    assert audit(await engine.snapshot()) == []
    await engine.close()
