"""What a worker says of itself to probes."""

from __future__ import annotations

import asyncio
import threading

import msgspec

from headgate.worker import Worker, WorkerHealth
from headgate.worker.run import part_run, worker_run
from tests.support.waiting import eventually, until
from tests.worker.stand_in import StandIn, put, working


async def nothing() -> None: ...


def health_of(worker: Worker) -> WorkerHealth:
    assert worker.health is not None
    return worker.health


async def test_a_worker_that_exchanges_is_live_and_ready(engine):
    task = StandIn("nothing", nothing)
    async with working(engine, task, concurrency=7) as (worker, watcher):
        await watcher.seen("exchanged")
        health = health_of(worker)
        assert (health.live, health.ready, health.why) == (True, True, "")
        assert health.worker == worker.id
        assert health.concurrency == 7
        assert health.last_exchange is not None
    assert worker.health is None


async def test_a_worker_whose_store_is_away_is_live_and_not_ready(failing, monkeypatch):
    monkeypatch.setattr(part_run, "LATELY", 0.05)
    async with working(failing, StandIn("nothing", nothing), lease=0.6) as (worker, watcher):
        await watcher.seen("exchanged")
        failing.cut = True
        await watcher.seen("fenced")
        health = health_of(worker)
        assert (health.live, health.ready, health.why) == (True, False, "it holds no lease")
        failing.cut = False
        times = watcher.count("exchanged")
        await watcher.seen("exchanged", times + 1)
        assert health_of(worker).ready


async def test_exchanges_that_do_not_get_through_make_a_worker_unready_before_its_lease_is_lost(
    failing, monkeypatch
):
    monkeypatch.setattr(part_run, "LATELY", 0.0)
    async with working(failing, StandIn("nothing", nothing), lease=2) as (worker, watcher):
        await watcher.seen("exchanged")
        assert health_of(worker).ready
        failing.cut = True
        why = await asyncio.to_thread(eventually, lambda: health_of(worker).why, "it to notice")
        assert why.startswith("no exchange got through for ")
        assert watcher.count("fenced") == 0
        failing.cut = False


async def test_a_worker_whose_event_loop_stands_still_is_not_live(engine, monkeypatch):
    monkeypatch.setattr(worker_run, "STANDS_STILL", 0.5)
    seen = list[WorkerHealth]()

    async def block() -> None:
        noticed = threading.Event()

        def look() -> None:
            eventually(lambda: not health_of(worker).live, "a loop that stands still")
            seen.append(health_of(worker))
            noticed.set()

        threading.Thread(target=look).start()
        noticed.wait(20)

    task = StandIn("block", block)
    async with working(engine, task) as (worker, watcher):
        await watcher.seen("exchanged")
        await put(engine, task)
        await until(lambda: seen, "the loop to go on")
        (health,) = seen
        assert not health.ready
        assert health.why.startswith("its event loop has stood still for ")
        await until(lambda: health_of(worker).live)


async def test_a_worker_that_stops_is_live_and_not_ready(engine):
    go_on = asyncio.Event()

    async def wait() -> None:
        await go_on.wait()

    task = StandIn("wait", wait)
    async with working(engine, task) as (worker, watcher):
        await put(engine, task)
        while not worker.running:
            await watcher.seen("exchanged", watcher.count("exchanged") + 1)
        worker.stop()
        await watcher.seen("stopping")
        health = health_of(worker)
        assert (health.live, health.ready, health.why) == (True, False, "it is stopping")
        assert health.running == 1
        go_on.set()


def test_the_record_can_travel_as_json():
    health = WorkerHealth(
        worker="w", live=True, ready=True, stopping=False, blocked=0.0, last_exchange=None, parts=1,
        parts_ready=1, running=0, concurrency=1,
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(health), type=WorkerHealth) == health
