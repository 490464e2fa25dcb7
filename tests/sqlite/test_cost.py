"""What a step costs, in instructions of SQLite's virtual machine: they do not depend on the machine or its load."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine, writer

START = 1_700_000_000 * SECOND
FEW = 100
KEY, RATE = Key("A").ident, Key("R", rate=True).ident
Act = Callable[[SqliteEngine], Awaitable[None]]


def job(id: str, *keys: str, task: str = "t") -> NewJob:
    return NewJob(id=id, task=task, uses=tuple(Use(key) for key in keys))


async def crowd(engine: SqliteEngine, waiting: int) -> None:
    """A worker runs the holder of A and has spent R; so many jobs wait on each, and as many are set aside."""
    await engine.declare([Limit("A", "concurrency", 1), Limit("R", "rate", 1, 3600 * SECOND)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    await engine.enqueue([job("holder", KEY), job("spender", RATE)], now=START)
    await engine.exchange("w", [], 10, now=START)
    for first in range(0, waiting, 1000):
        numbers = range(first, min(first + 1000, waiting))
        await engine.enqueue([job(f"a{n}", KEY) for n in numbers], now=START)
        await engine.enqueue([job(f"r{n}", RATE) for n in numbers], now=START)
        await engine.enqueue([job(f"x{n}", task="unknown") for n in numbers], now=START)
    while (await engine.exchange("w", [], 1000, now=START)).more:
        pass


async def instructions(engine: SqliteEngine, act: Act) -> int:
    """How many instructions the writer's connection executes while something is done."""
    connection = writer(engine)
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(step, 1)
    await act(engine)
    connection.set_progress_handler(None)
    return count


async def claim_unrelated(engine: SqliteEngine) -> None:
    await engine.enqueue([job("free")], now=START)
    answer = await engine.exchange("w", [], 1, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["free"]


async def find_nothing(engine: SqliteEngine) -> None:
    assert (await engine.exchange("w", [], 100, now=START)).attempts == ()


async def hand_the_slot_on(engine: SqliteEngine) -> None:
    answer = await engine.exchange("w", [Succeeded("holder", 1)], 1, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["a0"]


async def come_onto_the_held_key(engine: SqliteEngine) -> None:
    (enqueued,) = await engine.enqueue([job("late", KEY)], now=START)
    assert enqueued.state is JobState.WAITING


async def sweep_at_rest(engine: SqliteEngine) -> None:
    assert (await engine.sweep(now=START)).due == 0


async def get_a_token(engine: SqliteEngine) -> None:
    assert (await engine.sweep(now=START + 3600 * SECOND)).offered == 1


async def cancel_a_waiter(engine: SqliteEngine) -> None:
    (verdict,) = await engine.cancel(["a1"], now=START)
    assert verdict.done


async def renew_the_lease(engine: SqliteEngine) -> None:
    await engine.heartbeat("w", now=START)


async def change_the_limit(engine: SqliteEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 2)], now=START)


ACTS: list[Act] = [
    claim_unrelated,
    find_nothing,
    hand_the_slot_on,
    come_onto_the_held_key,
    sweep_at_rest,
    get_a_token,
    cancel_a_waiter,
    renew_the_lease,
    change_the_limit,
]


async def costs(engine: SqliteEngine, waiting: int, acts: list[Act]) -> dict[str, int]:
    await crowd(engine, waiting)
    return {act.__name__: await instructions(engine, act) for act in acts}


async def compare(open_engine: OpenEngine, waiting: int, acts: list[Act]) -> None:
    path = (await open_engine()).path
    few = await costs(await open_engine(at=f"{path}.few"), FEW, acts)
    many = await costs(await open_engine(), waiting, acts)
    for name, count in many.items():
        assert count <= few[name] * 1.05, (
            f"{name}: {few[name]} instructions with {FEW} waiting, {count} with {waiting}"
        )


async def test_no_step_costs_more_when_ten_thousand_jobs_wait(open_engine: OpenEngine):
    await compare(open_engine, 3_400, ACTS)


@pytest.mark.slow
async def test_no_step_costs_more_when_a_hundred_thousand_jobs_wait(open_engine: OpenEngine):
    await compare(open_engine, 34_000, ACTS)


async def test_a_claim_of_many_free_jobs_costs_as_much_per_job_as_a_claim_of_few(engine: SqliteEngine):
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    await engine.enqueue([job(f"j{n}") for n in range(3000)], now=START)

    async def claim(want: int) -> None:
        assert len((await engine.exchange("w", [], want, now=START)).attempts) == want

    ten = await instructions(engine, lambda _: claim(10))
    thousand = await instructions(engine, lambda _: claim(1000))
    assert thousand / 1000 <= ten / 10
