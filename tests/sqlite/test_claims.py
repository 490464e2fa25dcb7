"""What a process remembers of the jobs it claimed: a short cut to their rows, never a way around the fence."""

from __future__ import annotations

from headgate.engine.contract import Failed, Succeeded, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.engine.sqlite.transaction import Claims
from headgate.job import JobState, NewJob
from tests.sqlite.conftest import OpenEngine

WORKER = Worker("w", frozenset({"t"}))


def remembered(engine: SqliteEngine, worker: str = "w") -> Claims:
    return own.claims if (own := engine._own.get(worker)) else {}


async def claimed(engine: SqliteEngine, *ids: str) -> None:
    await engine.register(WORKER)
    await engine.enqueue([NewJob(id, "t") for id in ids])
    assert [attempt.job for attempt in (await engine.exchange("w", [], 10)).attempts] == [*ids]


async def test_a_claim_is_forgotten_however_its_attempt_ends(engine: SqliteEngine):
    await claimed(engine, "good", "bad")
    assert {*remembered(engine)} == {"good", "bad"}
    await engine.exchange("w", [Succeeded("good", 1), Failed("bad", 1, "boom")], 0)
    assert remembered(engine) == {}


async def test_the_number_of_a_row_alone_does_not_pass_the_fence(engine: SqliteEngine):
    await claimed(engine, "new")
    remembered(engine)["old"] = remembered(engine)["new"]  # "old" was deleted, and its number given to "new"
    answer = await engine.exchange("w", [Succeeded("old", 1, '"late"')], 0)
    assert answer.refused == (("old", 1),)
    assert await engine.states(["new"]) == [JobState.RUNNING]


async def test_claims_under_a_lease_that_is_over_are_forgotten(open_engine: OpenEngine):
    engine = await open_engine()
    await claimed(engine, "one")
    later = (await engine.clock()) + 3600_000_000
    while (await engine.sweep(now=later)).more:
        pass
    await engine.register(Worker("another", frozenset({"t"})), now=later)
    assert remembered(engine) == {}
