"""A store in several parts: each has its own lease and exchanges, and they share the places of the worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from headgate.engine.contract import Part, Worker
from headgate.engine.memory import MemoryEngine
from headgate.errors import EngineUnavailable
from headgate.job import JobState
from headgate.periodic import schedule
from headgate.worker import run_until_idle
from headgate.worker.run.capacity import PROMPT_ANSWER, Capacity
from headgate.worker.run.suspects import SuspectsTurn
from headgate.worker.run.threads import Threads
from tests.support.waiting import turns
from tests.worker.stand_in import FailingEngine, StandIn, ended, put, stored, tasks, working


class Split(MemoryEngine):
    """A whole made of several stores, each of which can be cut off."""

    def __init__(self, count: int = 2) -> None:
        super().__init__()
        self.stores = [FailingEngine() for _ in range(count)]
        for number, store in enumerate(self.stores):
            store.name = f"part {number}"

    def parts(self) -> Sequence[Part]:
        return self.stores


class Gate:
    """Jobs that wait until they are let go."""

    def __init__(self, full: int = 10) -> None:
        self.running = 0
        self.most = 0
        self.enough = full
        self.go = asyncio.Event()
        self.full = asyncio.Event()
        self.task = StandIn("work", self.work)

    async def work(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.enough:
            self.full.set()
        try:
            await self.go.wait()
        finally:
            self.running -= 1


async def test_a_worker_works_for_all_parts_within_its_concurrency():
    split, gate = Split(3), Gate()
    ids = [[await put(store, gate.task) for _ in range(20)] for store in split.stores]
    async with working(split, gate.task, concurrency=10) as (worker, watcher):
        assert len(worker.ids) == 3 or await watcher.seen("registered", 3)
        await watcher.seen("idle", 3)
        gate.go.set()
        for store, of_store in zip(split.stores, ids, strict=True):
            assert {job.state for job in await ended(store, *of_store)} == {JobState.SUCCEEDED}
    assert gate.most == 10


async def test_one_part_alone_can_use_every_place():
    split, gate = Split(4), Gate()
    ids = [await put(split.stores[2], gate.task) for _ in range(30)]
    async with working(split, gate.task, concurrency=10):
        async with asyncio.timeout(10):
            await gate.full.wait()
        gate.go.set()
        await ended(split.stores[2], *ids)


async def test_a_part_with_work_is_served_beside_one_with_a_long_backlog():
    split = Split()
    order = []

    async def work(part):
        order.append(part)
        await turns(3)

    task = StandIn("work", work)
    first, second = split.stores
    backlog = [await put(first, task, args={"part": 0}) for _ in range(400)]
    few = [await put(second, task, args={"part": 1}) for _ in range(40)]
    async with working(split, task, concurrency=8):
        await ended(second, *few)
        await ended(first, *backlog)
    assert order.index(1) < 60
    assert 439 - order[::-1].index(1) < 200, "not behind the backlog"


async def test_a_silent_part_does_not_hold_up_the_others():
    split, gate = Split(), Gate()
    silent, alive = split.stores
    gate.go.set()
    async with working(split, gate.task, concurrency=10, lease=6) as (_, watcher):
        await watcher.seen("idle", 2)
        silent.open_gate.clear()
        await put(silent, gate.task)  # its claim asks for every place, and gets no answer
        await asyncio.sleep(0.05)
        ids = [await put(alive, gate.task) for _ in range(50)]
        async with asyncio.timeout(1.5):
            await ended(alive, *ids)
        silent.open_gate.set()


async def test_a_part_that_is_away_leaves_the_lease_of_the_others_alone():
    split, gate = Split(), Gate()
    away, alive = split.stores
    id = await put(alive, gate.task)
    async with working(split, gate.task, lease=0.5) as (_, watcher):
        await watcher.seen("registered", 2)
        away.cut = True
        fenced = await watcher.seen("fenced")
        (registered,) = await alive.workers()
        assert fenced.facts["worker"] != registered.worker.id
        gate.go.set()
        (job,) = await ended(alive, id)
        away.cut = False
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)


async def test_working_until_idle_empties_all_parts():
    split, gate = Split(3), Gate()
    gate.go.set()
    ids = [[await put(store, gate.task) for _ in range(25)] for store in split.stores]
    assert await run_until_idle(split, tasks(gate.task), concurrency=4) == 75
    for store, of_store in zip(split.stores, ids, strict=True):
        assert set(await store.states(of_store)) == {JobState.SUCCEEDED}


async def suspect(store: FailingEngine, task: StandIn, losses: int) -> str:
    """A job that was lost so often."""
    id = await put(store, task)
    for number in range(losses):
        doomed = Worker(f"doomed-{number}", frozenset({task.name}), concurrency=100)
        await store.register(doomed)
        await store.exchange(doomed.id, [], 1, suspects=number > 0)
        await store.report_lost([doomed.id])
    assert (await stored(store, id)).suspicion == losses
    return id


async def test_what_was_lost_once_in_one_part_runs_beside_a_suspect_of_another():
    split, gate = Split(), Gate(full=2)
    first, second = split.stores
    once, apart = await suspect(first, gate.task, 1), await suspect(second, gate.task, 2)
    async with working(split, gate.task, concurrency=100):
        async with asyncio.timeout(10):
            await gate.full.wait()
        gate.go.set()
        await ended(first, once)
        await ended(second, apart)


async def test_while_one_part_runs_a_suspect_others_start_only_what_was_lost_once():
    split, gate = Split(), Gate(full=2)
    first, second = split.stores
    apart, grave = await suspect(first, gate.task, 2), await suspect(second, gate.task, 3)
    once = await suspect(second, gate.task, 1)
    async with working(split, gate.task, concurrency=100) as (_, watcher):
        async with asyncio.timeout(10):
            await gate.full.wait()
        await watcher.seen("idle", watcher.count("idle") + 2)
        states = await second.states([grave, once])
        assert states == [JobState.READY, JobState.RUNNING]
        gate.go.set()
        await ended(first, apart)
        await ended(second, once, grave)
    assert gate.most == 2


async def test_parts_take_turns_at_the_threads_and_neither_holds_up_what_needs_none():
    split, release = Split(), threading.Semaphore(0)
    began: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def work(part: str) -> None:
        loop.call_soon_threadsafe(began.put_nowait, part)
        release.acquire(timeout=20)

    async def walk() -> None: ...

    threaded, quick = StandIn("work", work), StandIn("walk", walk)
    slow = [[await put(one, threaded, args={"part": one.name}) for _ in range(6)] for one in split.stores]
    quicks = [await put(one, quick) for one in split.stores]
    async with working(split, threaded, quick, threads=1, concurrency=10):
        seen = [await began.get()]
        for one, id in zip(split.stores, quicks, strict=True):
            await ended(one, id)
        for _ in range(11):
            release.release()
            seen.append(await began.get())
            running = [
                (await one.states(ids)).count(JobState.RUNNING)
                for one, ids in zip(split.stores, slow, strict=True)
            ]
            assert sum(running) <= 2, "one thread, and one whose end is on its way"
        release.release()
        for one, ids in zip(split.stores, slow, strict=True):
            await ended(one, *ids)
    assert len({*seen[:4]}) == 2, seen


def capacity(concurrency: int) -> Capacity:
    return Capacity(concurrency)


def test_free_places_are_divided_between_those_that_want_some(monkeypatch: pytest.MonkeyPatch):
    places, woken = capacity(7), []
    a, b = places.share(lambda: woken.append("a")), places.share(lambda: woken.append("b"))
    assert a.want(0) == 7, "alone in line"
    assert (b.want(0), a.want(0)) == (3, 4)
    a.ask(4, None)
    assert b.want(0) == 3
    a.end(hungry=True)
    assert woken == ["b"], "it has waited longest"


def test_no_two_parts_ask_for_the_same_thread():
    places, threads = capacity(10), Threads(3, "test")
    a = places.share(lambda: None, threads=threads)
    b = places.share(lambda: None, threads=threads)
    assert (a.threads_for(3), a.threads_for(4)) == (None, 3)
    a.ask(4, 2)
    assert (b.threads_for(1), b.threads_for(4)) == (None, 1)
    a.end(hungry=False)
    assert b.threads_for(4) == 3


def test_a_claim_without_an_answer_keeps_only_its_even_share(monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr("headgate.worker.run.capacity.time.monotonic", lambda: now[0])
    places = capacity(10)
    silent, other = places.share(lambda: None), places.share(lambda: None)
    silent.ask(silent.want(0), None)
    assert other.want(0) == 0
    now[0] += PROMPT_ANSWER * 1.01
    assert other.want(0) == 5
    other.ask(5, None)
    for _ in range(5):
        places.take()
    other.end(hungry=False)
    assert silent.room(10) == 5, "the rest of a late answer is given back"


def test_only_one_part_at_a_time_claims_suspects_and_each_gets_its_turn():
    turn = SuspectsTurn()
    assert turn.take("a")
    assert not turn.take("b")
    turn.give_back("a")
    assert not turn.take("a"), "b has waited"
    assert turn.take("b")
    turn.leave("b")
    assert turn.take("a")


async def test_what_a_duty_of_the_whole_store_meets_is_not_said_of_the_first_part(
    caplog: pytest.LogCaptureFixture,
):
    split = Split()
    ticks = split.ticks

    async def away(names: Sequence[str]) -> dict[str, int]:
        raise EngineUnavailable("part 1 is away")

    split.ticks = away
    periodic = StandIn("report", Gate().work, schedule=schedule(every=3600))
    async with working(split, periodic, lease=0.6) as (_, watcher):
        await watcher.seen("unavailable")
        split.ticks = ticks
        await watcher.seen("recovered")
    lines = [line for line in caplog.messages if "reached" in line]
    assert lines == [
        "what the ticker needs of the engine cannot be reached, trying again: part 1 is away",
        "what the ticker needs of the engine can be reached again",
    ]
