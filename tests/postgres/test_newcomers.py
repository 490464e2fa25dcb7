"""Jobs that enqueue left ready without asking their keys: claims and sweeps let them stand in line, in order."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from headgate.clock import SECOND
from headgate.engine.audit import audit
from headgate.engine.contract import Attempt, Limit, Override, Report, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.job import JobState, NewJob
from headgate.keys import Key, canonical
from tests.postgres_server import PostgresProcess

KEYS, JOBS, MOST = 7, 600, 2
START = 1_700_000_000 * SECOND


def job(number: int, queue: str = "default", task: str = "t") -> NewJob:
    key = (Key("A", str(number % KEYS)), 1)
    return NewJob(f"j{number:04}", task, queue, uses=canonical([key]))


@pytest.mark.parametrize("queues", [None, ["default"], ["other", "default"]])
@pytest.mark.parametrize("seed", [1, 2])
async def test_workers_run_newcomers_in_order_and_never_too_many(
    engine: PostgresEngine, queues: list[str] | None, seed: int
) -> None:
    """Two workers end a few at a time while further jobs arrive; nobody meets them but the claims."""
    dice = random.Random(seed)
    await engine.declare([Limit("A", "concurrency", MOST)])
    for worker in ("w1", "w2"):
        await engine.register(Worker(worker, frozenset("t")))
    running: dict[str, list[Attempt]] = {"w1": [], "w2": []}
    started: defaultdict[str, list[str]] = defaultdict(list)
    held: defaultdict[str, int] = defaultdict(int)
    stored = ended = 0
    while ended < JOBS:
        if stored < JOBS:
            batch = [job(number) for number in range(stored, min(JOBS, stored + dice.randrange(1, 150)))]
            await engine.enqueue(batch)
            stored += len(batch)
        worker = dice.choice(list(running))
        count = dice.randrange(len(running[worker]) + 1)
        done, running[worker] = running[worker][:count], running[worker][count:]
        reports: list[Report] = [Succeeded(attempt.job, attempt.number) for attempt in done]
        for attempt in done:
            held[_key(attempt.job)] -= 1
        ended += len(done)
        answer = await engine.exchange(worker, reports, dice.randrange(1, 30), queues)
        assert answer.refused == ()
        for attempt in answer.attempts:
            started[_key(attempt.job)].append(attempt.job)
            held[_key(attempt.job)] += 1
            assert held[_key(attempt.job)] <= MOST
        running[worker] += answer.attempts
    assert all(jobs == sorted(jobs) for jobs in started.values()), "first come, first served on each key"
    assert audit(await engine.snapshot()) == []


def _key(id: str) -> str:
    return str(int(id[1:]) % KEYS)


async def test_a_slot_goes_to_the_next_in_line_whatever_else_there_is(engine: PostgresEngine) -> None:
    """Waiters of another queue, of an unknown task and a number that an operator changed take the long way."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([job(0), job(KEYS, "other"), job(2 * KEYS, task="unknown"), job(3 * KEYS)])
    answer = await engine.exchange("w", [], 10)
    assert answer.set_aside == ("unknown",)
    (first,) = answer.attempts
    answer = await engine.exchange("w", [Succeeded(first.job, first.number)], 10, ["other"])
    assert [attempt.job for attempt in answer.attempts] == [f"j{KEYS:04}"]
    (second,) = answer.attempts
    await engine.override(Override("A", 0, "0"))
    assert (await engine.exchange("w", [Succeeded(second.job, second.number)], 10)).attempts == ()
    await engine.clear_override("A", "0")
    answer = await engine.exchange("w", [], 10)
    assert [attempt.job for attempt in answer.attempts] == [f"j{3 * KEYS:04}"]
    assert audit(await engine.snapshot()) == []


async def test_a_sweep_that_met_newcomers_wakes_who_passed_over_them(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    """A claim skips rows that a sweep holds: without a call its worker would sleep until its next poll."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job(number) for number in range(3 * KEYS)], now=START)
    sweep = f"SELECT wake FROM {quoted(schema)}.sweep(%s::bigint, 1, ARRAY[1, 1, 1]::bigint[], NULL)"
    assert process.execute(sweep, START + SECOND // 2) == [(False,)], "they are left to claims at first"
    assert process.execute(sweep, START + 2 * SECOND) == [(True,)]
    assert process.execute(sweep, START + 2 * SECOND) == [(False,)]
    states = await engine.states([f"j{number:04}" for number in range(3 * KEYS)])
    assert states == [JobState.READY] * KEYS + [JobState.WAITING] * 2 * KEYS
    assert audit(await engine.snapshot()) == []
