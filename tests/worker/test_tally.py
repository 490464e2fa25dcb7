"""What attempts did is told to the store with the heartbeats: once, by minute, queue and task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import (
    HISTORY_MINUTE,
    HISTORY_MOST,
    Done,
    Engine,
    Failed,
    Limit,
    Outcome,
    Released,
    Snoozed,
    Stopped,
    Succeeded,
)
from headgate.errors import CancelJob
from headgate.hooks.context import current_job
from headgate.job import INTERNAL_QUEUE
from headgate.keys import Key, canonical
from headgate.retry import Retry
from headgate.worker import run_until_idle
from headgate.worker.run.tally import Tally
from tests.worker.stand_in import FailingEngine, StandIn, attempt, ended, put, tasks, working

NOON = 1_800_000_000 * SECOND


def at(seconds: float, **fields: object):
    """An attempt of `t` that started so many seconds after noon, and had been due then."""
    started = NOON + round(seconds * SECOND)
    return attempt("j", "t", started_at=started, enqueued_at=NOON - SECOND, due=NOON, **fields)


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Succeeded("j", 1), {"succeeded": 1, "ran": 2 * SECOND}),
        (Failed("j", 1, "boom"), {"failed": 1, "ran": 2 * SECOND}),
        (Failed("j", 1, "boom", 5), {"retried": 1, "ran": 2 * SECOND}),
        (Stopped("j", 1), {"cancelled": 1, "ran": 2 * SECOND}),
        (Snoozed("j", 1, 5), {}),
        (Released("j", 1), {}),
    ],
)
def test_an_attempt_counts_as_it_ended(outcome: Outcome, counts: dict[str, int]):
    tally = Tally()
    tally.ended(at(3), outcome, 2, begun=False)
    begun = {"started": 1, "waited": 3 * SECOND, "longest": 3 * SECOND}
    assert tally.take() == [Done(NOON, "default", "t", **begun, **counts)]


def test_what_was_taken_is_not_there_any_more():
    tally = Tally()
    assert tally.take() == []
    tally.started(at(0))
    assert len(tally.take()) == 1
    assert tally.take() == []


def test_waits_add_up_and_the_longest_is_kept():
    tally = Tally()
    for seconds in (3, 5, 1):
        tally.started(at(seconds))
    tally.started(attempt("j", "t", started_at=NOON, enqueued_at=NOON - 7 * SECOND))
    tally.started(attempt("j", "t", started_at=NOON, due=NOON + 9 * SECOND))
    assert tally.take() == [Done(NOON, "default", "t", started=5, waited=16 * SECOND, longest=7 * SECOND)]


def test_a_start_counts_in_its_minute_and_an_end_in_its_own():
    tally = Tally()
    tally.ended(at(59, queue="q"), Succeeded("j", 1), 61, begun=False)
    waited = 59 * SECOND
    assert sorted(tally.take(), key=lambda done: done.at) == [
        Done(NOON, "q", "t", started=1, waited=waited, longest=waited),
        Done(NOON + 2 * HISTORY_MINUTE, "q", "t", succeeded=1, ran=61 * SECOND),
    ]


def test_a_start_that_was_counted_while_the_attempt_ran_is_not_counted_again():
    tally = Tally()
    tally.started(at(0))
    tally.ended(at(0), Succeeded("j", 1), 3, begun=True)
    assert tally.take() == [Done(NOON, "default", "t", started=1, succeeded=1, ran=3 * SECOND)]


def test_the_stores_own_jobs_are_not_counted():
    tally = Tally()
    tally.started(at(0, queue=INTERNAL_QUEUE))
    tally.ended(at(0, queue=INTERNAL_QUEUE), Succeeded("j", 1), 1, begun=False)
    assert tally.take() == []


def test_a_tally_that_is_not_fetched_stays_small():
    tally = Tally()
    for number in range(5 * HISTORY_MOST):
        tally.started(at(0, queue=f"q{number}"))
    tally.started(at(0, queue="q0"))
    rows = tally.take()
    assert len(rows) == HISTORY_MOST + 1
    assert sum(row.started for row in rows) == 5 * HISTORY_MOST + 1
    assert {(row.queue, row.started) for row in rows if row.started != 1} == {
        ("q0", 2),
        ("", 4 * HISTORY_MOST),
    }


# ── a worker at work ─────────────────────────────────────────────────────────────────────────────────────────────────


async def work():
    pass


async def total(engine: Engine) -> dict[str, int]:
    """All counts of jobs that are not nought."""
    rows = await engine.history(0)
    names = ("started", "succeeded", "failed", "retried", "cancelled")
    sums = {name: sum(getattr(row, name) for row in rows) for name in names}
    return {name: count for name, count in sums.items() if count}


async def test_working_until_idle_tells_what_was_done(engine: Engine):
    async def uneven():
        if current_job().attempt == 1:
            raise ValueError("boom")

    async def bad():
        raise ValueError("boom")

    async def gives_up():
        raise CancelJob

    at_once = Retry(attempts=2, delay=0, jitter=False)
    stand_ins = [
        StandIn("work", work),
        StandIn("uneven", uneven, at_once),
        StandIn("bad", bad),
        StandIn("up", gives_up),
    ]
    for stand_in in stand_ins:
        for _ in range(3):
            await put(engine, stand_in, queue=f"of-{stand_in.name}")
    assert await run_until_idle(engine, tasks(*stand_ins)) == 15
    assert await total(engine) == {"started": 15, "succeeded": 6, "failed": 3, "retried": 3, "cancelled": 3}
    rows = await engine.history(0, step=1440 * HISTORY_MINUTE, each=True)
    assert {(row.queue, row.task) for row in rows} == {(f"of-{one.name}", one.name) for one in stand_ins}
    assert all(row.ran > 0 for row in rows)


async def test_a_worker_tells_with_its_beats_what_it_did(engine: Engine):
    task = StandIn("work", work)
    async with working(engine, task, lease=0.3) as (_, watcher):
        ids = [await put(engine, task) for _ in range(5)]
        await ended(engine, *ids)
        await watcher.seen("beat", watcher.count("beat") + 2)
        assert await total(engine) == {"started": 5, "succeeded": 5}


async def test_a_beat_tells_what_has_started_and_still_runs(engine: Engine):
    began, go_on = asyncio.Event(), asyncio.Event()

    async def long():
        began.set()
        await go_on.wait()

    task = StandIn("work", long)
    async with working(engine, task, lease=0.3) as (_, watcher):
        id = await put(engine, task)
        await began.wait()
        await watcher.seen("beat", watcher.count("beat") + 3)
        assert await total(engine) == {"started": 1}
        go_on.set()
        await ended(engine, id)
    assert await total(engine) == {"started": 1, "succeeded": 1}


async def test_a_worker_tells_the_rest_when_it_stops(engine: Engine):
    task = StandIn("work", work)
    async with working(engine, task, lease=3600):
        ids = [await put(engine, task) for _ in range(5)]
        await ended(engine, *ids)
    assert await total(engine) == {"started": 5, "succeeded": 5}
    assert await engine.workers() == []


async def test_synchronous_tasks_count_as_well(engine: Engine):
    def in_thread():
        pass

    task = StandIn("work", in_thread)
    for _ in range(5):
        await put(engine, task)
    await run_until_idle(engine, tasks(task))
    assert await total(engine) == {"started": 5, "succeeded": 5}


async def test_a_beat_whose_answer_was_lost_counts_once(failing: FailingEngine):
    task = StandIn("work", work)
    failing.lose_beats = 1
    async with working(failing, task, lease=0.3) as (_, watcher):
        ids = [await put(failing, task) for _ in range(5)]
        await ended(failing, *ids)
        await watcher.seen("recovered")
        await watcher.seen("beat", watcher.count("beat") + 2)
    assert await total(failing) == {"started": 5, "succeeded": 5}


async def test_a_beat_that_did_not_arrive_leaves_a_gap(failing: FailingEngine):
    task = StandIn("work", work)
    failing.drop_beats = 1
    async with working(failing, task, lease=0.3) as (_, watcher):
        await ended(failing, *[await put(failing, task) for _ in range(5)])
        await watcher.seen("recovered")
        await ended(failing, *[await put(failing, task) for _ in range(2)])
    assert await total(failing) == {"started": 2, "succeeded": 2}


async def test_a_worker_that_did_nothing_ends_without_a_further_beat(failing: FailingEngine):
    beats: list[Sequence[Done]] = []
    heartbeat = failing.heartbeat

    async def spied(worker: str, *, done: Sequence[Done] = (), now: int | None = None):
        beats.append(done)
        return await heartbeat(worker, done=done, now=now)

    failing.heartbeat = spied
    await run_until_idle(failing, tasks(StandIn("work", work)))
    assert beats == []


async def test_what_waited_for_a_limit_shows_its_wait(engine: Engine):
    async def slow():
        await asyncio.sleep(0.05)

    await engine.declare([Limit("A", "concurrency", 1)])
    task = StandIn("work", slow)
    for _ in range(3):
        await put(engine, task, uses=canonical([(Key("A"), 1)]))
    await run_until_idle(engine, tasks(task))
    (row,) = await engine.history(0, step=1440 * HISTORY_MINUTE)
    assert row.longest >= 2 * 50_000
    assert row.waited >= row.longest
    assert row.ran >= 3 * 50_000
