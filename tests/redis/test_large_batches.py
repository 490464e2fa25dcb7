"""Very many newcomers with keys of their own: stored whole or not at all, and no script is long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Engine, Enqueued, Filter, Limit, Worker
from headgate.engine.memory import MemoryEngine
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.calling import Calls
from headgate.engine.redis.enqueueing import AT_ONCE
from headgate.errors import ConfigError, EngineUnavailable, JobExists
from headgate.job import JobState, NewJob
from headgate.keys import Key, canonical
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.world import START

MANY = 5 * AT_ONCE
LIMITS = [
    Limit("A", "concurrency", 1),
    Limit("B", "concurrency", 3),
    Limit("R", "rate", 2, SECOND),
    Limit("task:capped", "concurrency", 1),
]


def jobs(start: int = 0, count: int = MANY, **given: Any) -> list[NewJob]:
    """Jobs of one key each."""
    return [NewJob(f"j{n:04}", "t", uses=own(n), **given) for n in range(start, start + count)]


def own(number: int) -> Any:
    return canonical([(Key("A", str(number)), 1)])


def mixed(number: int) -> NewJob:
    """All kinds of newcomers."""
    uses = [(Key("A", str(number // 2)), 1), (Key("B", str(number % 7)), 1), (Key("R", rate=True), 1)]
    return NewJob(
        f"j{number:04}",
        "capped" if number % 11 == 0 else "t",
        queue=f"q{number % 3}",
        uses=canonical(uses[: number % 4]),
        priority=40 + number % 5,
        delay=SECOND if number % 13 == 0 else 0,
        at=START - number if number % 17 == 0 else None,
        unique=f"u{number}" if number % 5 == 0 else None,
    )


async def spoken_to(engine: Engine) -> list[Any]:
    """What a store has to show after a large batch of all kinds, and what is claimed of it."""
    await engine.enqueue(jobs(MANY, 20), limits=LIMITS, now=START)
    enqueued = await engine.enqueue([mixed(number) for number in range(MANY)], now=START)
    snapshot = await engine.snapshot(now=START)
    await engine.register(Worker("w", frozenset({"t", "capped"}), lease=10**15, concurrency=MANY), now=START)
    attempts = (await engine.exchange("w", [], 60, now=START + 2)).attempts
    waiting = await engine.find(Filter(states=(JobState.WAITING,)), limit=MANY)
    return [
        enqueued,
        snapshot.jobs,
        snapshot.holders,
        snapshot.free,
        snapshot.timers,
        [attempt.job for attempt in attempts],
        [(job.id, job.waiting_on) for job in waiting],
        await engine.states([job.id for job in waiting]),
    ]


async def test_a_large_batch_comes_to_the_same_as_on_other_stores(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    assert await spoken_to(engine) == await spoken_to(MemoryEngine())


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The scripts that are called, each with how many arguments."""
    called: list[tuple[str, int]] = []
    original = Calls.script

    async def note(self: Calls, partition: Any, script: Any, arguments: tuple[Any, ...]) -> Any:
        called.append((script._verb, len(arguments)))
        return await original(self, partition, script, arguments)

    monkeypatch.setattr(Calls, "script", note)
    return called


async def test_jobs_with_keys_of_their_own_arrive_in_slices_and_others_at_once(
    start_server: StartServer, open_engine: OpenEngine, scripts: list[tuple[str, int]]
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare(LIMITS, now=START)
    del scripts[:]
    await engine.enqueue(jobs(), now=START)
    assert [verb for verb, _ in scripts] == ["store", *["arrive"] * (MANY // AT_ONCE)]
    del scripts[:]
    await engine.enqueue([NewJob(f"k{n}", "t", uses=own(n % 9)) for n in range(MANY)], now=START)
    await engine.enqueue(jobs(MANY, AT_ONCE), now=START)
    assert [verb for verb, _ in scripts] == ["enqueue", "enqueue"]


def die_after(monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
    """The caller dies after so many slices."""
    original = Calls.script
    left = slices

    async def fail(self: Calls, partition: Any, script: Any, *rest: Any) -> Any:
        nonlocal left
        if script._verb == "arrive":
            left -= 1
            if left < 0:
                raise EngineUnavailable("gone")
        return await original(self, partition, script, *rest)

    monkeypatch.setattr(Calls, "script", fail)


async def test_sweeps_let_arrive_what_a_caller_that_died_has_left(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare(LIMITS, now=START)
    with monkeypatch.context() as patch:
        die_after(patch, 2)
        with pytest.raises(EngineUnavailable):
            await engine.enqueue(jobs(), now=START)
    assert (await engine.totals()).counts[JobState.SCHEDULED] == MANY - 2 * AT_ONCE
    await engine.register(Worker("w", frozenset({"t"}), lease=10**15), now=START)
    assert (await engine.exchange("w", [], 0, now=START)).next_due == START, "workers sweep at once"
    while (await engine.sweep(now=START)).more:
        pass
    assert await engine.states([job.id for job in jobs()]) == [JobState.READY] * MANY


async def test_what_a_sweep_or_a_worker_was_faster_with_is_told_as_it_is(
    start_server: StartServer, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare(LIMITS, now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**15), now=START)
    original = Calls.script

    async def hurry(self: Calls, partition: Any, script: Any, *rest: Any) -> Any:
        found = await original(self, partition, script, *rest)
        if script._verb == "store":
            await engine.sweep(now=START)
            assert len((await engine.exchange("w", [], 2, now=START)).attempts) == 2
            await engine.cancel(["j0002"], now=START)
            await engine.delete(["j0002"], now=START)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Calls, "script", hurry)
        enqueued = await engine.enqueue(jobs(), now=START)
    states = [JobState.RUNNING, JobState.RUNNING, *[JobState.READY] * (MANY - 2)]
    assert enqueued == [Enqueued(job.id, state, True) for job, state in zip(jobs(), states, strict=True)]
    assert await engine.states(["j0002", "j0003"]) == [None, JobState.READY]


def with_taken_id(batch: list[NewJob]) -> None:
    batch[-1] = NewJob("there", "t", uses=own(0))


def with_the_same_id_twice(batch: list[NewJob]) -> None:
    batch[-1] = batch[0]


def with_an_undeclared_limit(batch: list[NewJob]) -> None:
    batch[-1] = NewJob("last", "t", uses=canonical([(Key("none", "1"), 1)]))


def with_a_rival(batch: list[NewJob]) -> None:
    batch[-1] = NewJob("last", "t", uses=own(0), unique="one", on_conflict="raise")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (with_taken_id, JobExists),
        (with_the_same_id_twice, JobExists),
        (with_an_undeclared_limit, ConfigError),
        (with_a_rival, JobExists),
    ],
)
async def test_a_large_batch_of_which_one_is_refused_stores_nothing(
    start_server: StartServer,
    open_engine: OpenEngine,
    spoil: Callable[[list[NewJob]], None],
    error: type[Exception],
) -> None:
    engine = await open_engine(start_server().url)
    await engine.enqueue([NewJob("there", "t", unique="one")], limits=LIMITS, now=START)
    batch = jobs()
    spoil(batch)
    with pytest.raises(error) as raised:
        await engine.enqueue(batch, limits=[Limit("new", "concurrency", 1)], now=START)
    few = [batch[0], batch[-1]]
    with pytest.raises(error) as of_few:
        await engine.enqueue(few, now=START)
    assert str(raised.value) == str(of_few.value)
    assert await engine.count(Filter()) == 1
    assert not await engine.limits("new")


async def test_a_rival_in_a_large_batch_is_returned_or_replaced(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.enqueue([NewJob(id, "t", unique=id) for id in ("first", "second")], limits=LIMITS, now=START)
    same = NewJob("same", "t", uses=own(0), unique="first")
    other = NewJob("other", "t", uses=own(1), unique="second", on_conflict="replace")
    enqueued = await engine.enqueue([*jobs(2), same, other], now=START)
    assert enqueued[-2:] == [
        Enqueued("first", JobState.READY, False),
        Enqueued("other", JobState.READY, True),
    ]
    assert await engine.states(["first", "second", "same"]) == [JobState.READY, JobState.CANCELLED, None]


async def test_unique_keys_of_a_large_batch_are_taken(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine: RedisEngine = await open_engine(start_server().url)
    await engine.declare(LIMITS, now=START)
    batch = [NewJob(f"j{n:04}", "t", tenant="žluť", unique=f"u{n}") for n in range(MANY)]
    assert all(each.created for each in await engine.enqueue(batch, now=START))
    (again,) = await engine.enqueue([NewJob("again", "t", tenant="žluť", unique="u7")], now=START)
    assert (again.id, again.created) == ("j0007", False)
    await engine.cancel(["j0007"], now=START)
    (again,) = await engine.enqueue([NewJob("again", "t", tenant="žluť", unique="u7")], now=START)
    assert (again.id, again.created) == ("again", True)
