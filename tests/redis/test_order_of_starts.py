"""Jobs start in the same order as on the memory engine, whatever short cut is taken: several queues on one key."""

from __future__ import annotations

import random

import pytest

from headgate.engine.contract import Engine, Limit, Released, Succeeded, Worker
from headgate.engine.memory import MemoryEngine
from headgate.job import NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.world import START

KEYS = [Key("A"), Key("A", "1"), Key("B")]


async def test_urgent_waiters_of_another_queue_on_the_same_key_start_first(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    use = (Use(Key("A").ident),)
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    await engine.enqueue([NewJob("first", "t", queue="slow", uses=use)])
    (running,) = (await engine.exchange("w", [], 5)).attempts
    await engine.enqueue([NewJob(f"slow{n}", "t", queue="slow", uses=use) for n in range(50)])
    await engine.enqueue([NewJob("urgent", "t", queue="fast", priority=1, uses=use)])
    answer = await engine.exchange("w", [Succeeded("first", running.number)], 5)
    assert [attempt.job for attempt in answer.attempts] == ["urgent"]


async def give_back_a_suspect(engine: Engine) -> list[str]:
    """A suspect is given back in the message in which a slot becomes free: which of the two starts."""
    use = (Use(Key("A").ident),)
    await engine.declare([Limit("A", "concurrency", 1)], now=START)
    for worker in ("lost", "w"):
        await engine.register(Worker(worker, frozenset({"t"}), lease=10**15, concurrency=10), now=START)
    await engine.enqueue([NewJob("suspect", "t")], now=START)
    await engine.exchange("lost", [], 1, now=START)
    await engine.report_lost(["lost"], now=START)
    await engine.enqueue([NewJob("holder", "t", uses=use), NewJob("waiter", "t", uses=use)], now=START)
    running = {each.job: each.number for each in (await engine.exchange("w", [], 5, now=START)).attempts}
    assert set(running) == {"suspect", "holder"}
    reports = [Succeeded("holder", running["holder"]), Released("suspect", running["suspect"])]
    answer = await engine.exchange("w", reports, 1, now=START)
    return [attempt.job for attempt in answer.attempts]


async def test_a_suspect_that_is_given_back_is_not_overtaken(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    assert await give_back_a_suspect(engine) == await give_back_a_suspect(MemoryEngine()) == ["suspect"]


async def walk(engine: Engine, seed: int, queues: list[str] | None) -> list[str]:
    """A random walk of a worker with one place, or so many that nothing is ready for long; the order of starts."""
    most = 1 if seed % 2 else 9
    chance, now, starts, number = random.Random(seed), START, list[str](), 0
    running: list[Succeeded] = []
    await engine.declare([Limit("A", "concurrency", 1), Limit("B", "concurrency", 2)], now=now)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**15, concurrency=most), now=now)
    for _ in range(120):
        now += chance.choice([0, 1, 1000])
        for _ in range(chance.randrange(4)):
            number += 1
            uses = chance.sample(KEYS, chance.choice([1, 1, 2]))
            job = NewJob(
                f"j{number}", "t", queue=chance.choice("xyz"), priority=chance.choice([10, 50, 50]),
                delay=chance.choice([0, 0, 0, 2000]),
                uses=tuple(Use(key.ident) for key in sorted(uses, key=lambda key: key.text)),
            )  # fmt: skip
            await engine.enqueue([job], now=now)
        if chance.random() < 0.1 and number:
            await engine.cancel([f"j{chance.randrange(number) + 1}"], now=now)
        await engine.sweep(now=now)
        ended = [each for each in running if chance.random() < 0.6]
        running = [each for each in running if each not in ended]
        answer = await engine.exchange("w", ended, most - len(running), queues, now=now)
        starts += [attempt.job for attempt in answer.attempts]
        running += [Succeeded(attempt.job, attempt.number) for attempt in answer.attempts]
    return starts


@pytest.mark.parametrize("queues", [None, ["y", "x", "z"]], ids=["all queues", "one after the other"])
@pytest.mark.parametrize("seed", range(10))
async def test_the_order_of_starts_is_that_of_the_memory_engine(
    start_server: StartServer, open_engine: OpenEngine, seed: int, queues: list[str] | None
) -> None:
    engine = await open_engine(start_server().url)
    assert await walk(engine, seed, queues) == await walk(MemoryEngine(), seed, queues)
