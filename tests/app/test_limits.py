"""Limits in every place where they may stand, seen from the app."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest

from headgate import App, ConcurrencyLimit, ConfigError, FloatingLimit, RateLimit
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from tests.support.waiting import until


async def needs(job: Any) -> tuple[str, ...]:
    return (await job.info()).limits


async def test_a_limit_on_a_parameter_lets_one_job_per_value_through(app: App):
    @app.task
    async def sync(customer: Annotated[int, ConcurrencyLimit(1)]) -> None: ...

    first, second, other = [await sync.enqueue(n) for n in (1, 1, 2)]
    assert [await job.status() for job in (first, second, other)] == ["ready", "waiting", "ready"]
    assert await needs(second) == ("sync.customer=1",)
    assert "waits on sync.customer=1" in str(await second.explain())
    await app.run_until_idle()
    assert await second.status() == "succeeded"


async def test_a_default_parameter_declares_a_limit_and_is_no_argument(app: App):
    seen: list[Any] = []

    @app.task
    async def backup(
        db: str, cap: ConcurrencyLimit = ConcurrencyLimit("db", max_concurrent=3, scope="backups")
    ) -> None:
        seen.append((db, cap.max_concurrent))

    job = await backup.enqueue("main")
    assert await needs(job) == ("backups=main",)
    assert (await job.info()).args == {"db": "main"}
    await app.run_until_idle()
    assert seen == [("main", 3)]


async def test_a_default_parameter_without_key_is_named_after_itself(app: App):
    @app.task
    async def backup(db: str, cap: ConcurrencyLimit = ConcurrencyLimit(3)) -> None: ...

    assert await needs(await backup.enqueue("x")) == ("backup.cap",)


async def test_several_limits_stand_in_canonical_order(app: App):
    @app.task(limits=[RateLimit(100, per=60), ConcurrencyLimit("b", "a", max_concurrent=2, scope="zz")])
    async def work(a: Annotated[int, ConcurrencyLimit(1)], b: str) -> None: ...

    job = await work.options(limits=[ConcurrencyLimit(5, scope="user", key="123")]).enqueue(1, "x")
    assert await needs(job) == ("user=123", "work.a=1", "zz=x:1", "work")


async def test_two_unnamed_limits_of_two_kinds_on_one_parameter_need_a_scope(app: App):
    with pytest.raises(ConfigError, match="give one of them another name"):

        @app.task
        async def work(a: Annotated[int, ConcurrencyLimit(1), RateLimit(5, per=1)]) -> None: ...

    assert "work" not in app.tasks


async def test_caps_of_tasks_and_queues_are_limits_and_not_in_the_job(app: App):
    app.queue("email", max_concurrent=1)

    @app.task(queue="email", max_concurrent=5)
    async def send() -> None: ...

    first, second = await send.enqueue(), await send.enqueue()
    assert await needs(first) == ()
    assert await second.status() == "waiting"
    assert {(limit.name, limit.max) for limit in await app.limits()} == {("queue:email", 1), ("task:send", 5)}


@pytest.mark.parametrize(
    ("name", "most", "message"),
    [
        ("", 1, "non-empty"),
        ("a=b", 1, "contains '='"),
        ("x" * 251, 1, "257 bytes"),
        ("headgate", 1, "reserved"),
        ("email", -1, "from 0"),
        ("email", "5", "whole number"),
    ],
)
def test_a_cap_on_a_queue_that_cannot_work_is_refused(app: App, name: str, most: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        app.queue(name, max_concurrent=most)


async def test_a_name_declared_with_two_values_is_refused(app: App):
    @app.task
    async def one(a: Annotated[int, ConcurrencyLimit(1, scope="s")]) -> None: ...

    with pytest.raises(ConfigError, match="different values"):

        @app.task
        async def two(a: Annotated[int, ConcurrencyLimit(2, scope="s")]) -> None: ...

    with pytest.raises(ConfigError, match="different values"):
        one.options(limits=[ConcurrencyLimit(1, scope="s", key="x", when_full="drop")])


async def test_two_tasks_may_share_a_scope(app: App):
    @app.task
    async def one(a: Annotated[int, ConcurrencyLimit(1, scope="s")]) -> None: ...

    @app.task
    async def two(b: Annotated[int, ConcurrencyLimit(1, scope="s")]) -> None: ...

    assert await (await one.enqueue(1)).status() == "ready"
    assert await (await two.enqueue(1)).status() == "waiting"


async def test_more_than_16_limits_are_refused(app: App):
    many = [ConcurrencyLimit(1, scope=f"s{n}") for n in range(17)]
    with pytest.raises(ConfigError, match="17 limits"):

        @app.task(limits=many)
        async def work() -> None: ...

    @app.task(limits=many[:16])
    async def most() -> None: ...

    await most.enqueue()
    with pytest.raises(ConfigError, match="would have 17 limits; at most 16"):
        await most.options(limits=[many[16]]).enqueue()


async def test_tenants_have_their_own_keys_unless_a_limit_is_shared(app: App):
    @app.task
    async def own(a: Annotated[int, ConcurrencyLimit(1)]) -> None: ...

    @app.task
    async def shared(a: Annotated[int, ConcurrencyLimit(1, shared=True)]) -> None: ...

    async def states(task: Any) -> list[str]:
        jobs = [await task.options(tenant=name).enqueue(1) for name in ("acme", "zeta")]
        return [await job.status() for job in jobs]

    assert await states(own) == ["ready", "ready"]
    assert await states(shared) == ["ready", "waiting"]


async def test_a_rate_spends_what_an_argument_says(app: App, clock: Clock):
    @app.task
    async def call(
        tokens: int, rate: RateLimit = RateLimit(10, per=10, cost="tokens", scope="llm")
    ) -> None: ...

    with pytest.raises(ConfigError, match="above its burst of 10"):
        await call.enqueue(11)
    await call.enqueue(8)
    second = await call.enqueue(5)
    await app.run_until_idle()
    assert await second.status() == "waiting"
    told = await second.explain()
    assert told.earliest is not None
    clock.advance(told.earliest - clock.now())
    await app.run_until_idle()
    assert await second.status() == "succeeded"


async def test_a_floating_limit_is_computed(app: App):
    @app.floating_limit("llm", default=1, every=30, metadata={"tier": 2})
    async def capacity(limit: Any) -> int:
        return limit.metadata["tier"] * 2

    async def number() -> int | None:
        return next((limit.max for limit in await app.limits("llm") if limit.key == "llm=x"), None)

    async def is_computed() -> bool:
        return await number() == 4

    @app.task
    async def ask(account: Annotated[str, FloatingLimit("llm")]) -> None:
        await until(is_computed)  # a number is computed only while its key is in use

    jobs = [await ask.enqueue("x") for _ in range(5)]
    assert await needs(jobs[0]) == ("llm=x",)
    await app.run_until_idle()
    assert [await job.status() for job in jobs] == ["succeeded"] * 5
    assert await number() == 4


@pytest.mark.timeout(30)
async def test_working_until_idle_ends_although_a_floating_limit_cannot_be_computed(app: App):
    @app.floating_limit("llm", default=0, every=30)
    async def capacity(limit: Any) -> int:
        raise ValueError("no answer")

    @app.task
    async def ask(account: Annotated[str, FloatingLimit("llm")]) -> None: ...

    await ask.enqueue("a")
    await ask.enqueue("b")
    assert await app.run_until_idle(queues=["none"]) == 0


async def test_a_floating_limit_that_nobody_registered_is_refused_when_used(app: App):
    @app.task
    async def ask(account: Annotated[str, FloatingLimit("nobody")]) -> None: ...

    with pytest.raises(ConfigError, match="'nobody' is not declared"):
        await ask.enqueue("x")
    assert await app.count() == 0


def test_a_floating_limit_is_registered_once(app: App):
    app.floating_limit("llm", default=1)(lambda limit: 1)
    with pytest.raises(ConfigError, match="already"):
        app.floating_limit("llm", default=1)(lambda limit: 1)


async def test_limits_of_single_jobs_follow_the_newest_word(app: App):
    @app.task
    async def work() -> None: ...

    async def enqueue(most: int) -> str:
        limit = ConcurrencyLimit(most, scope="user", key="7")
        return await (await work.options(limits=[limit]).enqueue()).status()

    assert [await enqueue(1), await enqueue(1), await enqueue(3)] == ["ready", "waiting", "ready"]
    assert [(limit.key, limit.max) for limit in await app.limits("user")] == [("user", 1), ("user=7", 3)]
    assert await enqueue(1) == "waiting"
    assert [(limit.key, limit.max) for limit in await app.limits("user")] == [("user", 1), ("user=7", 1)]


async def test_keys_of_any_characters_are_kept_apart(app: App):
    @app.task
    async def work(key: Annotated[str, ConcurrencyLimit(1)]) -> None: ...

    texts = ["", " ", "=", "a=b", "a:b", "a\nb", "'", '"', "🎈", "\\", "%", "{x}", "c0:", "null"]
    jobs = [await work.enqueue(text) for text in texts]
    assert [await job.status() for job in jobs] == ["ready"] * len(texts)
    assert [(await needs(job))[0] for job in jobs] == [f"work.key={text}" for text in texts]


async def test_an_operator_overrides_a_key_at_once_and_takes_it_back(app: App, clock: Clock):
    @app.task
    async def sync(customer: Annotated[int, ConcurrencyLimit(1)]) -> None: ...

    jobs = [await sync.enqueue(42) for _ in range(3)]
    await app.set_limit("sync.customer=42", 2, by="ops", why="catching up", until=timedelta(hours=1))
    assert [await job.status() for job in jobs] == ["ready", "ready", "waiting"]
    status = next(limit for limit in await app.limits("sync.customer") if limit.key == "sync.customer=42")
    assert (status.max, status.declared, status.waiting) == (2, 1, 1)
    assert status.override is not None
    assert (status.override.by, status.override.why) == ("ops", "catching up")
    assert status.override.at == clock.now()
    assert status.override.until == clock.now() + timedelta(hours=1)
    assert await app.clear_limit("sync.customer=42")
    assert not await app.clear_limit("sync.customer=42")


async def test_an_operator_closes_and_lifts_a_limit(app: App):
    @app.task
    async def sync(customer: Annotated[int, ConcurrencyLimit(1)]) -> None: ...

    await app.open()
    await app.set_limit("sync.customer", 0, by="ops")
    job = await sync.enqueue(1)
    assert "it is closed (a limit of 0, set by ops)" in str(await job.explain())
    await app.set_limit("sync.customer", None)
    assert await job.status() == "ready"


@pytest.mark.parametrize(
    ("key", "value", "options", "message"),
    [
        ("nobody", 1, {}, "no limit is named 'nobody'"),
        ("", 1, {}, "non-empty"),
        ("task:x", -1, {}, "from 0"),
        ("task:x", True, {}, "whole number"),
        ("task:x", 1, {"until": datetime(2026, 1, 1)}, "no time zone"),
        ("task:x", 1, {"tenant": ""}, "tenant"),
        ("task:x", 0, {"tenant": "acme"}, "shared by all tenants; leave tenant='acme' out"),
        ("queue:x", 0, {"tenant": "acme"}, "shared by all tenants; leave tenant='acme' out"),
        ("task:x=5", 0, {}, "the cap of task 'x' has no keys; write 'task:x'"),
        ("queue:x=y", 0, {}, "a queue whose name has '=' cannot be capped"),
        ("task:x", 1, {"until": datetime(2001, 1, 1, tzinfo=UTC)}, "would end at once; it is 20"),
        ("task:x", 1, {"until": 0}, "would end at once"),
        ("task:x", 1, {"until": -1}, "number of seconds >= 0"),
        ("task:x", 1, {"until": "2930-01-01"}, "a datetime with a time zone"),
    ],
)
async def test_an_override_that_cannot_work_is_refused(
    app: App, key: str, value: Any, options: Any, message: str
):
    with pytest.raises(ConfigError, match=message):
        await app.set_limit(key, value, **options)
    assert await app.limits() == []


async def test_a_shared_limit_is_not_overridden_for_a_tenant(app: App):
    @app.task
    async def send(account: Annotated[str, RateLimit(5, per=60, scope="account", shared=True)]) -> None: ...

    @app.task(limits=[ConcurrencyLimit(1, scope="mixed", shared=True)])
    async def one() -> None: ...

    @app.task(limits=[ConcurrencyLimit(1, scope="mixed")])
    async def other() -> None: ...

    for key in ("account", "account=x"):
        with pytest.raises(ConfigError, match=r"'account' is declared shared=True.* leave tenant='acme' out"):
            await app.set_limit(key, 0, tenant="acme")
    assert [limit.key for limit in await app.limits("account")] == ["account"]
    await app.set_limit("account=x", 0)
    await app.set_limit("mixed", 0, tenant="acme")
    assert await (await one.options(tenant="acme").enqueue()).status() == "ready"
    assert await (await other.options(tenant="acme").enqueue()).status() == "waiting"


@pytest.mark.parametrize("until", [3600, 3600.0, timedelta(hours=1)])
async def test_an_override_may_last_for_a_time(app: App, clock: Clock, until: Any):
    await app.set_limit("task:x", 3, until=until)
    (status,) = await app.limits("task:x")
    assert status.override is not None
    assert status.override.until == clock.now() + timedelta(hours=1)


async def test_an_override_may_end_at_a_given_time(app: App):
    await app.set_limit("task:x", 3, until=datetime(2030, 1, 1, tzinfo=UTC))
    (status,) = await app.limits("task:x")
    assert status.override is not None
    assert status.override.until == datetime(2030, 1, 1, tzinfo=UTC)


async def test_of_two_apps_that_give_a_limit_with_their_jobs_the_newest_word_counts(tmp_path: Path):
    apps = [App(f"sqlite:///{tmp_path}/jobs.db") for _ in range(2)]

    async def work() -> None: ...

    first, second = (app.task(name="work")(work) for app in apps)
    for task, most in ((first, 5), (second, 3), (first, 5)):
        await task.options(limits=[ConcurrencyLimit(most, scope="user", key="1")]).enqueue()
        assert (await apps[0].limits())[-1].max == most
    for app in apps:
        await app.close()


async def test_limits_come_in_pages(app: App):
    @app.task
    async def work(key: Annotated[str, ConcurrencyLimit(1, scope="key")]) -> None: ...

    @app.task(limits=[ConcurrencyLimit(0, scope="zero")])
    async def never() -> None: ...

    for tenant in (None, "acme"):
        for key in ("a", "b", "c", "d=", "é"):
            await app.enqueue_many(work.options(tenant=tenant).job(key) for _ in range(2))
    await never.enqueue()
    await app.run_until_idle(concurrency=1, queues=["nothing"])
    everything = await app.limits()
    assert len(everything) >= 12
    assert [limit.key for limit in everything if limit.key in ("key", "zero")] == ["key", "zero"]
    for size in (1, 3, len(everything), 100):
        pages, after = list[Any](), None
        while page := await app.limits(size=size, after=after):
            assert len(page) <= size
            pages += page
            after = page[-1]
        assert pages == everything
    last = everything[3]
    assert await app.limits("key", size=2, after=(last.name, last.key, last.tenant or "")) == everything[4:6]
    assert await app.limits("zero", after=everything[-1]) == []


async def test_all_limits_are_read_in_pages(app: App, monkeypatch: pytest.MonkeyPatch):
    @app.task
    async def work(key: Annotated[int, ConcurrencyLimit(0, scope="key")]) -> None: ...

    await app.enqueue_many(work.job(n) for n in range(10))
    everything = await app.limits()
    monkeypatch.setattr("headgate.app.operations.LIMITS_PER_STEP", 3)
    assert await app.limits() == everything
    assert await app.limits(size=5) == everything[:5]
    assert len(everything) == 11


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "size=0: a whole number from 1"),
        ({"size": 2**63}, "size=9223372036854775808"),
        ({"after": "key=a"}, "after='key=a': the last LimitInfo of a page"),
        ({"after": ("key", "key=a")}, "is needed"),
        ({"after": ("key", "key=a", None)}, "is needed"),
        ({"name": ""}, "limit name must be"),
        ({"name": 5}, "limit name must be"),
    ],
)
async def test_a_page_of_limits_that_makes_no_sense_is_refused(app: App, given: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        await app.limits(**given)


async def test_a_limit_of_another_kind_than_in_the_store_is_refused(store_url: str, headgate_app: AppFactory):
    url = "memory://kinds" if store_url == "memory://" else store_url
    old, new = headgate_app(url=url), App(url)

    @old.task(limits=[ConcurrencyLimit(1, scope="api")])
    async def first() -> None: ...

    @new.task(limits=[RateLimit(1, per=60, scope="api")])
    async def second() -> None: ...

    @new.task
    async def free() -> None: ...

    jobs = [await first.enqueue(), await first.enqueue()]
    for use in (second.enqueue, free.enqueue, new.jobs, new.open, new.run_until_idle):
        with pytest.raises(
            ConfigError, match="'api' is declared as concurrency in this store, and now as rate"
        ):
            await use()
    assert [(limit.kind, limit.max) for limit in await old.limits("api") if limit.key == "api"] == [
        ("concurrency", 1)
    ]
    assert [await job.status() for job in jobs] == ["ready", "waiting"], "the limit holds"
    assert await old.run_until_idle() == 2
    await new.close()


async def test_a_limit_of_one_job_that_the_store_refuses_is_forgotten(
    store_url: str, headgate_app: AppFactory
):
    url = "memory://own-kinds" if store_url == "memory://" else store_url
    old, new = headgate_app(url=url), headgate_app(url=url)
    old.queue("email", max_concurrent=1)

    @old.task(limits=[ConcurrencyLimit(1, scope="api")])
    async def first() -> None: ...

    @new.task
    async def free() -> None: ...

    await old.open()
    with pytest.raises(ConfigError, match="'api' is declared as concurrency in this store, and now as rate"):
        await free.options(limits=[RateLimit(1, per=60, scope="api")]).enqueue()
    assert await new.count() == 0
    job = await free.options(limits=[ConcurrencyLimit(1, scope="api")]).enqueue()
    assert await job.status() == "ready"
    assert await new.run_until_idle() == 1


def test_a_floating_and_a_concurrency_limit_of_one_name_are_refused(app: App):
    @app.task(limits=[ConcurrencyLimit(1, scope="api")])
    async def one() -> None: ...

    with pytest.raises(ConfigError, match="'api' is declared as concurrency and as floating"):
        app.floating_limit("api", default=1)(lambda limit: 1)
    with pytest.raises(ConfigError, match="'api' is declared as concurrency and as floating"):

        @app.task(limits=[FloatingLimit("api")])
        async def two() -> None: ...

    with pytest.raises(ConfigError, match="'api' is declared as concurrency and as floating"):
        one.options(limits=[FloatingLimit("api")])
    assert list(app.tasks) == ["one"]

    @app.task(limits=[FloatingLimit("llm")])
    async def three() -> None: ...

    with pytest.raises(ConfigError, match="'llm' is declared as floating and as rate"):
        one.options(limits=[RateLimit(1, per=1, scope="llm")])
