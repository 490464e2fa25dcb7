"""Flow control in a file: older files, work in slices, what another process is told, what a step costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.clock import SECOND
from headgate.engine.contract import (
    Limit,
    Override,
    Released,
    Settings,
    ShareWeight,
    Snoozed,
    Succeeded,
    Throttled,
    Worker,
)
from headgate.engine.rules.shares import moved, step_of
from headgate.engine.sqlite import SqliteEngine, sharing, transaction
from headgate.engine.sqlite.migrate import APPLICATION_ID, migrations
from headgate.errors import BacklogFull
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.sqlite.conftest import OpenEngine
from tests.sqlite.test_cost import instructions

START = 1_700_000_000 * SECOND
A, F, R = Key("A").ident, Key("F", "1").ident, Key("R", rate=True).ident


def job(id: str, *uses: Use, **fields: Any) -> NewJob:
    return NewJob(id=id, task="t", uses=uses, **fields)


async def registered(engine: SqliteEngine) -> None:
    await engine.register(Worker("w", frozenset({"t"}), lease=10**6 * SECOND), now=START)


# ── a file of the version before ─────────────────────────────────────────────────────────────────────────────────────

OLD = (
    "INSERT INTO limits (name, kind, max, period, algorithm) VALUES ('A', 'concurrency', 1, 0, 'token_bucket')",
    "INSERT INTO limits (name, kind, max, period, algorithm) VALUES ('F', 'floating', 1, 0, 'token_bucket')",
    "INSERT INTO limits (name, kind, max, period, algorithm) VALUES ('R', 'rate', 1, 60000000, 'token_bucket')",
    f"INSERT INTO computed (key, max, at) VALUES ('{F}', 7, {START})",
    f"INSERT INTO meters (key, full_at) VALUES ('{R}', {START + 60 * SECOND})",
    "INSERT INTO workers VALUES ('w', '[\"t\"]', NULL, 0, '', 1, 5, 1, 4000000000000000, 0, '[]')",
    f"INSERT INTO holders (key, job, since, reserved) VALUES ('{A}', 1, {START}, 0)",
)
OLD_JOB = (
    "INSERT INTO jobs (seq, id, task, queue, tenant, priority, due, state, enqueued_at, args, retry, uses, unique_key, "
    "waiting_on, units, refusals, attempt, tries, worker, started_at, ended_at, outcome, expires_at) "
    "VALUES (?, ?, 't', 'q', '', 50, 1, ?, 1, '{}', '[3,1000000,2.0,5,0.0]', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def old_file(path: Path, version: int = 3) -> None:
    """A job runs, one waits for it, one has ended; two of them are unique."""
    old = apsw.Connection(str(path))
    old.execute("PRAGMA journal_mode = WAL")
    for script in migrations()[:version]:
        old.execute(script)
    for statement in OLD:
        old.execute(statement)
    uses = f'[["{A}",1]]'
    for row in (
        (1, "runs", "running", uses, "u1", None, 0, None, 1, 1, "w", START, None, None, None),
        (2, "waits", "waiting", uses, None, A, 1, 0, 0, 0, None, None, None, None, None),
        (3, "ended", "succeeded", uses, "u2", None, 0, None, 1, 1, "w", START, START, "succeeded", START * 2),
    ):
        old.execute(OLD_JOB, row)
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute(f"PRAGMA user_version = {version}")
    old.close()


async def test_a_file_of_the_version_before_keeps_all_that_it_holds(path: Path, open_engine: OpenEngine):
    old_file(path)
    engine = await open_engine()
    assert await engine.migrate() == (4, 4)
    states = {one.key: (one.held, one.waiting, one.max) for one in await engine.limits(now=START)}
    assert states["A"] == (1, 1, 1)
    assert states["F=1"] == (0, 0, 7), "what was computed is still in force"
    (limit,) = await engine.limits("R", now=START)
    assert limit.tokens == 0
    assert [found.id for found in await engine.enqueue([job("new", unique="u1")], now=START)] == ["runs"]
    (stored,) = await engine.enqueue([job("again", unique="u2", queue="other")], now=START)
    assert stored.created, "the unique key of a job that has ended is free"
    answer = await engine.exchange("w", [Succeeded("runs", 1)], 1, ["q"], now=START)
    assert [attempt.job for attempt in answer.attempts] == ["waits"]
    (stored,) = await engine.enqueue([job("next", unique="u1")], now=START)
    assert stored.created


# ── shares ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def tag_of_newcomer(engine: SqliteEngine) -> int:
    await engine.enqueue([job("new", share="other")], now=START)
    (found,) = await engine.get(["new"])
    assert found is not None
    return found.tag


async def test_a_job_that_comes_back_does_not_turn_its_queues_time_back(engine: SqliteEngine):
    await registered(engine)
    await engine.enqueue([job("j1", share="s"), job("j2", share="s")], now=START)
    await engine.exchange("w", [], 2, now=START)
    await engine.exchange("w", [Released("j1", 1)], 0, now=START)
    await engine.exchange("w", [], 1, now=START)
    assert await tag_of_newcomer(engine) == 3 * step_of(1)


async def test_a_queues_time_is_kept_while_a_job_of_a_share_runs(engine: SqliteEngine):
    await registered(engine)
    await engine.enqueue([job("j1", share="s"), job("j2", share="s")], now=START)
    await engine.exchange("w", [], 2, now=START)
    await engine.exchange("w", [Succeeded("j2", 1)], 0, now=START)
    await engine.sweep(now=START)
    assert await tag_of_newcomer(engine) == 3 * step_of(1)


async def test_several_waiters_are_offered_in_the_order_of_their_tags(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    await registered(engine)
    for id in ("s1", "s2", "s3", "t1"):
        await engine.enqueue([job(id, Use(A), share=id[0])], now=START)
    await engine.override(Override("A", 2, by="test", at=START), now=START)
    answer = await engine.exchange("w", [], 5, now=START)
    assert {attempt.job for attempt in answer.attempts} == {"s1", "t1"}


# ── work in slices ───────────────────────────────────────────────────────────────────────────────────────────────────


async def tags(engine: SqliteEngine) -> list[int]:
    """The tags of all pending jobs, in the order of their arrival."""
    snapshot = await engine.snapshot(now=START)
    return [one.tag for one in snapshot.jobs if one.state is not JobState.RUNNING]


async def sweep_all(engine: SqliteEngine) -> int:
    """Sweep until nothing is left to do; returns how often."""
    count = 1
    while (await engine.sweep(now=START)).more:
        count += 1
    return count


@pytest.mark.parametrize("weights", [[3.0], [0.4], [3.0, 0.4], [0.4, 7.0]])
async def test_many_jobs_of_a_share_are_tagged_anew_in_slices(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, weights: list[float]
):
    monkeypatch.setattr(sharing, "SLICE", 10)
    await registered(engine)
    await engine.enqueue([job(f"j{n}", share="s") for n in range(35)], now=START)
    await engine.enqueue([job(f"k{n}", share="other", priority=60) for n in range(5)], now=START)
    await engine.exchange("w", [], 3, now=START)
    virtual, expected = 3 * step_of(1), await tags(engine)
    for before, weight in zip([1.0, *weights], weights, strict=False):
        await engine.set_share(ShareWeight("s", weight), now=START)
        steps = step_of(before), step_of(weight)
        expected = [moved(tag, virtual, *steps) for tag in expected[:32]] + expected[32:]
    assert await tags(engine) != expected
    assert (await engine.sweep(now=START)).next_due == 0, "there is more to do at once"
    await sweep_all(engine)
    assert await tags(engine) == expected
    assert (await engine.sweep(now=START)).next_due != 0


async def test_a_step_that_changes_again_and_again_leaves_no_more_to_do(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sharing, "SLICE", 10)
    await engine.enqueue([job(f"j{n}", share="s") for n in range(35)], now=START)
    expected = await tags(engine)
    for weight in (3.0, 0.5, 7.0, 2.0):
        await engine.set_share(ShareWeight("s", weight), now=START)
    for before, weight in ((1.0, 3.0), (3.0, 2.0)):
        expected = [moved(tag, 0, step_of(before), step_of(weight)) for tag in expected]
    assert await sweep_all(engine) < 10
    assert await tags(engine) == expected
    for weight in (1.0, 5.0, 1.0):  # the last change takes the one before it back
        await engine.set_share(ShareWeight("s", weight), now=START)
    await sweep_all(engine)
    assert await tags(engine) == [moved(tag, 0, step_of(2.0), step_of(1.0)) for tag in expected]


@pytest.mark.parametrize("weight", [3.0, 0.4])
async def test_newcomers_stand_behind_their_share_while_it_is_tagged_anew(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, weight: float
):
    monkeypatch.setattr(sharing, "SLICE", 10)
    await registered(engine)
    await engine.enqueue([job(f"j{n}", share="s") for n in range(35)], now=START)
    await engine.set_share(ShareWeight("s", weight), now=START)
    for n in range(35, 40):
        await engine.enqueue([job(f"j{n}", share="s")], now=START)
        await engine.sweep(now=START)
    await sweep_all(engine)
    found = await tags(engine)
    assert found == sorted(found)
    answer = await engine.exchange("w", [], 100, now=START)
    assert [attempt.job for attempt in answer.attempts] == [f"j{n}" for n in range(40)]


async def test_the_backlog_of_a_queue_that_is_bounded_later_is_found_in_slices(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transaction, "MARKED", 10)
    await registered(engine)
    await engine.enqueue([job(f"j{n}", queue="q") for n in range(35)], now=START)
    await engine.declare([Limit("queue:q", "concurrency", None, max_waiting=30)], now=START)
    assert await sweep_all(engine) > 1
    with pytest.raises(BacklogFull):
        await engine.enqueue([job("more", queue="q")], now=START)
    await engine.exchange("w", [], 6, now=START)
    await engine.enqueue([job("more", queue="q")], now=START)
    with pytest.raises(BacklogFull):
        await engine.enqueue([job("too many", queue="q")], now=START)


async def test_batches_are_counted_as_they_come(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 1, max_waiting=3, on_overflow="drop_oldest")], now=START)
    await engine.enqueue([job(f"j{n}", Use(A)) for n in range(8)], now=START)
    (status,) = await engine.limits("A", now=START)
    assert status.waiting == 3
    found = await engine.states([f"j{n}" for n in range(8)])
    assert [n for n, state in enumerate(found) if state is JobState.WAITING] == [5, 6, 7]


async def test_the_least_urgent_of_all_queues_leaves_first(engine: SqliteEngine):
    await engine.declare([Limit("A", "concurrency", 0, max_waiting=3, on_overflow="drop_oldest")], now=START)

    async def comes(id: str, queue: str, priority: int) -> None:
        await engine.enqueue([job(id, Use(A), queue=queue, priority=priority)], now=START)

    await comes("urgent", "one", 10)
    await comes("last", "one", 60)
    await comes("later", "two", 70)
    await comes("new", "one", 70)
    assert await engine.states(["later", "last"]) == [JobState.CANCELLED, JobState.WAITING]
    await comes("newer", "one", 60)
    assert await engine.states(["new", "last", "urgent"]) == [
        JobState.CANCELLED,
        JobState.WAITING,
        JobState.WAITING,
    ]
    await comes("newest", "two", 60)
    assert await engine.states(["last", "newer", "newest"]) == [
        JobState.CANCELLED,
        JobState.WAITING,
        JobState.WAITING,
    ]


async def test_the_least_urgent_of_a_full_queue_leaves_first(engine: SqliteEngine):
    bound = Limit("queue:q", "concurrency", None, max_waiting=3, on_overflow="drop_oldest")
    await engine.declare([bound], now=START)
    for id, priority in (("urgent", 10), ("last", 60), ("later", 60), ("new", 50)):
        await engine.enqueue([job(id, queue="q", priority=priority)], now=START)
    found = await engine.states(["urgent", "last", "later", "new"])
    assert found == [JobState.READY, JobState.CANCELLED, JobState.READY, JobState.READY]


async def test_a_job_that_is_replaced_makes_room_in_its_batch(engine: SqliteEngine):
    await engine.declare([Limit("queue:q", "concurrency", None, max_waiting=2)], now=START)
    await engine.enqueue([job("old", queue="q", unique="u")], now=START)
    batch = [job("first", queue="q"), job("new", queue="q", unique="u", on_conflict="replace")]
    await engine.enqueue(batch, now=START)
    assert await engine.states(["old", "first", "new"]) == [
        JobState.CANCELLED,
        JobState.READY,
        JobState.READY,
    ]


async def test_a_reservation_of_all_units_is_enough_to_start(open_engine: OpenEngine):
    engine = await open_engine(Settings(patience=1))
    needs = {"A": Use(A, 2), "B": Use(Key("B").ident)}
    limits = [Limit("A", "concurrency", 2, sized=True), Limit("B", "concurrency", 1)]
    await engine.declare(limits, now=START)
    await registered(engine)
    await engine.enqueue([job("A0", needs["A"]), job("B0", needs["B"])], now=START)
    await engine.exchange("w", [], 2, now=START)
    await engine.enqueue([job("both", *needs.values())], now=START)
    assert (await engine.exchange("w", [Succeeded("A0", 1)], 5, now=START)).attempts == ()
    (status,) = await engine.limits("A", now=START)
    assert status.held == 2, "it keeps what it was offered while B refuses it"
    await engine.enqueue([job("A1", needs["A"], priority=0)], now=START)
    (attempt,) = (await engine.exchange("w", [Succeeded("B0", 1)], 5, now=START)).attempts
    assert attempt.job == "both", "what is more urgent comes too late"


# ── what other processes are told ────────────────────────────────────────────────────────────────────────────────────


async def test_another_process_sees_gates_numbers_and_weights(open_engine: OpenEngine):
    one, other = await open_engine(), await open_engine()
    await one.declare([Limit("A", "concurrency", 5), Limit("F", "floating", 1)], now=START)
    await registered(one)
    await other.enqueue([job("j1", Use(A)), job("j2", Use(A))], now=START)
    await one.exchange("w", [], 1, now=START)
    await other.compute(F, 4, now=START)
    assert [status.max for status in await one.limits("F", now=START)] == [1, 4]
    await other.set_share(ShareWeight("s", 4.0), now=START)
    (share,) = await one.shares()
    assert share.weight == 4.0
    await one.exchange("w", [Throttled("j1", 1, 10 * SECOND, "A")], 0, now=START)
    answer = await other.exchange("w", [], 5, now=START)
    assert answer.attempts == (), "the key is closed"
    (status,) = await other.limits("A", now=START)
    assert status.opens_at == START + 10 * SECOND
    await other.sweep(now=START + 10 * SECOND)
    assert len((await one.exchange("w", [], 5, now=START + 10 * SECOND)).attempts) == 1


async def test_what_is_refused_leaves_no_gate_and_no_tag_behind(engine: SqliteEngine):
    """A call that raises is undone whole, also what the rule book has heard of it."""
    await engine.declare([Limit("A", "concurrency", 1, max_waiting=1)], now=START)
    await registered(engine)
    await engine.enqueue([job("j0", Use(A), share="s")], now=START)
    await engine.exchange("w", [], 1, now=START)
    await engine.enqueue([job("j1", Use(A), share="s")], now=START)
    with pytest.raises(BacklogFull):
        await engine.enqueue([job("x", share="s"), job("y", Use(A), share="s")], now=START)
    assert await engine.states(["x", "y"]) == [None, None]
    await engine.enqueue([job("j2", share="s")], now=START)
    (found,) = await engine.get(["j2"])
    assert found is not None
    assert found.tag == 3 * step_of(1)


# ── jobs that are claimed by one process and end in another ──────────────────────────────────────────────────────────


async def test_a_unique_key_is_kept_for_its_time_wherever_the_attempt_ends(open_engine: OpenEngine):
    one, other = await open_engine(), await open_engine()
    await registered(one)
    await one.enqueue([job("j", unique="u", unique_for=60 * SECOND), job("plain")], now=START)
    claimed = (await one.exchange("w", [], 5, now=START)).attempts
    await other.exchange("w", [Succeeded(attempt.job, 1) for attempt in claimed], 0, now=START + SECOND)
    assert await one.states(["j", "plain"]) == [JobState.SUCCEEDED] * 2
    late = START + 59 * SECOND
    assert not (await one.enqueue([job("k", unique="u")], now=late))[0].created
    assert (await other.enqueue([job("k", unique="u")], now=late + SECOND))[0].created


async def test_a_second_attempt_does_not_keep_the_unique_key_longer(engine: SqliteEngine):
    await registered(engine)
    await engine.enqueue([job("j", unique="u", unique_for=60 * SECOND)], now=START)
    await engine.exchange("w", [], 1, now=START)
    again = START + 10 * SECOND
    await engine.exchange("w", [Snoozed("j", 1, 10 * SECOND)], 0, now=START)
    await engine.sweep(now=again)
    await engine.exchange("w", [], 1, now=again)
    await engine.exchange("w", [Succeeded("j", 2)], 0, now=again)
    assert not (await engine.enqueue([job("k", unique="u")], now=START + 59 * SECOND))[0].created
    assert (await engine.enqueue([job("k", unique="u")], now=START + 60 * SECOND))[0].created


async def test_a_job_that_updates_gives_its_key_free_when_it_starts(engine: SqliteEngine):
    await registered(engine)
    await engine.enqueue([job("j", unique="u", on_conflict="update")], now=START)
    await engine.exchange("w", [], 1, now=START)
    (second,) = await engine.enqueue([job("k", unique="u", on_conflict="update")], now=START)
    assert second.created
    await engine.exchange("w", [Snoozed("j", 1, SECOND)], 0, now=START)
    assert await engine.states(["j", "k"]) == [JobState.SCHEDULED, JobState.READY]


# ── what a step costs ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["share", "start_by", "backlog"])
async def test_a_newcomer_costs_the_same_however_many_stand_in_its_lines(
    open_engine: OpenEngine, tmp_path: Path, what: str
):
    fields: dict[str, Any] = {"share": {"share": "s"}, "start_by": {"start_by": START * 2}, "backlog": {}}[
        what
    ]
    costs: list[int] = []
    for count in (100, 2000):
        engine = await open_engine(at=tmp_path / f"{count}.db")
        if what == "backlog":
            bound = Limit(
                "queue:default", "concurrency", None, max_waiting=count + 50, on_overflow="drop_oldest"
            )
            await engine.declare([bound], now=START)
        await engine.enqueue([job(f"j{n}", **fields) for n in range(count)], now=START)

        async def enqueue_one(engine: SqliteEngine) -> None:
            await engine.enqueue([job("new", **fields)], now=START)

        costs.append(await instructions(engine, enqueue_one))
    if what == "backlog":  # it counts as far as it may: the bound is what it costs
        assert costs[1] < costs[0] + 2000 * 20
    else:
        assert costs[1] < costs[0] * 1.3
