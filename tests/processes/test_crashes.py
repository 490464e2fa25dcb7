"""Workers that die, are told to go, or stand still: nothing is lost, nothing is held for ever, no limit is exceeded."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headgate import ConcurrencyLimit
from headgate.job import JobState
from tests.processes.conftest import Place
from tests.support.child import Child
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow(8)

LEASE = 1.0
MARGIN = 4.0
"""Seconds beyond the lease until everything must have been taken up by others."""

CLAIM_AND_VANISH = """
async def main():
    engine = make_engine(os.environ["HEADGATE_URL"], Settings())
    await engine.open()
    await engine.register(Worker("vanishing", frozenset({"visit"}), lease=1_000_000))
    await engine.exchange("vanishing", [], 10)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_slots_of_a_killed_worker_with_fifty_jobs_go_to_the_waiters_within_the_lease(
    place: Place, until_done: Callable[..., None]
):
    hanging = [place.shop.hang_once.enqueue_sync(n) for n in range(50)]
    victim = place.worker(lease=LEASE, concurrency=50)
    eventually(lambda: len(place.record.lines("start")) == 50, "fifty jobs to run")
    waiting = [place.shop.visit.enqueue_sync(n) for n in range(50)]
    assert place.app.count_sync(state="waiting") == 50
    place.worker(lease=LEASE, concurrency=100)
    place.kill(victim)
    killed = time.monotonic()
    until_done(LEASE + MARGIN)
    assert time.monotonic() - killed < LEASE + MARGIN

    assert place.app.count_sync(state="succeeded") == 100
    assert [handle.result_sync(timeout=10) for handle in hanging] == [2] * 50
    assert place.record.jobs("start") == {**{h.id: 2 for h in hanging}, **{h.id: 1 for h in waiting}}
    assert set(place.record.overlaps(place.killed).values()) == {1}
    assert all(limit.held == limit.waiting == 0 for limit in place.app.limits_sync())
    assert len(place.app.workers_sync()) == 1


def test_a_claim_whose_client_vanished_is_claimed_again_after_the_lease(
    place: Place, until_done: Callable[..., None]
):
    handles = [place.shop.visit.enqueue_sync(n) for n in range(5)]
    behind = [place.shop.visit.enqueue_sync(n) for n in range(5)]
    vanishing = place.child(CLAIM_AND_VANISH)
    assert vanishing.wait() == -signal.SIGKILL
    assert place.app.count_sync(state="running") == 5
    place.worker(lease=LEASE)
    until_done(LEASE + MARGIN)
    assert [handle.info_sync().attempt for handle in handles] == [2] * 5
    assert [handle.info_sync().attempt for handle in behind] == [1] * 5
    assert [attempt.outcome for attempt in handles[0].info_sync().attempts] == ["lost", "succeeded"]


def test_a_worker_that_is_told_to_stop_gives_its_jobs_back_uncounted(
    place: Place, until_done: Callable[..., None]
):
    hanging = [place.shop.hang_once.enqueue_sync(n) for n in range(10)]
    ending = place.shop.visit.enqueue_sync(77, 0.4)
    leaving = place.worker(lease=10, grace=1)
    eventually(lambda: len(place.record.lines("start")) == 11, "all jobs to run")
    leaving.signal(signal.SIGTERM)
    assert leaving.wait(10) == 0
    assert ending.status_sync() == "succeeded", "what ends within the grace is settled"
    for handle in hanging:
        info = handle.info_sync()
        assert (info.state, info.tries, info.attempt) == (JobState.READY, 0, 1)
        assert [attempt.outcome for attempt in info.attempts] == ["released"]
    assert place.app.workers_sync() == []
    assert len(place.record.lines("cancelled")) == 10
    place.worker(lease=10)
    until_done(5)
    assert [handle.info_sync().tries for handle in hanging] == [1] * 10


def test_a_worker_that_stood_still_past_its_lease_fences_itself_and_its_reports_are_refused(
    place: Place, until_done: Callable[..., None]
):
    # For the store an attempt in a stopped process ends when the lease lapses; the process cannot know. Once it
    # wakes, its code may run on until its next await, no further: then it is cancelled, and nothing it says counts.
    handles = [place.shop.hang_once.enqueue_sync(n) for n in range(5)]
    sleeper = place.worker(lease=LEASE)
    eventually(lambda: len(place.record.lines("step")) >= 5, "the jobs to run")
    sleeper.signal(signal.SIGSTOP)
    place.worker(lease=LEASE)
    until_done(LEASE + MARGIN)
    before = len(place.record.lines("step"))
    woken = time.monotonic_ns()
    sleeper.signal(signal.SIGCONT)
    assert sleeper.hear() == "fenced"
    assert sleeper.hear() == "registered", "it goes on under a new lease"
    cancelled = eventually(lambda: (c := place.record.lines("cancelled")) and len(c) == 5 and c, "the fence")
    late = [line for line in place.record.lines("step")[before:] if line.pid == sleeper.pid]
    assert len(late) <= 5, "at most one step each"
    assert max(line.at for line in [*late, *cancelled]) - woken < 2_000_000_000
    assert [handle.result_sync(timeout=10) for handle in handles] == [2] * 5
    for handle in handles:
        assert [attempt.outcome for attempt in handle.info_sync().attempts] == ["lost", "succeeded"]
    extra = [place.shop.visit.enqueue_sync(n, 0.1) for n in range(60)]
    until_done()
    by = {line.job: line.pid for line in place.record.lines("end")}
    assert {by[handle.id] for handle in extra} <= {child.pid for child in place.children}


def test_workers_killed_at_random_under_load_lose_nothing_and_exceed_nothing(
    place: Place, until_done: Callable[..., None]
):
    dice = random.Random(20)
    shop, customers, seconds = place.shop, 15, 10.0
    handles: list[str] = []
    workers: list[Child] = [place.worker(lease=2, concurrency=8, wait=False) for _ in range(4)]
    end = time.monotonic() + seconds
    kill_at = time.monotonic() + 2
    while time.monotonic() < end:
        jobs = [
            task.job(dice.randrange(customers), dice.uniform(0.001, 0.05))
            for task in (shop.visit, shop.visit_in_thread, shop.load)
            for _ in range(4)
        ]
        jobs += [shop.ship.job(dice.uniform(0.001, 0.05)) for _ in range(4)]
        handles += [handle.id for handle in place.app.enqueue_many_sync(jobs)]
        if time.monotonic() > kill_at:
            victim = workers.pop(dice.randrange(4))
            place.kill(victim)
            workers.append(place.worker(lease=2, concurrency=8, wait=False))
            kill_at = time.monotonic() + dice.uniform(0.3, 1.5)
        time.sleep(dice.uniform(0.05, 0.15))
    until_done()

    assert len(place.killed) >= 5
    assert place.app.count_sync(state="succeeded") == len(handles)
    assert set(place.record.jobs("end")) == set(handles)
    overlaps = place.record.overlaps(place.killed)
    assert overlaps.pop("ship") <= 3
    assert overlaps.pop("dock") <= 4
    assert set(overlaps.values()) == {1}
    assert all(limit.held == limit.waiting == 0 for limit in place.app.limits_sync())
    for worker in workers:
        assert worker.hear() == "registered"
        worker.signal(signal.SIGTERM)
        assert worker.wait(15) == 0
    left = {worker.pid for worker in place.app.workers_sync()}
    assert left <= set(place.killed), "a lease that has not lapsed yet, at most"


LATE = """
async def main():
    engine = make_engine(os.environ["HEADGATE_URL"], Settings())
    await engine.open()

    async def outcome(work):
        try:
            answer = await work
            return [list(pair) for pair in getattr(answer, "refused", ())]
        except Exception as error:
            return type(error).__name__

    await engine.register(Worker("old", frozenset({"visit"}), lease=300_000))
    (attempt,) = (await engine.exchange("old", [], 1)).attempts
    stale = Succeeded(attempt.job, attempt.number, '"stale"')
    say(attempt.job)
    while True:
        name = hear()
        if name == "new":
            await engine.register(Worker("new", frozenset(), lease=60_000_000))
        say([await outcome(engine.heartbeat(name)), await outcome(engine.exchange(name, [stale], 1))])
asyncio.run(main())
"""


def test_reports_that_come_late_are_refused_by_the_store_whatever_their_sender_believes(
    place: Place, until_done: Callable[..., None]
):
    handle = place.shop.visit.enqueue_sync(1, 1.0)
    late = place.child(LATE)
    assert late.hear() == handle.id
    (registered,) = place.app.workers_sync()
    eventually(lambda: datetime.now(UTC) > registered.lease_until, "the lease to lapse; no worker sweeps")
    late.tell("old")
    assert late.hear() == ["LeaseLost", "LeaseLost"]
    assert handle.status_sync() == "running", "nothing has changed"

    place.worker()
    eventually(lambda: place.record.lines("start"), "the second attempt")
    late.tell("old")
    assert late.hear() == ["LeaseLost", "LeaseLost"]
    late.tell("new")
    assert late.hear() == [[], [[handle.id, 1]]]
    assert handle.status_sync() == "running"
    until_done(10)
    assert handle.info_sync().result is None
    assert [attempt.outcome for attempt in handle.info_sync().attempts] == ["lost", "succeeded"]


HOLDS = """
from headgate import App, ConcurrencyLimit
from headgate.app import slots

async def main():
    app = App(os.environ["HEADGATE_URL"])
    async with app.slot(ConcurrencyLimit(1, scope="held")) as slot:
        say(slot.id)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_a_slot_is_taken_back_when_the_process_that_held_it_dies(place: Place):
    holder = place.child(HOLDS)
    id = holder.hear()
    worker = place.worker(lease=1.5)  # its sweeps find the lapsed lease
    place.kill(holder)
    with place.app.slot(ConcurrencyLimit(1, scope="held"), timeout=60):
        assert place.app.job_sync(id).status_sync() == "failed"
    worker.close()
