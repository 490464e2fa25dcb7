"""Importing jobs with their history, record by record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest

from headgate import App, ConcurrencyLimit, ImportAttempt, ImportLimit, ImportRecord, ImportRetry, Retry
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def tasks(app: App) -> None:
    @app.task(retry=Retry(attempts=3, delay=60, jitter=0), queue="crm")
    async def sync(customer: Annotated[int, ConcurrencyLimit(1)]) -> int:
        return customer


def attempt(outcome: str, **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "started_at": START, "ended_at": START + timedelta(seconds=5), **more}


def record(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": id, "task": "sync", "args": {"customer": 1}, **more}


@pytest.mark.usefixtures("tasks")
async def test_jobs_come_in_with_their_history_and_obey_their_limits(app: App):
    results = await app.import_jobs(
        [
            record("new", enqueued_at="2026-01-01T10:00:00Z"),
            record("next", priority=9, tenant=None),
            record("done", attempts=[attempt("failed", error="boom"), attempt("succeeded")]),
            record("stopped", attempts=[attempt("cancelled")]),
            record("over", attempts=[attempt("failed")] * 3),
            record("again", attempts=[attempt("failed")]),
        ]
    )
    assert [result.refused for result in results] == [None] * 6
    assert [result.state for result in results][2:5] == ["succeeded", "cancelled", "failed"]
    assert [result.state for result in results][:2] == ["ready", "waiting"]
    info = await app.handle("done").info()
    assert [(past.number, past.outcome, past.error) for past in info.attempts] == [
        (1, "failed", "boom"),
        (2, "succeeded", None),
    ]
    assert info.queue == "crm"
    assert (await app.handle("new").info()).enqueued_at == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert (await app.handle("again").info()).attempt == 1


@pytest.mark.usefixtures("tasks")
async def test_records_may_be_objects(app: App, clock: Clock):
    past = ImportAttempt("failed", START, START)
    given = ImportRecord(
        id="a",
        task="sync",
        args={"customer": 1},
        attempts=(past,),
        retry=ImportRetry(attempts=9),
        at=clock.now(),
    )
    (result,) = await app.import_jobs([given])
    assert result.refused is None
    assert (await app.handle("a").info()).retry.attempts == 9


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"task": "sync"}, "missing required field `id`"),
        (record(""), "job id must be a non-empty"),
        (record(task="nobody"), "no task 'nobody'; it has: sync"),
        (record(args={"customer": "x"}), "Expected `int`, got `str`"),
        (record(args={"client": 1}), "has no parameter 'client'"),
        (record(args=[1]), "Expected `object`, got `array`"),
        (record(colour="red"), "unknown field `colour`"),
        (record(priority=500), "priority=500"),
        (record(at=datetime(2026, 1, 1)), "no time zone"),
        (record(enqueued_at="yesterday"), "Invalid RFC3339"),
        (record(attempts=[attempt("running")]), "Invalid enum value 'running'"),
        (
            record(attempts=[attempt("succeeded"), attempt("failed")]),
            "attempt 1 is succeeded, but another one follows",
        ),
        (record(attempts=[attempt("failed", number=2)]), "attempt 2 stands in place 1"),
        (record(attempts=[attempt("failed", ended_at=START - timedelta(1))]), "ends before it starts"),
        (record(attempts=[attempt("failed", started_at=datetime(2026, 1, 1))]), "no time zone"),
        (record(retry={"attempts": 0}), "attempts=0"),
        (record(retry={"losses": -1}), "losses=-1"),
        (record(limits={"name": "user"}), "Expected `array`, got `object`"),
        (record(limits=[5]), "Expected `object`, got `int`"),
        (record(limits=[{"max": 5}]), "missing required field `name`"),
        (record(limits=[{"name": "user"}]), "a concurrency limit needs max"),
        (record(limits=[{"name": "a=b", "max": 1}]), "contains '='"),
        (record(limits=[{"name": "user", "max": -1}]), "from 0 (closed)"),
        (record(limits=[{"name": "user", "max": 1, "per": 5}]), "per has no meaning for a concurrency limit"),
        (record(limits=[{"name": "user", "max": 1, "cost": 2}]), "above its maximum of 1"),
        (record(limits=[{"name": "api", "kind": "rate", "max": 1}]), "a rate needs per"),
        (
            record(limits=[{"name": "api", "kind": "rate", "max": 1, "per": 1, "cost": 2}]),
            "above its burst of 1",
        ),
        (
            record(limits=[{"name": "llm", "kind": "floating", "max": 1}]),
            "max has no meaning for a floating limit",
        ),
        (record(limits=[{"name": "llm", "kind": "floating"}]), "'llm' is not declared"),
        (
            record(limits=[{"name": "sync.customer", "max": 1, "max_waiting": 2}]),
            "twice with different values: 1 and 1 with max_waiting=2",
        ),
        (record(limits=[{"name": "user", "max": 1, "colour": 1}]), "unknown field `colour`"),
        (record(limits=[{"name": f"u{n}", "max": 1} for n in range(16)]), "would have 17 limits"),
        (5, "Expected `object`, got `int`"),
    ],
)
@pytest.mark.usefixtures("tasks")
async def test_a_bad_record_is_refused_alone(app: App, bad: Any, message: str):
    results = await app.import_jobs([record("x"), bad, record("y")])
    assert [result.refused is None for result in results] == [True, False, True]
    assert message in (results[1].refused or "")
    assert await app.count() == 2


@pytest.mark.usefixtures("tasks")
async def test_a_record_may_bring_limits_of_its_own(app: App):
    user = {"name": "user", "max": 1, "key": 123}
    results = await app.import_jobs(
        [
            record("a", limits=[user]),
            record("b", args={"customer": 2}, limits=[user, {"name": "closed", "max": 0, "key": True}]),
            record("c", args={"customer": 3}, limits=[{**user, "key": "{124}"}], tenant="acme"),
            record("d", args={"customer": 4}, limits=[ConcurrencyLimit(1, scope="user", key="{customer}")]),
            record(
                "e",
                args={"customer": 5},
                limits=[{"name": "api", "kind": "rate", "max": 1, "per": 60, "cost": 1}],
            ),
            record("f", args={"customer": 6}, limits=[ImportLimit(name="api", kind="rate", max=1, per=60)]),
        ]
    )
    assert [result.refused for result in results] == [None] * 6
    info = await app.handle("b").info()
    assert (info.waiting_on, info.limits) == ("closed=true", ("closed=true", "sync.customer=2", "user=123"))
    assert (await app.handle("c").info()).limits == ("sync.customer=3", "user={124}")
    assert (await app.handle("d").info()).limits == ("sync.customer=4", "user=4")
    assert [(limit.kind, limit.max) for limit in await app.limits("user") if limit.key == "user"] == [
        ("concurrency", 1)
    ]
    await app.run_until_idle()
    assert await app.count(state="succeeded") == 4
    assert [job.id for job in await app.jobs(limit="api")] == ["f"]


async def test_limits_that_the_store_refuses_fail_their_own_records_only(
    store_url: str, headgate_app: AppFactory
):
    url = "memory://import-kinds" if store_url == "memory://" else store_url
    old, new = headgate_app(url=url), headgate_app(url=url)

    @old.task(limits=[ConcurrencyLimit(1, scope="api")])
    async def call() -> None: ...

    @new.task
    async def sync(customer: int) -> None: ...

    await old.open()
    results = await new.import_jobs(
        [
            record("a", limits=[{"name": "user", "max": 1}]),
            record("b", limits=[{"name": "api", "kind": "rate", "max": 1, "per": 60}]),
            record("c", limits=[{"name": "api", "max": 1}]),
            record("d"),
        ]
    )
    assert [(result.id, result.refused is None) for result in results] == [
        ("a", True), ("b", False), ("c", True), ("d", True),
    ]  # fmt: skip
    assert "'api' is declared as concurrency in this store, and now as rate" in (results[1].refused or "")
    assert await new.run_until_idle() == 3


@pytest.mark.usefixtures("tasks")
async def test_importing_the_same_again_is_refused_and_new_attempts_are_taken(app: App):
    await app.import_jobs([record(attempts=[attempt("failed")])])
    (same,) = await app.import_jobs([record(attempts=[attempt("failed")])])
    assert same.refused is not None
    (more,) = await app.import_jobs([record(attempts=[attempt("failed"), attempt("cancelled")])])
    assert (more.refused, more.state) == (None, "cancelled")


@pytest.mark.usefixtures("tasks")
def test_importing_has_a_sync_twin(app: App):
    assert [result.id for result in app.import_jobs_sync(iter([record("x")]))] == ["x"]
