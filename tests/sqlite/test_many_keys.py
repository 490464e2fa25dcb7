"""Very many keys: no step costs more because of them, and a change of their limit acts in slices."""

from __future__ import annotations

import asyncio

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Override, Succeeded, Worker
from headgate.engine.rules.audit import audit
from headgate.engine.rules.in_force import KEEP_NUMBERS
from headgate.engine.rules.status import COUNTED_MOST
from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine
from tests.sqlite.test_cost import START, Act, instructions, job

FEW, MANY = 100, 3000


def key(number: int) -> str:
    return Key("A", f"{number:05}").ident


async def crowd(engine: SqliteEngine, keys: int) -> None:
    """So many keys, each held by one job and waited for by another, and numbers computed for as many."""
    await engine.declare([Limit("A", "concurrency", 1), Limit("F", "floating", 1)], now=START)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    for first in range(0, keys, 500):
        numbers = range(first, min(first + 500, keys))
        await engine.enqueue([job(f"h{n}", key(n)) for n in numbers], now=START)
        while (await engine.exchange("w", [], 1000, now=START)).attempts:
            pass
        await engine.enqueue([job(f"w{n}", key(n)) for n in numbers], now=START)
    for number in range(keys):
        await engine.compute(Key("F", str(number)).ident, 2, now=START)


async def claim_unrelated(engine: SqliteEngine) -> None:
    await engine.enqueue([job("free")], now=START)
    assert len((await engine.exchange("w", [], 1, now=START)).attempts) == 1


async def hand_a_slot_on(engine: SqliteEngine) -> None:
    answer = await engine.exchange("w", [Succeeded("h5", 1)], 1, now=START)
    assert [attempt.job for attempt in answer.attempts] == ["w5"]


async def override_one_key(engine: SqliteEngine) -> None:
    await engine.override(Override("A", 2, "00007", at=START), now=START)
    assert await engine.states(["w7"]) == [JobState.READY]


async def compute_one_key(engine: SqliteEngine) -> None:
    await engine.compute(Key("F", "7").ident, 3, now=START)


async def come_after_a_computed_number(engine: SqliteEngine) -> None:
    await engine.enqueue([job("late", Key("F", "8").ident)], now=START)


async def recheck_a_slice(engine: SqliteEngine) -> None:
    assert (await engine.recheck(most=10, now=START)).healed == ()


async def sweep_at_rest(engine: SqliteEngine) -> None:
    assert not (await engine.sweep(now=START)).more


async def lose_a_worker_without_jobs(engine: SqliteEngine) -> None:
    await engine.register(Worker("v", frozenset({"t"})), now=START)
    await engine.report_lost(["v"], now=START)


ACTS: list[Act] = [
    claim_unrelated,
    hand_a_slot_on,
    override_one_key,
    compute_one_key,
    come_after_a_computed_number,
    recheck_a_slice,
    sweep_at_rest,
    lose_a_worker_without_jobs,
]


async def test_no_step_costs_more_when_thousands_of_keys_are_held_and_waited_for(open_engine: OpenEngine):
    path = (await open_engine()).path
    few, many = await open_engine(at=f"{path}.few"), await open_engine()
    await crowd(few, FEW)
    await crowd(many, MANY)
    for act in ACTS:
        before, after = await instructions(few, act), await instructions(many, act)
        assert after <= before * 1.05 + 20, (
            f"{act.__name__}: {before} instructions with {FEW} keys, {after} with {MANY}"
        )


async def test_pages_cost_what_they_show(open_engine: OpenEngine):
    engine = await open_engine()
    await crowd(engine, FEW)
    whole = await engine.limits(now=START)
    pages, after = [], None
    while page := await engine.limits(after=after, limit=7, now=START):
        pages += page
        after = (page[-1].name, page[-1].key, page[-1].tenant)
    assert pages == whole
    in_use, last = [], None
    while some := await engine.keys_in_use("A", after=last, limit=7, now=START):
        in_use += some
        last = some[-1].key
    assert in_use == await engine.keys_in_use("A", now=START)
    assert len(in_use) == FEW


async def test_a_change_of_very_many_keys_is_completed_by_sweeps(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headgate.engine.sqlite.transaction.SLICE", 10)
    await crowd(engine, 35)

    woken, loop = asyncio.Event(), asyncio.get_running_loop()
    engine.watch_work(lambda: loop.call_soon_threadsafe(woken.set) and None, ["elsewhere"])
    await woken.wait()  # the first look at other processes' commits wakes all
    woken.clear()
    await engine.declare([Limit("A", "concurrency", 2)], now=START)
    await asyncio.wait_for(woken.wait(), 10)  # a worker has to go on with it, whatever it serves
    snapshot = await engine.snapshot(now=START)
    assert snapshot.unsettled == {key(number) for number in range(10, 35)}
    assert audit(snapshot) == []
    assert (await engine.recheck(now=START)).healed == ()
    (late,) = await engine.enqueue([job("late", key(30))], now=START)
    assert late.state is JobState.WAITING, "it stands behind the one that waits"
    assert await engine.states(["w9", "w10", "w30"]) == [JobState.READY, JobState.WAITING, JobState.READY]
    assert (await engine.exchange("w", [], 0, now=START)).next_due == 0, "the worker is to sweep at once"
    swept = await engine.sweep(now=START)
    assert swept.more
    while swept.more:
        swept = await engine.sweep(now=START)
    snapshot = await engine.snapshot(now=START)
    assert snapshot.unsettled == frozenset()
    assert audit(snapshot) == []
    assert JobState.WAITING not in await engine.states([f"w{number}" for number in range(35)])


async def test_an_override_that_ends_is_acted_on_in_slices(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headgate.engine.sqlite.transaction.SLICE", 10)
    await crowd(engine, 35)
    await engine.override(Override("A", 0, at=START, until=START + SECOND), now=START)
    assert (await engine.snapshot(now=START)).unsettled == frozenset()
    await engine.declare([Limit("A", "concurrency", 2)], now=START)
    swept = await engine.sweep(now=START + SECOND)
    assert swept.more
    while swept.more:
        swept = await engine.sweep(now=START + SECOND)
    assert JobState.WAITING not in await engine.states([f"w{number}" for number in range(35)])


async def test_lowering_a_limit_costs_the_same_whatever_waits_for_it(open_engine: OpenEngine):
    path = (await open_engine()).path
    few, many = await open_engine(at=f"{path}.few"), await open_engine()
    await crowd(few, FEW)
    await crowd(many, MANY)

    async def lower(engine: SqliteEngine) -> None:
        await engine.override(Override("A", 0, at=START), now=START)
        await engine.declare([Limit("A", "concurrency", 3)], now=START)

    assert await instructions(many, lower) <= await instructions(few, lower) * 1.05 + 20
    assert (await many.snapshot(now=START)).unsettled == frozenset()


async def test_the_first_page_of_limits_counts_no_further_than_it_must(open_engine: OpenEngine):
    path = (await open_engine()).path
    few, many = await open_engine(at=f"{path}.few"), await open_engine()
    await crowd(few, COUNTED_MOST - 1)
    await crowd(many, MANY)
    exact, bound = (
        (await few.limits("A", limit=1, now=START))[0],
        (await many.limits("A", limit=1, now=START))[0],
    )
    assert (exact.exact, exact.held, exact.waiting) == (True, COUNTED_MOST - 1, COUNTED_MOST - 1)
    assert (bound.exact, bound.held, bound.waiting) == (False, COUNTED_MOST, COUNTED_MOST)
    assert (await many.limits("A", now=START))[0].held == MANY
    await few.enqueue([job(f"more{number}", key(7)) for number in range(COUNTED_MOST)], now=START)
    one = (await few.limits("A", after=("A", "A=00006", ""), limit=1, now=START))[0]
    assert (one.key, one.exact, one.held, one.waiting) == ("A=00007", False, 1, COUNTED_MOST)


async def test_numbers_computed_for_idle_keys_are_forgotten(engine: SqliteEngine):
    await crowd(engine, 5)
    await engine.enqueue([job("user", Key("F", "3").ident)], now=START)
    await engine.exchange("w", [], 10, now=START)
    await engine.sweep(now=START + KEEP_NUMBERS - 1)
    assert len(await engine.limits("F", now=START)) == 6
    await engine.sweep(now=START + KEEP_NUMBERS)
    assert [status.key for status in await engine.limits("F", now=START)] == ["F", "F=3"]


async def test_meters_and_starts_of_ever_new_keys_are_forgotten_as_fast_as_they_come(engine: SqliteEngine):
    await engine.declare(
        [Limit("R", "rate", 1, SECOND), Limit("W", "rate", 1, SECOND, algorithm="sliding_window")], now=START
    )
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)
    for first in range(0, 3000, 500):
        uses = [
            (Use(Key("R", str(n), rate=True).ident), Use(Key("W", str(n), rate=True).ident))
            for n in range(first, first + 500)
        ]
        await engine.enqueue(
            [NewJob(f"j{first + n}", "t", uses=use) for n, use in enumerate(uses)], now=START
        )
        answer = await engine.exchange("w", [], 500, now=START)
        assert len(answer.attempts) == 500
    sweeps = 1
    while (await engine.sweep(now=START + 2 * SECOND)).more:
        sweeps += 1
    assert sweeps <= 4
    connection = engine._file._writer.connection  # type: ignore[union-attr]
    assert connection.execute("SELECT (SELECT count(*) FROM meters) + (SELECT count(*) FROM starts)").get == 0
