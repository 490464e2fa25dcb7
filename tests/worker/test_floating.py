from __future__ import annotations

import asyncio
import threading

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit
from headgate.engine.memory import MemoryEngine
from headgate.job import INTERNAL_QUEUE, JobState
from headgate.keys import Key, canonical
from headgate.limits import FloatingRule
from headgate.worker import run_until_idle
from headgate.worker.duties.floating import Floating
from headgate.worker.events import Events
from tests.worker.stand_in import StandIn, ended, put, tasks, working

KEY = Key("llm", "acct_1")
USES = canonical([(KEY, 1)])


async def nothing():
    pass


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


class Capacity:
    """A floating limit's function that a test steers."""

    def __init__(self, number: object = 5) -> None:
        self.number = number
        self.calls = []

    async def __call__(self, limit):
        self.calls.append(limit)
        if isinstance(self.number, Exception):
            raise self.number
        return self.number


def rule(function, **options) -> FloatingRule:
    async def call(limit):
        return await function(limit)

    return FloatingRule(
        "llm", call, options.get("default", 0), options.get("every", 30 * SECOND), {"region": "eu"}
    )


async def closed_engine(clock: Clock | None = None) -> tuple[MemoryEngine, StandIn]:
    engine = MemoryEngine(clock=clock)
    await engine.declare([Limit("llm", "floating", 0)])
    return engine, StandIn("work", nothing)


async def test_a_key_at_zero_with_nothing_but_waiters_is_computed_and_its_waiters_start():
    engine, task = await closed_engine()
    ids = [await put(engine, task, uses=USES) for _ in range(8)]
    assert set(await engine.states(ids)) == {JobState.WAITING}
    capacity = Capacity(5)
    assert await run_until_idle(engine, tasks(task), floating=[rule(capacity)]) == 8
    assert set(await engine.states(ids)) == {JobState.SUCCEEDED}
    (limit,) = capacity.calls
    assert (limit.key, limit.name, limit.value, limit.tenant) == ("llm=acct_1", "llm", "acct_1", None)
    assert (limit.current, limit.held, limit.waiting, limit.metadata) == (0, 0, 8, {"region": "eu"})


async def test_two_workers_that_find_a_refresh_due_cause_one():
    engine, task = await closed_engine()
    await put(engine, task, uses=USES)
    capacity = Capacity(0)
    rules = [rule(capacity)]
    duties = [Floating(engine, rules, Events()) for _ in range(2)]
    for duty in duties:
        await duty.run_once()
    assert [duty.found for duty in duties] == [True, False]
    await run_until_idle(engine, tasks(task), floating=rules)
    assert len(capacity.calls) == 1


async def test_a_refresh_that_somebody_else_did_meanwhile_does_not_call_the_function():
    engine, task = await closed_engine()
    await put(engine, task, uses=USES)
    capacity = Capacity(0)
    duty = Floating(engine, [rule(capacity)], Events())
    await duty.run_once()
    await engine.compute(KEY.ident, 0)
    await run_until_idle(engine, {}, floating=[rule(capacity)])
    assert capacity.calls == []


async def test_the_number_is_computed_again_when_it_is_old_also_without_new_traffic():
    clock = Clock()
    engine, task = await closed_engine(clock)
    await put(engine, task, uses=USES)
    capacity = Capacity(0)
    rules = [rule(capacity)]
    await run_until_idle(engine, tasks(task), floating=rules)
    clock.now += 29 * SECOND
    await run_until_idle(engine, tasks(task), floating=rules)
    assert len(capacity.calls) == 1
    clock.now += 1 * SECOND
    capacity.number = 1
    assert await run_until_idle(engine, tasks(task), floating=rules) == 1
    assert len(capacity.calls) == 2


async def test_failures_back_off_from_one_second_to_sixty_and_keep_the_old_number():
    clock = Clock()
    engine, task = await closed_engine(clock)
    await engine.compute(KEY.ident, 0)
    clock.now += 31 * SECOND
    await put(engine, task, uses=USES)
    capacity = Capacity(RuntimeError("no answer"))
    rules = [rule(capacity)]
    waits = []
    for _ in range(9):
        await run_until_idle(engine, tasks(task), floating=rules)
        (refresh,) = await engine.find(Filter(queue=INTERNAL_QUEUE, states=(JobState.SCHEDULED,)))
        waits.append((refresh.due - clock.now) // SECOND)
        clock.now = refresh.due
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(capacity.calls) == 9
    (key,) = await engine.keys_in_use("llm")
    assert key.max == 0


@pytest.mark.parametrize("number", [-1, 2.5, "many", None, True])
async def test_an_answer_that_is_no_number_of_slots_is_a_failure(number):
    engine, task = await closed_engine()
    await put(engine, task, uses=USES)
    await run_until_idle(engine, tasks(task), floating=[rule(Capacity(number))])
    (refresh,) = await engine.find(Filter(queue=INTERNAL_QUEUE))
    assert refresh.state is JobState.SCHEDULED
    assert "a whole number >= 0 is needed" in (refresh.error or "")


async def test_a_synchronous_function_is_called_in_a_thread():
    engine, task = await closed_engine()
    await put(engine, task, uses=USES)
    threads = []

    def capacity(limit):
        threads.append(threading.current_thread())
        return 3

    await run_until_idle(engine, tasks(task), floating=[FloatingRule("llm", capacity, 0, SECOND)])
    assert threads
    assert threads[0] is not threading.main_thread()


async def test_keys_that_nobody_uses_cost_nothing():
    engine, task = await closed_engine()
    capacity = Capacity(1)
    await run_until_idle(engine, tasks(task), floating=[rule(capacity)])
    assert capacity.calls == []
    assert await engine.count(Filter()) == 0


async def test_a_worker_for_some_queues_refreshes_all_the_same():
    engine, task = await closed_engine()
    id = await put(engine, task, queue="mail", uses=USES)
    worker = working(engine, task, queues=["mail"], floating=[rule(Capacity(1))])
    async with worker as (_, watcher):
        await watcher.seen("refreshing")
        (job,) = await ended(engine, id)
    assert job.state is JobState.SUCCEEDED


async def test_zero_becomes_many_and_as_many_waiters_start_at_once():
    engine, _ = await closed_engine()
    release, began = asyncio.Event(), asyncio.Semaphore(0)

    async def work():
        began.release()
        await release.wait()

    task = StandIn("work", work)
    ids = [await put(engine, task, uses=USES) for _ in range(5)]
    async with working(engine, task, floating=[rule(Capacity(3))]):
        for _ in range(3):
            await began.acquire()
        assert (await engine.states(ids)).count(JobState.RUNNING) == 3
        release.set()
        await ended(engine, *ids)
