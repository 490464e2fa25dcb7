"""What a newcomer gets wrong in the first hour is refused where it is written, in words that say what to write."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Annotated, Any

import msgspec
import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    HeadgateError,
    PayloadError,
    RetryLater,
    Snooze,
    TaskSet,
)
from headgate.job import NewJob
from headgate.testing import Clock


@pytest.fixture
def memory(clock: Clock) -> App:
    """Where the store does not matter."""
    return App("memory://", clock=clock)


async def plain() -> None: ...


class Shop:
    def sell(self, what: str) -> str:
        return f"sold {what}"

    @classmethod
    def open(cls) -> None: ...

    @staticmethod
    def close(at: int) -> int:
        return at


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_concurent": 1}, "did you mean max_concurrent="),
        ({"max_retries": 3}, r"write retry=Retry\(attempts=…\)"),
        ({"rate_limit": "5/m"}, r"write limits=\[RateLimit\("),
        ({"delay": 5}, r"task.options\(delay=…\)"),
        ({"countdown": 5}, r"task.options\(delay=…\)"),
        ({"zzz": 5}, "there are: name, queue"),
        ({"catch_up": "all"}, "belongs to cron= or every="),
        ({"limits": ConcurrencyLimit(1)}, r"write limits=\[ConcurrencyLimit\(max_concurrent=1\)\]"),
        ({"limits": "customer"}, "not a list of limits"),
        ({"cron": "0 0 30 2 *"}, "would never fire: none of its months has such a day"),
        ({"cron": "0 0 32 1 *"}, "five fields"),
        ({"cron": "0 0 31 4,6 *"}, "would never fire"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(memory: App, options: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        memory.task(**options)(plain)
    assert not memory.tasks


def test_an_unknown_option_is_refused_in_the_line_that_says_it(memory: App):
    declare: Any = memory.task
    with pytest.raises(ConfigError, match="max_concurrent"):
        declare(max_concurent=1)


def test_no_limits_may_be_said_as_none(memory: App):
    task = memory.task(limits=None)(plain)
    assert task.options(limits=None).job().uses == ()


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ("send", r"write @app.task\(name='send'\)"),
        (int, "int is a class"),
        (Shop, "Shop is a class"),
        (Shop.sell, "Shop.sell is a method"),
        (vars(Shop)["open"].__func__, "Shop.open is a method"),
        (vars(Shop)["open"], "Shop.open is a method"),
        (42, "a function is needed"),
        (max, "cannot be seen"),
        (partial(Shop.sell, Shop()), "give the task one with name="),
    ],
)
def test_what_is_no_function_is_no_task(memory: App, thing: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        memory.task(thing)
    assert not memory.tasks


def test_a_bound_method_and_a_static_one_are_functions(memory: App):
    shop: Any = Shop()
    sell, close = memory.task(shop.sell), memory.task(shop.close)
    jobs = sell.enqueue_sync("bread"), close.enqueue_sync(8)
    memory.run_until_idle_sync()
    assert [job.result_sync(timeout=0) for job in jobs] == ["sold bread", 8]


def test_a_static_method_below_the_decorator_is_called_as_what_it_is(memory: App):
    class Kitchen:
        @memory.task
        @staticmethod
        async def bake(what: str) -> str:
            return f"baked {what}"

    bake: Any = Kitchen.bake
    job = bake.enqueue_sync("bread")
    memory.run_until_idle_sync()
    assert job.result_sync(timeout=0) == "baked bread"

    def many():
        yield 1

    with pytest.raises(ConfigError, match="is a generator"):
        memory.task(staticmethod(many))


@pytest.mark.parametrize("thing", [App("memory://"), "mail", plain])
def test_only_sets_are_included(memory: App, thing: Any):
    with pytest.raises(ConfigError, match="a TaskSet is needed"):
        memory.include(TaskSet(), thing)


@pytest.mark.parametrize("function", [lambda: 3, lambda limit, other: 3, "llm"])
def test_a_function_that_cannot_compute_a_limit_is_refused(memory: App, function: Any):
    with pytest.raises(ConfigError, match=r"must be a function of one argument, `def compute\(limit\)"):
        memory.floating_limit("llm", default=1)(function)


def test_an_annotation_that_is_not_there_is_named(memory: App):
    with pytest.raises(ConfigError, match=r"task 'send': name 'Parcel' is not defined \(in an annotation\)"):

        @memory.task
        async def send(parcel: Parcel) -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def test_an_argument_that_is_an_option_says_where_it_goes(memory: App):
    task: Any = memory.task(plain)
    with pytest.raises(PayloadError, match=r"app.enqueue\(task.job\(…\), connection=…\)"):
        task.job(connection=1)
    with pytest.raises(PayloadError, match=r"task.options\(delay=…\)"):
        task.job(delay=5)


@pytest.mark.parametrize("delay", ["5", -1, True, timedelta(seconds=-1)])
@pytest.mark.parametrize("control", [RetryLater, Snooze])
def test_a_delay_that_is_none_is_refused_where_it_is_said(control: Any, delay: Any):
    with pytest.raises(ConfigError, match=rf"{control.__name__}\(delay=\) must be a number"):
        control(delay)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({1: 2}, "the key 1, a int"),
        ([{"a": {2.5: 1}}], "the key 2.5, a float"),
        ({"at": datetime(2030, 1, 1, tzinfo=UTC)}, "a datetime"),
    ],
)
def test_an_untyped_argument_that_would_come_back_changed_is_refused(memory: App, value: Any, what: str):
    @memory.task
    async def untyped(x, *rest, **more): ...

    @memory.task
    async def loose(x: list[dict]): ...

    @memory.task
    async def texts(x: dict[str, Any] | None = None, y: dict[str, Any] = {}): ...  # noqa: B006

    calls = (
        lambda: untyped.job(value),
        lambda: untyped.job(1, value),
        lambda: untyped.job(1, y=value),
        lambda: loose.job([{"a": value}]),
    )
    for call in calls:
        with pytest.raises(PayloadError, match=what):
            call()
    if isinstance(value, dict):
        with pytest.raises(PayloadError, match=what):
            texts.job(y=value)


def test_an_untyped_argument_may_be_whatever_json_is(memory: App):
    @memory.task
    async def untyped(x): ...

    @memory.task
    async def numbered(x: dict[int, str]): ...

    value = {"a": [1, 2.5, None, True, {"b": ("c",)}]}
    assert untyped.enqueue_sync(value).info_sync().args == {"x": {"a": [1, 2.5, None, True, {"b": ["c"]}]}}
    numbered.job({1: "one"})


def test_one_moment_is_one_key_in_any_time_zone(memory: App):
    @memory.task
    async def at_(at: Annotated[datetime, ConcurrencyLimit(1, scope="at")]): ...

    @memory.task(limits=[ConcurrencyLimit(1, scope="pair", key=lambda pair: pair)])
    async def pair_(pair: dict[str, datetime]): ...

    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=2)))
    assert at_.job(noon).uses == at_.job(there).uses
    assert at_.enqueue_sync(there).info_sync().limits == ("at=2030-01-01T12:00:00Z",)
    assert pair_.job({"a": noon, "b": there}).uses == pair_.job({"b": noon, "a": there}).uses


def test_on_conflict_without_unique_is_refused(memory: App):
    task = memory.task(plain)
    with pytest.raises(ConfigError, match="belongs to unique="):
        task.options(on_conflict="raise")


def test_an_empty_tenant_is_no_filter(memory: App):
    with pytest.raises(ConfigError, match="leave it out to mean the jobs of all tenants and of none"):
        memory.cancel_sync(tenant="")


def test_a_worker_under_a_plain_with_says_what_to_write(memory: App):
    manager: Any = memory.worker()
    with pytest.raises(HeadgateError, match=r"write `async with app.worker"), manager:
        pass


async def test_waiting_in_the_loop_of_the_worker_is_refused_at_once(memory: App):
    task = memory.task(plain)
    before = time.monotonic()
    async with memory:
        async with memory.worker():
            job = await task.enqueue()
            with pytest.raises(HeadgateError, match=r"write `await job.result"):
                job.result_sync(timeout=20)
            assert await job.result(timeout=20) is None
        assert time.monotonic() - before < 15
        assert job.result_sync(timeout=20) is None  # no worker runs here any more


async def test_a_result_that_is_not_to_be_kept_is_seen_by_those_who_wait(app: App, clock: Clock):
    @app.task(retention=0)
    async def brief() -> int:
        return 42

    jobs = [await brief.enqueue(), await brief.options(retention=0).enqueue()]
    await app.run_until_idle()
    assert [await job.result(timeout=0) for job in jobs] == [42, 42]
    clock.advance(11)
    await app.run_until_idle()
    assert await app.count() == 0


async def test_refreshes_of_floating_limits_are_not_among_the_program_s_jobs(app: App):
    @app.task
    async def grow() -> None: ...

    for delay in (0, 0, 60):
        await grow.options(delay=delay).enqueue()
    await app.enqueue(NewJob("refresh", "floating:size", "headgate"))  # as a worker enqueues it
    assert [job.task for job in await app.jobs(queue="headgate")] == ["floating:size"]
    assert [job.task for job in await app.jobs()] == ["grow"] * 3
    assert [job.task for job in await app.jobs(size=1)] == ["grow"]
    assert await app.count() == 3
    assert await app.count(task="floating:size") == 1
    assert [queue.name for queue in await app.queues()] == ["default"]
    assert (await app.cancel(state=["scheduled", "ready", "waiting"])).done == 3
    assert await app.count(queue="headgate", state=["ready"]) == 1


async def test_a_queue_that_nothing_uses_is_pointed_out(app: App, caplog: pytest.LogCaptureFixture):
    @app.task(queue="webhooks")
    async def call() -> None: ...

    app.queue("email", max_concurrent=3)
    with caplog.at_level(logging.WARNING, logger="headgate.app"):
        await app.pause("webhooks")
        await app.set_limit("queue:email", 1)
        await app.set_limit("task:call", 1)
        assert not [record for record in caplog.records if record.name == "headgate.app"]
        await app.pause("wbhooks")
        await app.set_limit("queue:emial", 1)
        await app.set_limit("task:cal", 1)
        async with app.worker(queues=["webhooks", "emial"]):
            pass
    assert [record.getMessage() for record in caplog.records if record.name == "headgate.app"] == [
        "nothing uses queue 'wbhooks'; did you mean 'webhooks'?",
        "nothing uses queue 'emial'; did you mean 'email'?",
        "nothing knows task 'cal'; did you mean 'call'?",
        "nothing uses queue 'emial'; did you mean 'email'?; the worker waits for its jobs",
    ]


async def test_explain_says_that_no_worker_lives_and_how_long_a_key_is_closed(app: App):
    @app.task
    async def sync(customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None: ...

    jobs = [await sync.enqueue(1) for _ in range(2)]
    assert "no live worker serves its queue 'default'" in str(await jobs[1].explain())
    await app.set_limit("customer=1", 0, by="ops", why="they are away", until=3600)
    sentence = str(await jobs[1].explain())
    assert "it is closed (a limit of 0, set by ops until 20" in sentence
    assert "(in 60 min): they are away)" in sentence


def test_one_job_is_not_many(memory: App):
    task: Any = memory.task(plain)
    with pytest.raises(
        ConfigError, match=r"enqueue_many\(\) takes several jobs.* one job goes to enqueue\(\)"
    ):
        memory.enqueue_many_sync(task.job())


def test_a_set_from_a_function_that_has_returned_may_use_its_local_types(memory: App):
    def make() -> TaskSet:
        tasks = TaskSet()

        class Parcel(msgspec.Struct):
            weight: int

        @tasks.task
        async def weigh(parcel: Parcel) -> Parcel:
            return parcel

        return tasks

    memory.include(make())
    job = memory.tasks["weigh"].job({"weight": 3})
    _, named = memory.tasks["weigh"].decode(job.args)
    assert named["parcel"].weight == 3
