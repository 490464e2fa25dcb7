"""Natural group commit: what arrives together is stored together, and one that fails takes nothing with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

import apsw
import pytest

from headgate.engine.contract import Enqueued, Filter, Limit, Override, Succeeded, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.errors import ConfigError, JobExists, LeaseLost, StaleMessage
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine, writer
from tests.support.waiting import turns

A = (Use(Key("A").ident),)


def job(id: str, uses: tuple[Use, ...] = ()) -> NewJob:
    return NewJob(id=id, task="t", uses=uses)


@contextmanager
def commits(engine: SqliteEngine) -> Generator[list[bool]]:
    """The commits of the writer. What is put into `refuse` makes the next ones fail."""
    refuse: list[bool] = []
    seen: list[bool] = []

    def hook() -> bool:
        seen.append(bool(refuse) and refuse.pop())
        return seen[-1]

    connection = writer(engine)
    connection.set_commit_hook(hook)
    seen.clear()
    try:
        yield seen
    finally:
        connection.set_commit_hook(None)


@contextmanager
def failing_commits(engine: SqliteEngine, count: int) -> Generator[None]:
    """The next commits fail when all work is done: the disk is full at the last moment."""
    left = count

    def hook() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    connection = writer(engine)
    connection.set_commit_hook(hook)
    try:
        yield
    finally:
        connection.set_commit_hook(None)


async def test_two_hundred_enqueues_at_once_take_a_handful_of_commits(engine: SqliteEngine):
    await engine.enqueue([job("first")])
    with commits(engine) as seen:
        await asyncio.gather(*(engine.enqueue([job(f"j{n}")]) for n in range(200)))
    assert len(seen) <= 10
    assert await engine.count(Filter()) == 201


async def test_enqueues_one_after_another_are_each_safe_when_acknowledged(
    engine: SqliteEngine, open_engine: OpenEngine
):
    other = await open_engine()
    await engine.enqueue([job("first")])
    with commits(engine) as seen:
        for n in range(5):
            await engine.enqueue([job(f"j{n}")])
            assert await other.states([f"j{n}"]) == [JobState.READY]
    assert len(seen) == 5


async def test_one_that_fails_in_a_group_takes_nothing_with_it(engine: SqliteEngine):
    await engine.enqueue([job("taken")])
    batches = [[job(f"a{n}"), job("taken" if n % 3 == 0 else f"b{n}")] for n in range(60)]
    results = await asyncio.gather(*(engine.enqueue(batch) for batch in batches), return_exceptions=True)
    for n, result in enumerate(results):
        assert isinstance(result, JobExists) if n % 3 == 0 else isinstance(result, list)
        expected = None if n % 3 == 0 else JobState.READY
        assert await engine.states([f"a{n}"]) == [expected]
    assert await engine.count(Filter()) == 1 + 2 * 40


async def test_one_id_enqueued_many_times_in_a_group_is_stored_once(engine: SqliteEngine):
    results = await asyncio.gather(
        *(engine.enqueue([job("same")]) for _ in range(50)), return_exceptions=True
    )
    assert sum(isinstance(result, list) for result in results) == 1
    assert sum(isinstance(result, JobExists) for result in results) == 49


async def test_the_rules_of_a_failed_operation_do_not_stay_behind_in_its_group(engine: SqliteEngine):
    await engine.enqueue([job("taken")])
    failed, late, refused = await asyncio.gather(
        engine.enqueue([job("taken")], limits=[Limit("A", "concurrency", 1)]),
        engine.enqueue([job("free")]),
        engine.enqueue([job("limited", A)]),
        return_exceptions=True,
    )
    assert isinstance(failed, JobExists)
    assert late == [Enqueued("free", JobState.READY, True)]
    assert isinstance(refused, ConfigError), "the limit was never stored, so no job may use it"
    assert await engine.limits() == []
    await engine.declare([Limit("A", "concurrency", 1)])
    assert [limit.max for limit in await engine.limits()] == [1]


async def test_a_raised_limit_of_a_failed_operation_admits_nobody(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([job(f"j{n}", A) for n in range(5)])
    failed, answer = await asyncio.gather(
        engine.enqueue([job("j0", A)], limits=[Limit("A", "concurrency", 5)]),
        engine.exchange("w", [], 10),
        return_exceptions=True,
    )
    assert isinstance(failed, JobExists)
    assert not isinstance(answer, BaseException)
    assert [attempt.job for attempt in answer.attempts] == ["j0"]


async def test_a_commit_that_fails_leaves_no_limit_behind(engine: SqliteEngine):
    await engine.enqueue([job("first")])
    with failing_commits(engine, 1), pytest.raises(apsw.ConstraintError):
        await engine.declare([Limit("A", "concurrency", 1)])
    with pytest.raises(ConfigError):
        await engine.enqueue([job("limited", A)])
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([job("limited", A)])
    assert (await engine.limits())[0].max == 1


async def test_a_commit_that_fails_leaves_no_override_behind(engine: SqliteEngine):
    await engine.enqueue([job("j0", A)], limits=[Limit("A", "concurrency", 0)])
    await engine.register(Worker("w", frozenset({"t"})))
    with failing_commits(engine, 1), pytest.raises(apsw.ConstraintError):
        await engine.override(Override("A", 5))
    await engine.enqueue([job("j1", A)])
    assert (await engine.exchange("w", [], 10)).attempts == ()
    await engine.override(Override("A", 5))
    assert len((await engine.exchange("w", [], 10)).attempts) == 2


async def test_a_group_whose_commit_fails_is_done_again_one_by_one(engine: SqliteEngine):
    await engine.enqueue([job("first")])
    declared = [Limit(f"L{n}", "concurrency", n) for n in range(10)]
    with failing_commits(engine, 1):
        results = await asyncio.gather(
            *(
                engine.enqueue([job(f"j{n}", (Use(Key(f"L{n}").ident),))], limits=[declared[n]])
                for n in range(10)
            ),
            return_exceptions=True,
        )
    # The first may have gone alone, and then it is the one that failed.
    failed = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
    assert failed in ([], [0])
    stored = {limit.name: limit.max for limit in await engine.limits() if limit.key == limit.name}
    assert stored == {f"L{n}": n for n in range(10) if n not in failed}


async def test_messages_of_a_group_that_is_done_again_are_not_taken_for_stale(engine: SqliteEngine):
    await engine.enqueue([job(f"j{n}") for n in range(4)])
    await engine.register(Worker("w", frozenset({"t"})))
    with failing_commits(engine, 1):
        go = threading.Event()

        def wait(_: object) -> None:
            go.wait(5)  # until all are there

        engine._opened()._writer.post(wait)
        messages = [asyncio.ensure_future(engine.exchange("w", [], 1, number=n)) for n in (1, 2, 3)]
        await turns(10)
        go.set()
        answers = await asyncio.gather(*messages)
    assert [len(answer.attempts) for answer in answers] == [1, 1, 1]
    with pytest.raises(StaleMessage, match="came after its message 3"):
        await engine.exchange("w", [], 1, number=3)


async def test_an_exchange_without_a_lease_fails_alone(engine: SqliteEngine):
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([job("j")])
    lost, answer, _ = await asyncio.gather(
        engine.exchange("nobody", [Succeeded("j", 1)], 5),
        engine.exchange("w", [], 5),
        engine.enqueue([job("other")]),
        return_exceptions=True,
    )
    assert isinstance(lost, LeaseLost)
    assert not isinstance(answer, BaseException)
    assert "j" in [attempt.job for attempt in answer.attempts]


async def test_an_operation_that_nobody_waits_for_any_more_is_whole_or_absent(engine: SqliteEngine):
    tasks = [asyncio.ensure_future(engine.enqueue([job(f"a{n}"), job(f"b{n}")])) for n in range(50)]
    await turns()
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await engine.enqueue([job("last")])
    for n in range(50):
        first, second = await engine.states([f"a{n}", f"b{n}"])
        assert first == second
        assert n % 2 == 0 or first is JobState.READY
