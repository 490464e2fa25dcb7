"""A stored row that cannot be read ends as failed, gives back what it holds, can be deleted, and disturbs no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, ImportedJob, Limit, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres.scripts import quoted
from headgate.engine.rules.audit import audit
from headgate.errors import JobExists
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.support.postgres_server import PostgresProcess

A = (Use(Key("A").ident),)
NOW = 1_000 * SECOND
Garble = Callable[[str, str], None]

GARBLED = {
    "a retry policy that is no JSON": "UPDATE SCHEMA.jobs SET retry = 'nonsense' WHERE id = 'bad'",
    "a retry policy of another shape": "UPDATE SCHEMA.jobs SET retry = '{\"a\": 1}' WHERE id = 'bad'",
    "a key that is no ident": "UPDATE SCHEMA.live SET use_keys = '{nonsense}' WHERE priority = 10",
    "fewer units than keys": "UPDATE SCHEMA.live SET use_units = '{}' WHERE priority = 10",
}


@pytest.mark.parametrize("what", GARBLED)
@pytest.mark.parametrize("delay", [0, SECOND])
async def test_a_job_that_cannot_be_read_fails_and_disturbs_no_other(
    engine: PostgresEngine, process: PostgresProcess, schema: str, what: str, delay: int
) -> None:
    now = 1_000 * SECOND
    await engine.declare([Limit("A", "concurrency", 1)], now=now)
    await engine.register(Worker("w", frozenset({"t"}), lease=600 * SECOND), now=now)
    await engine.enqueue([NewJob("bad", "t", uses=A, priority=10, delay=delay)], now=now)
    await engine.enqueue([NewJob("good", "t", uses=A, delay=delay)], now=now)
    process.execute(GARBLED[what].replace("SCHEMA", quoted(schema)))
    now += 2 * SECOND
    await engine.sweep(now=now)
    assert [job.id for job in await engine.find(Filter())] == ["good", "bad"]
    assert audit(await engine.snapshot(now=now)) is not None
    ran: list[str] = []
    for number in range(1, 4):
        answer = await engine.exchange("w", [], 5, number=number, now=now)
        ran += [attempt.job for attempt in answer.attempts]
    assert ran == ["good"]
    (bad,) = await engine.get(["bad"])
    assert bad is not None
    assert bad.state is JobState.FAILED
    assert "cannot be read" in (bad.error or "")
    assert [status.held for status in await engine.limits(now=now)] == [1]
    assert [verdict.done for verdict in await engine.delete(["bad"], now=now)] == [True]
    await engine.exchange("w", [Succeeded("good", 1)], 0, now=now)
    assert audit(await engine.snapshot(now=now)) == []


async def test_a_job_whose_policy_cannot_be_read_fails_when_its_worker_is_lost(
    engine: PostgresEngine, process: PostgresProcess, schema: str
) -> None:
    await engine.register(Worker("w", frozenset({"t"})))
    await engine.enqueue([NewJob("bad", "t"), NewJob("good", "t")])
    await engine.exchange("w", [], 2)
    process.execute(
        f"UPDATE {quoted(schema).replace('%', '%%')}.jobs SET retry = 'nonsense' WHERE id = %s", "bad"
    )
    lost = await engine.report_lost(["w"])
    assert [job.id for job in lost.failed] == ["bad"]
    assert await engine.states(["bad", "good"]) == [JobState.FAILED, JobState.READY]


# ── a state that is none ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def store(engine: PostgresEngine) -> PostgresEngine:
    await engine.declare([Limit("A", "concurrency", 1)], now=NOW)
    await engine.register(Worker("w", frozenset({"t"}), lease=600 * SECOND), now=NOW)
    return engine


@pytest.fixture
def garble(process: PostgresProcess, schema: str) -> Garble:
    """Puts another text into a column of the job `bad`; in `live`, unless the table is named with it."""

    def put(column: str, text: str) -> None:
        table, _, name = column.rpartition(".")
        where = f"(SELECT seq FROM {quoted(schema)}.jobs WHERE id = 'bad')".replace("%", "%%")
        target = f"{quoted(schema)}.{table or 'live'}".replace("%", "%%")
        process.execute(f"UPDATE {target} SET {name} = %s WHERE seq = {where}", text)

    return put


async def check_failed(engine: PostgresEngine) -> None:
    """The job is shown as failed with the reason, by every way to look, and can be deleted."""
    (bad,) = await engine.get(["bad"])
    assert bad is not None
    assert bad.state is JobState.FAILED
    assert "cannot be read" in (bad.error or "")
    assert await engine.states(["bad"]) == [JobState.FAILED]
    assert "bad" in [job.id for job in await engine.find(Filter())]
    assert await engine.explain("bad", now=NOW) is not None


async def check_gone(engine: PostgresEngine) -> None:
    assert [verdict.done for verdict in await engine.delete(["bad"], now=NOW)] == [True]
    assert await engine.states(["bad"]) == [None]
    assert audit(await engine.snapshot(now=NOW)) == []


async def test_looking_shows_it_as_failed_and_changes_nothing(store: PostgresEngine, garble: Garble) -> None:
    await store.enqueue([NewJob("bad", "t", uses=A, unique="u"), NewJob("good", "t", uses=A)], now=NOW)
    await store.exchange("w", [], 1, number=1, now=NOW)
    garble("state", "dancing")
    await check_failed(store)
    assert [status.held for status in await store.limits(now=NOW)] == [1], "nothing was given back by looking"
    assert [queue.name for queue in await store.queues()] == ["default"]
    await store.snapshot(now=NOW)
    with pytest.raises(JobExists, match="bad"):
        await store.enqueue([NewJob("new", "t", unique="u", on_conflict="raise")], now=NOW)
    record = ImportedJob(NewJob("bad", "t"), ())
    (refused,) = await store.import_jobs([record], now=NOW)
    assert "cannot be read" in (refused.refused or "")


async def test_a_recheck_ends_it_and_says_so(store: PostgresEngine, garble: Garble) -> None:
    await store.enqueue([NewJob("bad", "t", uses=A), NewJob("good", "t", uses=A)], now=NOW)
    await store.exchange("w", [], 1, number=1, now=NOW)
    garble("state", "dancing")
    (healed,) = (await store.recheck(now=NOW)).healed
    assert healed == "job 'bad' cannot be read (its state: 'dancing'): it failed"
    assert await store.states(["good"]) == [JobState.READY], "what it held was offered"
    assert (await store.exchange("w", [Succeeded("bad", 1)], 0, number=2, now=NOW)).refused == (("bad", 1),)
    await check_failed(store)
    await check_gone(store)
    assert (await store.recheck(now=NOW)).healed == ()


async def test_one_that_was_offered_room_passes_it_on(store: PostgresEngine, garble: Garble) -> None:
    await store.enqueue([NewJob(id, "t", uses=A) for id in ("first", "bad", "good")], now=NOW)
    await store.exchange("w", [], 1, number=1, now=NOW)
    await store.exchange("w", [Succeeded("first", 1)], 0, number=2, now=NOW)
    assert await store.states(["bad", "good"]) == [JobState.READY, JobState.WAITING]
    garble("state", "")
    await store.recheck(now=NOW)
    assert await store.states(["bad", "good"]) == [JobState.FAILED, JobState.READY]
    await check_gone(store)


@pytest.mark.parametrize("verb", ["cancel", "expedite", "delete", "restart"])
async def test_steering_meets_it_too(store: PostgresEngine, garble: Garble, verb: str) -> None:
    await store.enqueue([NewJob("bad", "t", uses=A), NewJob("good", "t", uses=A)], now=NOW)
    await store.exchange("w", [], 1, number=1, now=NOW)
    garble("state", "dancing")
    (verdict,) = await getattr(store, verb)(["bad"], now=NOW)
    assert verdict.done == (verb in ("delete", "restart"))
    answer = await store.exchange("w", [], 5, number=2, now=NOW)
    assert [attempt.job for attempt in answer.attempts] == ["bad" if verb == "restart" else "good"]
    if verb == "restart":
        await store.exchange("w", [Succeeded("bad", 2)], 0, number=3, now=NOW)
    elif verb != "delete":
        await check_failed(store)
    await store.delete(["bad"], now=NOW)
    assert await store.states(["bad"]) == [None]
    assert audit(await store.snapshot(now=NOW)) == []


async def test_how_a_job_ended_may_be_garbled_too(store: PostgresEngine, garble: Garble) -> None:
    await store.enqueue([NewJob("bad", "t")], now=NOW)
    await store.exchange("w", [], 1, number=1, now=NOW)
    await store.exchange("w", [Succeeded("bad", 1, "7")], 0, number=2, now=NOW)
    garble("ended.state", "dancing")
    await check_failed(store)
    await check_gone(store)


@pytest.mark.parametrize("text", ["rubbish", "xx"])
async def test_a_key_that_is_waited_for_and_is_none_is_offered(
    store: PostgresEngine, garble: Garble, text: str
) -> None:
    await store.enqueue([NewJob("first", "t", uses=A), NewJob("bad", "t", uses=A)], now=NOW)
    await store.exchange("w", [], 5, number=1, now=NOW)
    garble("waiting_on", text)
    (bad,) = await store.get(["bad"])
    assert bad is not None
    assert bad.waiting_on is None
    assert "the key it waits on" in (bad.error or "")
    assert await store.limits(now=NOW) != []
    assert len((await store.recheck(now=NOW)).healed) == 1
    await store.exchange("w", [Succeeded("first", 1)], 0, number=2, now=NOW)
    answer = await store.exchange("w", [], 5, number=3, now=NOW)
    assert [attempt.job for attempt in answer.attempts] == ["bad"]
    await store.exchange("w", [Succeeded("bad", 1)], 0, number=4, now=NOW)
    assert audit(await store.snapshot(now=NOW)) == []
