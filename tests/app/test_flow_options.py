"""Options of jobs and queues that decide who is next and what is too late: expires, unique keys, shares."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    JobExists,
    LimitInfo,
    RateLimit,
    Retry,
    TaskDefaults,
    TaskSet,
    Throttled,
    current_job,
)
from headgate.testing import Clock, fake_job
from tests.app.flow import memory_app

app = memory_app


async def order(app: App, seen: list[Any]) -> list[Any]:
    await app.run_until_idle(concurrency=1)
    return seen


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_that_has_not_started_in_time_is_cancelled(app: App, clock: Clock):
    @app.task(expires=60)
    async def work() -> None: ...

    job = await work.enqueue()
    info = await job.info()
    assert info.expires == clock.now() + timedelta(seconds=60)
    assert "it is cancelled if it has not started by" in str(await job.explain())
    clock.advance(61)
    await app.run_until_idle()
    info = await job.info()
    assert (info.state, info.error, info.attempt) == ("cancelled", "expired: it was not started in time", 0)
    assert "was cancelled" in str(await job.explain())
    assert "expired" in str(await job.explain())


async def test_a_duration_counts_from_the_due_time(app: App, clock: Clock):
    @app.task(expires=60)
    async def work() -> None: ...

    begun = clock.now()
    later = await work.options(delay=3600).enqueue()
    at = await work.options(at=begun + timedelta(hours=2)).enqueue()
    fixed = await work.options(delay=10, expires=begun + timedelta(seconds=20)).enqueue()
    never = await work.options(expires=math.inf).enqueue()
    after = [(await job.info()).expires for job in (later, at, fixed, never)]
    assert after == [
        begun + timedelta(seconds=3660),
        begun + timedelta(seconds=7260),
        begun + timedelta(seconds=20),
        None,
    ]


async def test_defaults_say_how_long_jobs_may_wait(app: App, clock: Clock):
    app.queue("q", defaults=TaskDefaults(expires=30))

    @app.task(queue="q")
    async def work() -> None: ...

    @app.task(queue="q", expires=math.inf)
    async def patient() -> None: ...

    assert (await (await work.enqueue()).info()).expires == clock.now() + timedelta(seconds=30)
    assert (await (await patient.enqueue()).info()).expires is None


# ── unique keys ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_update_puts_a_job_off_within_a_bound(app: App, clock: Clock):
    seen: list[str] = []

    @app.task
    async def index(text: str) -> None:
        seen.append(text)

    debounced = index.options(unique="doc", on_conflict="update", delay=10, at_most=25)
    first = await debounced.enqueue("a")
    for text in "bcd":
        clock.advance(9)
        again = await debounced.enqueue(text)
        assert (again.id, again.created) == (first.id, False)
        await app.run_until_idle()
    assert seen == ["d"] or await first.status() == "scheduled"
    clock.advance(1)
    await app.run_until_idle()
    assert seen == ["d"]
    assert (await debounced.enqueue("e")).created, "the key was free with the start"


async def test_a_key_stays_taken_for_a_time_after_the_start(app: App, clock: Clock):
    @app.task
    async def ping() -> None: ...

    throttled = ping.options(unique="k", unique_for=60)
    first = await throttled.enqueue()
    await app.run_until_idle()
    assert not (await throttled.enqueue()).created
    with pytest.raises(JobExists):
        await ping.options(unique="k", unique_for=60, on_conflict="raise").enqueue()
    clock.advance(60)
    assert (await throttled.enqueue()).created
    assert await first.status() == "succeeded"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique_for": 5}, "belongs to unique="),
        ({"on_conflict": "update"}, "belongs to unique="),
        ({"unique": "k", "unique_for": 5, "on_conflict": "update"}, "give one of them"),
        ({"unique": "k", "at_most": 5}, "on_conflict='update'"),
        ({"unique": "k", "on_conflict": "update", "delay": 9, "at_most": 5}, "shorter than delay="),
        ({"unique": "k", "unique_for": 0}, "unique_for=0"),
        ({"expires": 0}, "expires=0"),
        ({"expires": -1}, "expires="),
        (
            {"at": datetime(2099, 1, 2, tzinfo=UTC), "expires": datetime(2099, 1, 1, tzinfo=UTC)},
            "not later than",
        ),
        ({"on_conflict": "sometimes", "unique": "k"}, "update"),
        ({"share": ""}, "share"),
    ],
)
def test_options_that_contradict_each_other_are_refused(app: App, options: Any, message: str):
    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match=message):
        work.options(**options)


# ── shares ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_tenants_take_turns_in_a_queue_that_they_share(app: App):
    app.queue("ai", share_by="tenant", weights={"a": 2})
    seen: list[Any] = []

    @app.task(queue="ai")
    async def ask() -> None:
        seen.append(current_job().tenant)

    for tenant in ("a",) * 6 + ("b",) * 3:
        await ask.options(tenant=tenant).enqueue()
    assert (await order(app, seen)).count("a") == 6
    assert set(seen[:3]) == {"a", "b"}
    assert [seen[:n].count("b") for n in (3, 6, 9)] == [1, 2, 3]


@pytest.mark.parametrize("by", ["plan", "{plan}", lambda plan: plan])
async def test_a_queue_is_shared_by_an_argument_a_template_or_a_function(app: App, by: Any):
    app.queue("ai", share_by=by)
    seen: list[str] = []

    @app.task(queue="ai")
    async def ask(plan: str) -> None:
        seen.append(plan)

    jobs = [await ask.enqueue(plan) for plan in ("x", "x", "x", "y")]
    assert (await jobs[0].info()).share == "x"
    assert (await order(app, seen)).index("y") < 2


async def test_a_restart_with_other_arguments_takes_the_share_of_these(app: App):
    app.queue("ai", share_by="plan")

    @app.task(queue="ai")
    async def ask(plan: str, note: str = "") -> None: ...

    job, given = await ask.enqueue("x"), await ask.options(share="vip").enqueue("x")
    for one, share in ((job, "y"), (given, "vip")):
        await one.cancel()
        await one.restart(arguments={"plan": "y"})
        assert (await one.info()).share == share
    await job.cancel()
    await job.restart(arguments={"note": "again"})
    assert (await job.info()).share == "y"


async def test_an_update_takes_the_share_of_its_arguments(app: App):
    app.queue("ai", share_by="plan")

    @app.task(queue="ai")
    async def ask(plan: str) -> None: ...

    debounced = ask.options(unique="u", on_conflict="update", delay=5)
    job = await debounced.enqueue("x")
    await debounced.enqueue("y")
    assert (await job.info()).share == "y"


async def test_a_job_says_its_share_itself(app: App):
    app.queue("ai", weights={"vip": 3})

    @app.task(queue="ai")
    async def ask() -> None: ...

    shares = [(await (await task.enqueue()).info()).share for task in (ask, ask.options(share="vip"))]
    assert shares == ["-", "vip"], "a job without a share has no right to go first"


async def test_a_share_on_a_queue_that_is_not_shared_is_refused(app: App):
    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match="queue 'default' is not shared"):
        await work.options(share="a").enqueue()


async def test_operators_weigh_shares(app: App, clock: Clock):
    app.queue("ai", share_by="tenant", weights={"acme": 2})

    @app.task(queue="ai")
    async def ask() -> None: ...

    job = await ask.options(tenant="acme").enqueue()
    assert "in line for share 'acme' (weight 2)" in str(await job.explain())
    await app.set_share("acme", weight=5, by="ops", why="a big day", until=60)
    (share,) = await app.shares()
    assert (share.share, share.weight, share.declared, share.pending) == ("acme", 5, 2, 1)
    assert share.override is not None
    assert share.override.until == clock.now() + timedelta(seconds=60)
    assert share.to_dict()["override"]["by"] == "ops"
    assert await app.clear_share("acme")
    assert not await app.clear_share("acme")
    assert [s.weight for s in await app.shares(size=1)] == [2]
    assert await app.shares(after="acme") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share_by": "tenant", "weights": {"a": 0}}, "above 0"),
        ({"share_by": "tenant", "weights": {"a": -1}}, "above 0"),
        ({"share_by": "tenant", "weights": {"a": True}}, "above 0"),
        ({"share_by": "tenant", "weights": ["a"]}, "a mapping such as"),
        ({"share_by": 5}, "'tenant', the name of an argument"),
        ({"charge": "money"}, "'starts' or 'time'"),
        ({"on_overflow": "refuse"}, "belongs to max_waiting="),
        ({"share_by": "nope"}, "has no parameter 'nope'"),
    ],
)
def test_a_queue_that_cannot_be_shared_so_is_refused(app: App, options: Any, message: str):
    @app.task(queue="ai")
    async def ask(a: int) -> None: ...

    with pytest.raises(ConfigError, match=message):
        app.queue("ai", **options)


async def test_a_weight_of_nothing_is_refused(app: App):
    with pytest.raises(ConfigError, match="above 0"):
        await app.set_share("acme", 0)


def test_a_task_without_the_argument_that_its_queue_is_shared_by_is_refused(app: App):
    app.queue("ai", share_by="plan")
    with pytest.raises(ConfigError, match="has no parameter 'plan'"):

        @app.task(queue="ai")
        async def ask(a: int) -> None: ...

    assert "ask" not in app.tasks


async def test_a_task_set_shares_queues(app: App):
    tasks = TaskSet()
    tasks.queue("ai", share_by="tenant", max_waiting=10)

    @tasks.task(queue="ai", expires=60)
    async def ask() -> None: ...

    app.include(tasks)
    info = await (await ask.options(tenant="acme").enqueue()).info()
    assert (info.share, info.expires is None) == ("acme", False)


async def test_a_raw_job_of_a_shared_queue(app: App):
    app.queue("ai", share_by="tenant")
    app.queue("other", share_by="plan")
    jobs = [
        app.raw_job("t", queue="ai", tenant="acme"),
        app.raw_job("t", queue="ai"),
        app.raw_job("t", queue="other", share="x", expires=60),
        app.raw_job("t", queue="elsewhere", share="y"),
    ]
    assert [job.share for job in jobs] == ["acme", "-", "x", "y"]
    with pytest.raises(ConfigError, match="give share="):
        app.raw_job("t", queue="other")


# ── imports ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_imported_job_carries_what_an_enqueue_can(app: App, clock: Clock):
    app.queue("ai", share_by="tenant")

    @app.task(queue="ai")
    async def ask() -> None: ...

    now = clock.now()
    gpu = {"name": "gpu", "max": 4, "cost": 3}
    door = {"name": "door", "max": 1, "key": "d", "when_full": "drop"}
    row = {"name": "row", "max": 1, "max_waiting": 1, "on_overflow": "drop_newest"}
    pace = {"name": "pace", "kind": "rate", "max": 9, "per": 60, "cost": 2, "max_waiting": 7}
    records: list[dict[str, Any]] = [
        {"id": "late", "expires": 60, "enqueued_at": now - timedelta(seconds=30), "share": "vip"},
        {"id": "in_time", "expires": 60, "at": now + timedelta(seconds=5), "tenant": "acme"},
        {"id": "once", "unique": "u", "unique_for": 100},
        {"id": "gpu1", "limits": [gpu]},
        {"id": "gpu2", "limits": [gpu]},
        {"id": "door1", "limits": [door]},
        {"id": "door2", "limits": [door]},
        *({"id": f"row{n}", "limits": [row, pace]} for n in range(3)),
        {"id": "soft", "unique": "s", "on_conflict": "update", "at": now + timedelta(seconds=50)},
    ]
    results = await app.import_jobs([{"task": "ask", **record} for record in records])
    assert [result.refused for result in results] == [None] * len(records)
    found = {job.id: job for job in await app.jobs()}
    assert {id: job.state for id, job in found.items() if id in ("gpu2", "door2", "row2")} == {
        "gpu2": "waiting", "door2": "cancelled", "row2": "cancelled",
    }  # fmt: skip
    assert (found["late"].share, found["late"].expires) == ("vip", now + timedelta(seconds=30))
    assert (found["in_time"].share, found["in_time"].expires) == ("acme", now + timedelta(seconds=65))
    assert (await app.key("pace")).limit.max_waiting == 7
    await ask.options(unique="s", on_conflict="update", priority=1).enqueue()
    assert (await app.handle("soft").info()).due == now
    await app.run_until_idle()
    clock.advance(99)
    assert not (await ask.options(unique="u").enqueue()).created
    clock.advance(2)
    assert (await ask.options(unique="u").enqueue()).created
    assert (await app.audit()).ok


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on_conflict": "replace", "unique": "u"}, "Invalid enum value 'replace'"),
        ({"on_conflict": "update"}, "belongs to unique="),
        ({"unique_for": 5}, "belongs to unique="),
        ({"share": "x"}, "is not shared"),
        ({"expires": 0}, "expires=0"),
        (
            {"limits": [{"name": "r", "kind": "rate", "max": 1, "per": 1, "when_full": "drop"}]},
            "no meaning for a rate",
        ),
    ],
)
async def test_a_record_that_asks_for_what_cannot_be_is_refused(
    app: App, given: dict[str, Any], message: str
):
    @app.task
    async def work() -> None: ...

    (result,) = await app.import_jobs([{"id": "a", "task": "work", **given}])
    assert message in (result.refused or "")


# ── costs and throttling ─────────────────────────────────────────────────────────────────────────────────────────


async def tokens(app: App) -> LimitInfo:
    return next(limit for limit in await app.limits("tokens") if limit.key == "tokens")


async def test_an_attempt_says_what_it_really_spent(app: App):
    @app.task(limits=[RateLimit(1000, per=1000, cost="estimate", scope="tokens")])
    async def ask(estimate: int, real: int) -> None:
        current_job().spent("tokens", real)

    await ask.enqueue(500, 100)
    await app.run_until_idle()
    assert (await tokens(app)).tokens == 900
    await ask.enqueue(500, 1200)
    await app.run_until_idle()
    shown = await tokens(app)
    assert shown.tokens == -300
    assert shown.next_at is not None
    waiting = await ask.enqueue(10, 10)
    assert "300 more were spent than there were" in str(await waiting.explain())


async def test_a_throttled_key_is_closed_for_all_and_the_job_loses_nothing(app: App, clock: Clock):
    events: list[tuple[str, float | None]] = []
    told: list[float] = [12.0]

    @app.on("throttled", "succeeded")
    def hear(event: Any) -> None:
        events.append((event.name, event.retry_in))

    @app.task(limits=[ConcurrencyLimit(2, scope="crm")])
    async def call() -> str:
        if told:
            raise Throttled(retry_after=told.pop())
        return "done"

    first = await call.enqueue()
    await app.run_until_idle()
    second = await call.enqueue()
    (key,) = [limit for limit in await app.limits("crm") if limit.opens_at is not None]
    assert key.opens_at == clock.now() + timedelta(seconds=12)
    assert "a service has throttled it: it is closed until" in str(await second.explain())
    clock.advance(12)
    await app.run_until_idle()
    clock.advance(60)
    await app.run_until_idle()
    info = await first.info()
    assert (info.state, info.tries) == ("succeeded", 1)
    assert [one.outcome for one in info.attempts] == ["throttled", "succeeded"]
    assert events == [("throttled", 12.0), ("succeeded", None), ("succeeded", None)]


async def test_of_several_limits_the_task_says_which_was_meant(app: App):
    @app.task(limits=[ConcurrencyLimit(2, scope="crm"), RateLimit(10, per=1, scope="calls")])
    async def call() -> None:
        raise Throttled(30, limit="crm")

    await call.enqueue()
    await app.run_until_idle()
    assert [limit.key for limit in await app.limits() if limit.opens_at is not None] == ["crm"]


@pytest.mark.parametrize("wrong", [-1, "soon", float("nan")])
def test_a_delay_that_is_none_is_refused(wrong: Any):
    with pytest.raises(ConfigError, match="retry_after="):
        Throttled(retry_after=wrong)


LIMITS = [RateLimit(1000, per=60, cost=10, scope="tokens"), ConcurrencyLimit(5, scope="crm")]


async def test_a_limit_that_the_job_does_not_have_is_an_error_where_it_is_said(app: App):
    @app.task(max_concurrent=3)
    async def ask(name: str, limit: Annotated[None, RateLimit(9, per=60, scope="own")] = None) -> list[str]:
        with pytest.raises(ConfigError, match="no such rate limit; it has own, tokens"):
            current_job().spent(name, 5)
        current_job().spent("tokens", 5)
        return sorted(current_job().limits)

    job = await ask.options(limits=LIMITS).enqueue("tokns")
    of_no_rate = await ask.options(limits=LIMITS).enqueue("crm")
    await app.run_until_idle()
    assert await job.result() == await of_no_rate.result() == ["crm", "own", "tokens"]


async def test_an_attempt_that_is_throttled_by_a_limit_it_does_not_have_fails(app: App):
    @app.task(retry=Retry(attempts=1), max_concurrent=3)
    async def ask(name: str) -> None:
        raise Throttled(30, limit=name)

    job = await ask.options(limits=LIMITS).enqueue("tokns")
    bare = await ask.enqueue("tokns")
    right = await ask.options(limits=LIMITS).enqueue("crm")
    await app.run_until_idle()
    info = await job.info()
    assert info.state == "failed"
    assert "limit='tokns'" in (info.error or "")
    assert "no such limit; it has crm, tokens" in (info.error or "")
    assert "raise Throttled(30" in (info.error or "")
    assert "it has none" in ((await bare.info()).error or "")
    assert (await right.info()).state in ("ready", "waiting")
    assert (await app.audit()).ok


async def test_the_cap_of_a_task_or_queue_can_be_throttled_by_name(app: App):
    @app.task(retry=Retry(attempts=1), max_concurrent=3)
    async def ask(name: str) -> None:
        raise Throttled(30, limit=name)

    job = await ask.enqueue("task:ask")
    await app.run_until_idle()
    assert (await job.info()).state in ("ready", "waiting")


def test_what_was_spent_is_seen_by_a_test_without_a_worker():
    with fake_job() as fake:
        current_job().spent("tokens", 5)
        current_job().spent("tokens", 7)
        with pytest.raises(ConfigError, match="whole number from 0"):
            current_job().spent("tokens", -1)
    assert fake.spent == {"tokens": 7}


async def test_a_job_that_needs_more_than_an_operator_left_says_so(app: App):
    @app.task(limits=[ConcurrencyLimit(8, cost="gb", scope="gpu")])
    async def train(gb: int) -> None: ...

    await app.set_limit("gpu", 4)
    large = await train.enqueue(6)
    assert "needs 6 units at once, and the maximum in force is 4" in str(await large.explain())
    await app.clear_limit("gpu")
    next_one = await train.enqueue(6)
    assert "waits on gpu: it needs 6 units" in str(await next_one.explain())
