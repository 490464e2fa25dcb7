"""Calls that get no answer (rule 14): every verb has a deadline, and a lease is kept only while reports get through."""

from __future__ import annotations

import asyncio
import time

from headgate.engine import deadline
from headgate.engine.contract import Settings, Worker
from headgate.errors import EngineUnavailable
from headgate.job import JobState
from headgate.worker.timing import Timing
from tests.worker.stand_in import FailingEngine, StandIn, ended, put, stored, working


async def nothing():
    pass


def recorded_deadlines(engine: FailingEngine) -> dict[str, float]:
    """How long each verb of the worker's may take, as the engine sees it."""
    seen: dict[str, float] = {}

    def record(name):
        verb = getattr(engine, name)

        async def call(*args, **kwargs):
            seen[name] = max(seen.get(name, 0), deadline.seconds(Settings()))
            return await verb(*args, **kwargs)

        setattr(engine, name, call)

    for name in ("register", "exchange", "heartbeat", "sweep", "retire", "resume_worker"):
        record(name)
    return seen


async def test_every_verb_of_a_worker_ends_well_before_its_lease(failing: FailingEngine):
    seen = recorded_deadlines(failing)
    left = []

    async def work():
        left.append(deadline.seconds(Settings()))

    task = StandIn("work", work)
    failing.lose_answers = 1
    id = await put(failing, task)
    async with working(failing, task, lease=1.5) as (_, watcher):
        await ended(failing, id)
        await watcher.seen("swept")
        await watcher.seen("beat")
    assert set(seen) == {"register", "exchange", "heartbeat", "sweep", "retire", "resume_worker"}
    assert all(seconds <= 0.5 for name, seconds in seen.items() if name != "retire"), seen
    assert left == [Settings().timeout / 1e6], (
        "a job does not inherit the deadline of the claim that brought it"
    )


def test_the_bounds_of_a_lease_keep_their_order():
    for lease in (1, 15, 600):
        timing = Timing(lease)
        assert timing.retry < timing.beat <= timing.call < timing.stuck < timing.fence < timing.lease


async def test_a_worker_whose_exchanges_are_silent_stops_renewing_and_is_fenced_in_time(
    failing: FailingEngine, caplog
):
    """Heartbeats go on over another connection; the finished job must not hold its slots for ever."""
    exchange, finish, began = failing.exchange, asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        await finish.wait()

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task, lease=0.6) as (_, watcher):
        await began.wait()

        async def silent(*args, **kwargs):
            try:
                await asyncio.sleep(deadline.seconds(Settings()))
            finally:
                pass
            raise EngineUnavailable("no answer in time")

        failing.exchange = silent
        finish.set()
        cut = time.monotonic()
        await watcher.seen("fenced")
        assert time.monotonic() - cut < 0.6 * 1.5 + 2
        failing.exchange = exchange
        (job,) = await ended(failing, id)
    assert "its lease is no longer renewed" in caplog.text
    assert [past.outcome for past in job.history] == ["lost", "succeeded"]


async def test_an_outage_of_half_a_lease_costs_nothing(failing: FailingEngine):
    finish, began = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        await finish.wait()

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task, lease=2) as (worker, watcher):
        await began.wait()
        first = worker.id
        await watcher.seen("beat", 2)
        failing.cut = True
        await put(failing, StandIn("other", nothing))  # rings: the exchange fails
        await watcher.seen("unavailable")
        await asyncio.sleep(1.0)
        failing.cut = False
        beats = watcher.count("beat")
        await watcher.seen("beat", beats + 3)
        assert worker.id == first
        assert watcher.count("fenced") == 0
        finish.set()
        (job,) = await ended(failing, id)
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)
    assert (await stored(failing, id)).history[0].outcome == "succeeded"


async def test_a_store_that_stays_silent_is_not_said_to_be_reached_again(failing: FailingEngine, caplog):
    """A heartbeat that is not sent, since exchanges are stuck or the lease is gone, says nothing about the store."""
    register = failing.register

    async def silent(worker: Worker, *, now: int | None = None) -> int:
        await failing._pass_gate()
        return await register(worker, now=now)

    async with working(failing, StandIn("work", nothing), lease=0.6) as (_, watcher):
        failing.register = silent
        failing.open_gate.clear()
        await watcher.seen("unavailable")  # a heartbeat: the next exchange comes later
        await watcher.seen("fenced")
        fenced = time.monotonic()
        while time.monotonic() < fenced + 0.3:  # heartbeats go on being due
            await asyncio.sleep(0.05)
            assert watcher.count("recovered") == 0
        failing.open_gate.set()
        await watcher.seen("recovered")
    assert caplog.text.count("cannot be reached") == 1
    assert caplog.text.count("can be reached again") == 1
