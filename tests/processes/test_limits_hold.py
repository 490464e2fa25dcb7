"""Real worker processes on one file: limits hold exactly, and every job runs once."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.processes.conftest import Place
from tests.support.waiting import eventually

ENQUEUE = """
from tests.processes.shop import app, visit
say("here")
hear()
for n in range(10):
    visit.options(id=f"{os.getpid()}-{n}").enqueue_sync(1)
say("done")
app.close_sync()
"""


@pytest.mark.slow(8)
def test_four_worker_processes_never_exceed_a_limit_and_reach_it_exactly(
    place: Place, until_done: Callable[..., None]
):
    shop = place.shop
    customers = 12
    jobs = [
        task.job(n % customers) for n in range(240) for task in (shop.visit, shop.visit_in_thread, shop.load)
    ]
    jobs += [shop.ship.job() for _ in range(240)]
    for _ in range(4):
        place.worker(concurrency=4, wait=False)
    for child in place.children:
        assert child.hear() == "registered"
    handles = place.app.enqueue_many_sync(jobs)
    until_done()

    overlaps = place.record.overlaps()
    assert overlaps.pop("ship") == 3
    assert overlaps.pop("dock") == 4
    assert overlaps == {f"customer={n}": 1 for n in range(customers)}
    once = dict.fromkeys((handle.id for handle in handles), 1)
    assert place.record.jobs("start") == place.record.jobs("end") == once
    assert place.app.count_sync(state="succeeded") == len(jobs)
    assert len({line.pid for line in place.record.lines("start")}) == 4, "every worker had its share"


@pytest.mark.slow(8)
def test_enqueues_from_eight_processes_onto_a_held_key_never_slip_past(
    place: Place, until_done: Callable[..., None]
):
    place.shop.visit.enqueue_sync(1, 2.0)
    place.worker(concurrency=50)
    eventually(lambda: place.record.lines("start"), "the holder to start")
    writers = [place.child(ENQUEUE) for _ in range(8)]
    assert [child.hear() for child in writers] == ["here"] * 8
    for child in writers:
        child.tell("go")
    assert [child.hear() for child in writers] == ["done"] * 8
    until_done()
    assert place.record.overlaps() == {"customer=1": 1}
    assert len(place.record.jobs("end")) == 81


@pytest.mark.slow(8)
def test_a_worker_whose_clocks_are_five_minutes_off_behaves_like_the_others(
    place: Place, until_done: Callable[..., None]
):
    # Everything that a worker looks at; the store's clock (`headgate.clock`) stays what it is.
    shifted = """
import time
real_time, real_monotonic = time.time, time.monotonic
time.time = lambda: real_time() + SHIFT
time.monotonic = lambda: real_monotonic() + SHIFT
"""
    place.worker(before=shifted.replace("SHIFT", "300"), lease=1, concurrency=2)
    place.worker(before=shifted.replace("SHIFT", "-300"), lease=1, concurrency=2)
    visit = place.shop.visit
    # Four keys and two places per worker: the first four, which take long, need both of them.
    handles = [visit.enqueue_sync(n % 4, 1.5 if n < 4 else 0.01) for n in range(80)]
    delayed = visit.options(delay=1.5).enqueue_sync(99)
    until_done()
    assert place.record.overlaps() == dict.fromkeys([*(f"customer={n}" for n in range(4)), "customer=99"], 1)
    assert place.record.jobs("start") == dict.fromkeys([handle.id for handle in [*handles, delayed]], 1)
    info = delayed.info_sync()
    assert info.started_at is not None
    assert 0 <= (info.started_at - info.due).total_seconds() < 1
    assert len({line.pid for line in place.record.lines("start")}) == 2


@pytest.mark.slow(8)
def test_jobs_of_a_key_start_in_the_order_they_came(place: Place, until_done: Callable[..., None]):
    """One by one or many at once, from two tasks, on whichever of three workers."""
    dice = random.Random(5)
    for concurrency in (2, 5, 20):
        place.worker(concurrency=concurrency, wait=False)
    ids: defaultdict[str, list[str]] = defaultdict(list)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        keys = [dice.randrange(5) for _ in range(dice.choice([1, 1, 3, 20]))]
        tasks = [dice.choice([place.shop.visit, place.shop.visit_in_thread]) for _ in keys]
        jobs = [task.job(key, dice.uniform(0, 0.01)) for key, task in zip(keys, tasks, strict=True)]
        handles = place.app.enqueue_many_sync(jobs)
        for key, handle in zip(keys, handles, strict=True):
            ids[f"customer={key}"].append(handle.id)
        time.sleep(dice.choice([0, 0.02, 0.1]))
    until_done()
    started = {key: [line.job for line in place.record.lines("start", key)] for key in ids}
    assert started == ids
