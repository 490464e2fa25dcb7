"""Changes of limits: what is looked at because of them, and by which process."""

from __future__ import annotations

import asyncio

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, Limit, LimitKind, Override, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.postgres import engine as verbs
from headgate.engine.postgres.rows import declared
from headgate.engine.postgres.scripts import quoted
from headgate.engine.rules.audit import audit
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.postgres.conftest import OpenEngine
from tests.support.postgres_server import PostgresProcess

KEYS = 450
"""Keys of one limit: three slices."""


class Noted:
    """Calls what changes numbers, without following the change, and tells what was noted to be followed."""

    def __init__(self, engine: PostgresEngine, process: PostgresProcess, schema: str) -> None:
        self.engine = engine
        self.process = process
        self.schema = schema

    async def override(self, max: int | None, value: str | None = None, tenant: str | None = None,
                       *, name: str = "A", clear: bool = False) -> set[str]:  # fmt: skip
        await self.engine._store.call(
            "override", name, value, tenant, max, "me", 0, "", None, clear, None, 10 * SECOND, None
        )
        return self.taken()

    async def declare(
        self, max: int | None, name: str = "A", kind: LimitKind = "concurrency", period: int = 0
    ) -> set[str]:
        limit = declared([Limit(name, kind, max, period)])
        await self.engine._store.call("declare", limit, None, 10 * SECOND, None)
        return self.taken()

    def taken(self) -> set[str]:
        rows = self.process.execute(f"DELETE FROM {quoted(self.schema)}.changes RETURNING name")
        return {name for (name,) in rows}


@pytest.fixture
def noted(engine: PostgresEngine, process: PostgresProcess, schema: str) -> Noted:
    return Noted(engine, process, schema)


async def test_only_numbers_that_may_leave_room_are_followed(noted: Noted) -> None:
    assert await noted.declare(2) == set(), "nothing waited on a limit that was not there"
    assert await noted.declare(3) == {"A"}
    assert await noted.declare(1) == set()
    assert await noted.declare(None) == {"A"}
    assert await noted.declare(5) == set()
    assert await noted.override(4) == set()
    assert await noted.override(5) == {"A"}
    assert await noted.override(5) == set()
    assert await noted.override(None) == {"A"}
    assert await noted.override(6) == set()
    assert await noted.override(None, clear=True) == set(), "from 6 to the 5 that are declared"
    await noted.override(0)
    assert await noted.override(None, clear=True) == {"A"}


async def test_rates_and_what_was_computed_are_followed_also_downwards(noted: Noted) -> None:
    """A smaller rate may leave more tokens in a bucket, and what a key had before is not known of the name."""
    await noted.declare(10, "R", "rate", 60 * SECOND)
    assert await noted.declare(5, "R", "rate", 60 * SECOND) == {"R"}
    assert await noted.override(3, name="R") == {"R"}
    assert await noted.override(2, name="R") == {"R"}
    await noted.declare(10, "F", "floating")
    assert await noted.override(5, name="F") == {"F"}
    assert await noted.override(4, name="F") == set()
    assert await noted.override(None, name="F", clear=True) == {"F"}


async def test_an_override_of_a_key_or_a_tenant_concerns_no_other(noted: Noted) -> None:
    await noted.declare(1)
    assert await noted.override(0, "42") == {"A=42"}, "the tenant's number may have been smaller"
    assert await noted.override(0, "42") == set()
    assert await noted.override(1, "42") == {"A=42"}
    assert await noted.override(None, "42", clear=True) == {"A=42"}
    assert await noted.override(0, None, "acme") == {"A"}


async def test_a_key_of_every_tenant_is_offered_what_an_override_gives_it(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.register(Worker("w", frozenset({"t"})))
    keys = [Key("A", value, tenant).ident for value in ("1", "10", "2") for tenant in ("", "acme")]
    await engine.enqueue([NewJob(key, "t", uses=(Use(key),)) for key in keys])
    while (await engine.sweep()).more:
        pass
    await engine.override(Override("A", 1, "1"))
    ready = await engine.find(Filter(states=(JobState.READY,)))
    assert {job.id for job in ready} == {Key("A", "1", tenant).ident for tenant in ("", "acme")}
    assert audit(await engine.snapshot()) == []


async def test_what_runs_out_in_time_is_followed(engine: PostgresEngine) -> None:
    now = 1_000 * SECOND
    await engine.declare([Limit("A", "concurrency", 1)], now=now)
    await engine.override(Override("A", 0, "1", until=now + SECOND), now=now)
    await engine.override(Override("A", 0, "2"), now=now)
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(f"c0:A={n}"),)) for n in (1, 2)], now=now)
    await engine.sweep(now=now)
    assert await engine.states(["j1", "j2"]) == [JobState.WAITING] * 2
    await engine.sweep(now=now + 2 * SECOND)
    assert await engine.states(["j1", "j2"]) == [JobState.READY, JobState.WAITING]


# ── many keys ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def parked(open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch) -> PostgresEngine:
    """An engine that looks at one slice at a time, and a job that waits on each of many keys."""
    engine = await open_engine()
    await engine.declare([Limit("A", "concurrency", 0)])
    await engine.enqueue([NewJob(f"j{n}", "t", uses=(Use(f"c0:A={n}"),)) for n in range(KEYS)])
    while (await engine.sweep()).more:
        pass
    monkeypatch.setattr(verbs, "FOLLOWED_AT_ONCE", 1)
    return engine


async def ready(engine: PostgresEngine) -> int:
    return await engine.count(Filter(states=(JobState.READY,)))


async def test_a_change_goes_on_behind_the_callers_back(parked: PostgresEngine) -> None:
    await parked.override(Override("A", 1))
    assert 0 < await ready(parked) < KEYS
    assert audit(await parked.snapshot()) == [], "what is yet to be looked at is no defect"
    after = None
    while (slice := await parked.recheck(after)).after is not None:
        assert slice.healed == (), "nor is it one for a recheck"
        after = slice.after
    async with asyncio.timeout(10):
        while parked._store._going_on:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await ready(parked) == KEYS


async def test_sweeps_carry_a_change_on_whose_process_ended(
    parked: PostgresEngine, open_engine: OpenEngine
) -> None:
    await parked.override(Override("A", 1))
    await parked.close()
    other = await open_engine()
    assert 0 < await ready(other) < KEYS
    first = await other.sweep()
    assert first.more, "one slice, and there are more"
    assert first.offered == 200
    while (await other.sweep()).more:
        pass
    assert await ready(other) == KEYS
    assert audit(await other.snapshot()) == []
