"""Jobs that enqueue stored without asking their keys: claims and sweeps look after them, in order."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from msgspec.structs import replace

from headgate.clock import SECOND
from headgate.engine.contract import Attempt, Limit, Override, Report, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, canonical

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
    """Two workers end a few at a time while further jobs arrive; only the claims meet them."""
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
    (first,) = (await engine.exchange("w", [], 10, ["default"])).attempts
    answer = await engine.exchange("w", [Succeeded(first.job, first.number)], 10, ["other"])
    assert [attempt.job for attempt in answer.attempts] == [f"j{KEYS:04}"]
    (second,) = answer.attempts
    await engine.override(Override("A", 0, "0"))
    assert (await engine.exchange("w", [Succeeded(second.job, second.number)], 10)).attempts == ()
    await engine.clear_override("A", "0")
    answer = await engine.exchange("w", [], 10)
    assert [attempt.job for attempt in answer.attempts] == [f"j{3 * KEYS:04}"]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("kind", ["one key", "two keys", "cap", "rate"])
async def test_a_sweep_offers_room_to_newcomers_that_no_claim_has_met(
    engine: PostgresEngine, kind: str
) -> None:
    caps = [Limit("task:t", "concurrency", 100)] if kind == "cap" else []
    rates = [Limit("R", "rate", 1, 100 * SECOND)]
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 100), *caps, *rates])
    jobs = [job(number) for number in range(3 * KEYS)]
    if kind == "two keys":
        jobs = [replace(each, uses=canonical([*_pairs(each), (Key("B"), 1)])) for each in jobs]
    elif kind == "rate":
        jobs = [replace(each, uses=canonical([(Key("R", _key(each.id), rate=True), 1)])) for each in jobs]
    await engine.enqueue(jobs, now=START)
    ids = [each.id for each in jobs]
    assert await engine.states(ids) == [JobState.READY] * 3 * KEYS, "until a claim has looked"
    assert audit(await engine.snapshot(now=START)) == []
    first = await engine.sweep(now=START + SECOND // 2)
    assert first.offered == KEYS
    await engine.sweep(now=START + 2 * SECOND)
    assert await engine.states(ids) == [JobState.READY] * KEYS + [JobState.WAITING] * 2 * KEYS
    assert audit(await engine.snapshot(now=START + 2 * SECOND)) == []


def _pairs(job: NewJob) -> list[tuple[Key, int]]:
    return [(Key.of(use.key), use.units) for use in job.uses]


async def test_a_newcomer_that_came_while_its_key_went_idle_is_claimed_next(engine: PostgresEngine) -> None:
    """The slot went back when the newcomer was not to be seen yet: the key is on the list of those to look at."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([job(0)])
    (first,) = (await engine.exchange("w", [], 10)).attempts
    assert (await engine.exchange("w", [Succeeded(first.job, first.number)], 0)).attempts == ()
    await engine.enqueue([job(KEYS), job(2 * KEYS)])
    assert (await engine.exchange("w", [], 0)).attempts == (), "a full worker leaves it to others"
    answer = await engine.exchange("w", [], 10)
    assert [attempt.job for attempt in answer.attempts] == [f"j{KEYS:04}"]
    assert await engine.states([f"j{2 * KEYS:04}"]) == [JobState.WAITING]
    assert audit(await engine.snapshot()) == []


async def test_a_newcomer_of_another_queue_is_offered_to_those_who_serve_it(engine: PostgresEngine) -> None:
    """A look at a key is a look for all queues."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset("t")))
    await engine.enqueue([job(0, "other")])
    assert (await engine.exchange("w", [], 10, ["default"])).attempts == ()
    answer = await engine.exchange("w", [], 10, ["other"])
    assert [attempt.job for attempt in answer.attempts] == ["j0000"]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("alone", [True, False])
async def test_a_newcomer_is_not_offered_less_than_it_costs(engine: PostgresEngine, alone: bool) -> None:
    """Two tokens are left when the worker of another queue looks at its key."""
    await engine.declare([Limit("R", "rate", 10, 100 * SECOND)])
    await engine.register(Worker("w", frozenset("t"), lease=1000 * SECOND), now=START)

    def costly(id: str, cost: int) -> NewJob:
        return NewJob(id, "t", uses=canonical([(Key("R", rate=True), cost)]))

    await engine.enqueue([costly("first", 8)], now=START)
    assert len((await engine.exchange("w", [], 1, now=START)).attempts) == 1
    newcomers = [costly("j1", 5), costly("j2", 5)]
    for batch in [[each] for each in newcomers] if alone else [newcomers]:
        await engine.enqueue(batch, now=START)
    assert (await engine.exchange("w", [], 1, ["other"], now=START)).attempts == ()
    assert (await engine.sweep(now=START)).offered == 0
    assert await engine.states(["j1", "j2"]) == [JobState.WAITING] * 2
    assert audit(await engine.snapshot(now=START)) == []
    assert (await engine.sweep(now=START + 30 * SECOND)).offered == 1, "its timer waits for all five"


@pytest.mark.parametrize("cancelled", [False, True])
async def test_newcomers_that_a_worker_found_room_for_and_left_are_promised_it(
    engine: PostgresEngine, cancelled: bool
) -> None:
    """Who came after them stands in line behind them: only if they are cancelled, their room goes on to him."""
    await engine.declare([Limit("R", "rate", 1, 100 * SECOND)])
    await engine.register(Worker("w", frozenset("t")))

    def rated(id: str, key: str) -> NewJob:
        return NewJob(id, "t", uses=canonical([(Key("R", key, rate=True), 1)]))

    await engine.enqueue([rated("spender", "0")])
    assert len((await engine.exchange("w", [], 1)).attempts) == 1
    await engine.enqueue([rated("late", "0")])
    await engine.enqueue([rated("first", "1"), rated("left", "2"), rated("behind", "2")])
    assert [each.job for each in (await engine.exchange("w", [], 1)).attempts] == ["first"]
    assert await engine.states(["left", "behind"]) == [JobState.READY, JobState.WAITING]
    assert audit(await engine.snapshot()) == []
    if cancelled:
        await engine.cancel(["left"])
        assert audit(await engine.snapshot()) == []
    found = (await engine.exchange("w", [], 5)).attempts
    assert [each.job for each in found] == ["behind" if cancelled else "left"]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("unique", [None, "u"])
async def test_newcomers_of_a_key_start_in_order_whatever_else_they_need(
    engine: PostgresEngine, unique: str | None
) -> None:
    """Who needs more than the key, or came in a call with others, stands in its line like those after him."""
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 9)])
    await engine.register(Worker("w", frozenset("t")))
    alone, both = canonical([(Key("A"), 1)]), canonical([(Key("A"), 1), (Key("B"), 1)])
    await engine.enqueue([NewJob("holder", "t", uses=alone)])
    (attempt,) = (await engine.exchange("w", [], 1)).attempts
    await engine.enqueue([NewJob("1", "t", uses=both, unique=unique), NewJob("other", "t")])
    await engine.enqueue([NewJob("2", "t", uses=alone), NewJob("3", "t", uses=both)])
    await engine.enqueue([NewJob("4", "t", uses=alone)])
    started: list[str] = []
    while attempt is not None:
        found = (await engine.exchange("w", [Succeeded(attempt.job, attempt.number)], 2)).attempts
        started += [each.job for each in found if each.job != "other"]
        attempt = next((each for each in found if each.job != "other"), None)
    assert started == ["1", "2", "3", "4"]
    assert audit(await engine.snapshot()) == []


@pytest.mark.parametrize("came_back", [False, True])
@pytest.mark.parametrize("served", [None, ["default", "other"]])
async def test_a_slot_that_two_queues_wait_for_starts_one_job(
    engine: PostgresEngine, served: list[str] | None, came_back: bool
) -> None:
    """Each queue is offered the slot; the worker that serves both claims it once."""
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset("t")))
    held = job(0)
    if came_back:
        await engine.enqueue([held])
        assert len((await engine.exchange("w", [], 5, served)).attempts) == 1
    await engine.enqueue([job(KEYS), job(2 * KEYS, "other")])
    reports: list[Report] = [Succeeded(held.id, 1)] if came_back else []
    answer = await engine.exchange("w", reports, 5, served)
    assert [attempt.job for attempt in answer.attempts] == [f"j{KEYS:04}"]
    assert audit(await engine.snapshot()) == []
    answer = await engine.exchange("w", [Succeeded(f"j{KEYS:04}", 1)], 5, served)
    assert [attempt.job for attempt in answer.attempts] == [f"j{2 * KEYS:04}"]
    assert audit(await engine.snapshot()) == []


async def test_a_rates_newcomers_share_its_tokens_with_those_that_wait(engine: PostgresEngine) -> None:
    """A costly job at the head is not passed by cheap ones that come later, nor by those of the same call."""
    await engine.declare([Limit("R", "rate", 3, 100 * SECOND)])
    await engine.register(Worker("w", frozenset("t"), lease=1000 * SECOND), now=START)

    def costing(id: str, units: int) -> NewJob:
        return NewJob(id, "t", uses=canonical([(Key("R", rate=True), units)]))

    await engine.enqueue([costing("first", 2), costing("dear", 3), costing("cheap", 1)], now=START)
    assert [each.job for each in (await engine.exchange("w", [], 5, now=START)).attempts] == ["first"]
    await engine.enqueue([costing("late", 1)], now=START)
    assert (await engine.exchange("w", [], 5, now=START)).attempts == ()
    assert await engine.states(["dear", "cheap", "late"]) == [JobState.WAITING] * 3
    assert audit(await engine.snapshot(now=START)) == []
    later = START + 100 * SECOND
    await engine.sweep(now=later)
    assert [each.job for each in (await engine.exchange("w", [], 5, now=later)).attempts] == ["dear"]
    assert audit(await engine.snapshot(now=later)) == []
