"""What one process does reaches the others quickly."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable

import pytest

from headgate.errors import JobCancelled
from tests.processes.conftest import Place
from tests.processes.record import Line
from tests.support.waiting import eventually, stays


def test_a_cancel_reaches_a_running_job_of_another_process_within_a_second(place: Place):
    """The best of three: a busy machine may keep any process waiting for a while."""
    place.worker(lease=15)
    took: list[int] = []
    for number in range(3):
        handle = place.shop.hang_once.enqueue_sync(number)
        eventually(lambda: len(place.record.lines("start")) > len(took), "the job to run")
        asked = time.monotonic_ns()
        handle.cancel_sync()
        lines = eventually(
            lambda: (found := place.record.lines("cancelled")) and len(found) > len(took) and found,
            "the cancel",
        )
        took.append(lines[-1].at - asked)
        with pytest.raises(JobCancelled):
            handle.result_sync(timeout=10)
        assert handle.info_sync().attempt == 1
    assert min(took) < 1_000_000_000


def test_a_result_reaches_a_waiter_in_another_process(place: Place):
    place.worker()
    handle = place.shop.visit.enqueue_sync(1, 0.0)
    assert handle.result_sync(timeout=5) is None


def test_a_limit_raised_by_another_process_starts_waiters_at_once(place: Place):
    place.worker()
    place.app.set_limit_sync("customer=1", 0, by="test")
    handle = place.shop.visit.enqueue_sync(1)
    eventually(lambda: handle.status_sync() == "waiting", "the job to be parked")
    place.app.set_limit_sync("customer=1", 1, by="test")
    handle.result_sync(timeout=5)


def test_a_paused_queue_is_left_alone_by_other_processes_until_it_is_resumed(place: Place):
    place.worker()
    place.app.pause_sync("default")
    handle = place.shop.ping.enqueue_sync()
    asyncio.run(stays(lambda: handle.status_sync() == "ready", "no worker takes it"))
    place.app.resume_sync("default")
    handle.result_sync(timeout=5)


@pytest.mark.slow
def test_an_idle_worker_of_another_process_starts_a_new_job_within_milliseconds(
    place: Place, until_done: Callable[..., None], record_property: Callable[[str, object], None]
):
    place.worker()
    delays: list[float] = []
    for number in range(100):
        began = time.monotonic_ns()
        place.shop.ping.enqueue_sync()
        lines = eventually(lambda count=number + 1: _all(place, count), "the job to start")
        delays.append((lines[-1].at - began) / 1e6)
        time.sleep(0.02)  # the worker goes back to sleep
    until_done()
    delays.sort()
    record_property("p50 ms", statistics.median(delays))
    record_property("p99 ms", delays[98])
    print(
        f"enqueue to start in another process: p50 {statistics.median(delays):.1f} ms, p99 {delays[98]:.1f} ms"
    )
    assert statistics.median(delays) < 40
    assert delays[98] < 500


def _all(place: Place, count: int) -> list[Line]:
    lines = place.record.lines("start")
    return lines if len(lines) == count else []
