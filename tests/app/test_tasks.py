"""Declaring tasks and enqueueing their jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, ConfigError, JobExists, JobState, PayloadError, Retry, current_job
from headgate.engine.memory import MemoryEngine
from headgate.testing import Clock


async def test_a_job_runs_and_its_result_comes_back_as_annotated(app: App):
    @app.task
    async def soon(name: str, days: int = 1) -> datetime:
        return datetime(2026, 1, days, tzinfo=UTC)

    job = await soon.enqueue("ada", days=3)
    assert job.created
    assert await job.status() is JobState.READY
    assert await app.run_until_idle() == 1
    assert await job.result() == datetime(2026, 1, 3, tzinfo=UTC)


async def test_sync_functions_run_too(app: App):
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(1, b=2)
    await app.run_until_idle()
    assert await job.result() == 3


def test_a_task_is_still_the_function(app: App):
    @app.task(name="other")
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert add(1, 2) == 3
    assert add.__doc__ == "Adds."
    assert add.name == "other"
    assert app.tasks["other"] is add


def test_a_second_task_of_the_same_name_is_refused(app: App):
    @app.task(name="send")
    def one() -> None: ...

    with pytest.raises(ConfigError, match="has a task 'send' already"):

        @app.task(name="send")
        def two() -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_concurrent": -1}, "from 0"),
        ({"max_concurrent": True}, "whole number"),
        ({"priority": 100}, "0 .first. to 99"),
        ({"queue": ""}, "non-empty"),
        ({"queue": "headgate"}, "reserved"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout="),
        ({"retry": 3}, "a Retry is needed"),
        ({"name": "a=b"}, "contains '='"),
        ({"name": "floating:x"}, "reserved"),
        ({"name": "x" * 252}, "257 bytes"),
        ({"limits": ["x"]}, "not a limit"),
        ({"retention": -1}, "retention="),
        ({"timezone": "UTC"}, "belongs to cron="),
        ({"cron": "* * * * *", "every": 5}, "not both"),
    ],
)
def test_options_that_cannot_work_are_refused_at_declaration(app: App, options: Any, message: str):
    with pytest.raises(ConfigError, match=message):

        @app.task(**options)
        def task() -> None: ...

    assert not app.tasks


def test_generators_and_lambdas_without_a_name_are_refused(app: App):
    with pytest.raises(ConfigError, match="generator"):

        @app.task
        def numbers() -> Any:
            yield 1

    with pytest.raises(ConfigError, match="give the task one with name="):
        app.task(lambda: None)
    assert app.task(name="l")(lambda: 5).name == "l"


def test_a_periodic_task_must_not_need_arguments(app: App):
    with pytest.raises(ConfigError, match="needs defaults for day"):

        @app.task(every=60)
        def report(day: str) -> None: ...


async def test_arguments_are_checked_before_anything_is_stored(app: App):
    @app.task
    async def send(to: str) -> None: ...

    with pytest.raises(PayloadError, match="Expected `str`, got `int`"):
        await send.enqueue(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(PayloadError, match="has no parameter 'cc'"):
        await send.enqueue("a", cc="b")  # pyright: ignore[reportCallIssue]
    assert await app.count() == 0


async def test_a_payload_over_the_limit_is_refused():
    app = App("memory://", payload_limit=100)

    @app.task
    async def send(to: str) -> None: ...

    with pytest.raises(PayloadError, match="payload limit of 100"):
        await send.enqueue("x" * 100)
    with pytest.raises(PayloadError, match=r"metadata: .* payload limit"):
        send.options(metadata={"a": "x" * 100})


async def test_options_reach_the_job(app: App, clock: Clock):
    @app.task(queue="email", priority=20)
    async def send(to: str) -> None: ...

    at = clock.now() + timedelta(hours=1)
    job = await send.options(
        priority=5, at=at, tenant="acme", id="mine", unique="u", metadata={"a": 1}, queue="bulk"
    ).enqueue("x")
    info = await job.info()
    assert (info.id, info.priority, info.due, info.tenant, info.queue) == ("mine", 5, at, "acme", "bulk")
    assert (info.unique, info.metadata, info.args, info.state) == ("u", {"a": 1}, {"to": "x"}, "scheduled")
    plain = await (await send.enqueue("y")).info()
    assert (plain.queue, plain.priority, plain.tenant) == ("email", 20, None)


async def test_a_delayed_job_runs_when_its_time_has_come(app: App, clock: Clock):
    @app.task
    async def remind() -> str:
        return "reminded"

    job = await remind.options(delay=30).enqueue()
    assert await app.run_until_idle() == 0
    clock.advance(30)
    assert await app.run_until_idle() == 1
    assert await job.result() == "reminded"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": -1}, "priority=-1"),
        ({"priority": 1.0}, "whole number"),
        ({"priority": True}, "whole number"),
        ({"delay": -1}, "delay="),
        ({"delay": float("nan")}, "delay="),
        ({"delay": 1, "at": datetime.now(UTC)}, "exclude each other"),
        ({"at": datetime(2026, 1, 1)}, "no time zone"),
        ({"at": 5}, "datetime with a time zone"),
        ({"tenant": ""}, "tenant must be a non-empty"),
        ({"tenant": "x" * 257}, "257 bytes"),
        ({"tenant": "\ud800"}, "not valid Unicode"),
        ({"id": ""}, "job id must be a non-empty"),
        ({"id": 7}, "job id must be"),
        ({"id": "x" * 257}, "257 bytes"),
        ({"unique": ""}, "unique= must be"),
        ({"on_conflict": "ignore"}, "return, raise, replace"),
        ({"metadata": [1]}, "must be a mapping"),
        ({"queue": "headgate"}, "reserved"),
        ({"limits": [5]}, "not a limit"),
    ],
)
def test_options_that_cannot_work_are_refused(app: App, options: Any, message: str):
    @app.task
    async def send(to: str) -> None: ...

    with pytest.raises(ConfigError, match=message):
        send.options(**options)


def test_metadata_must_be_json(app: App):
    @app.task
    async def send() -> None: ...

    with pytest.raises(PayloadError, match="metadata cannot travel"):
        send.options(metadata={"a": object()})


async def test_an_id_that_exists_is_refused(app: App):
    @app.task
    async def send() -> None: ...

    await send.options(id="x").enqueue()
    with pytest.raises(JobExists):
        await send.options(id="x").enqueue()


async def test_a_unique_job_is_returned_raised_or_replaced(app: App):
    @app.task
    async def send() -> None: ...

    first = await send.options(unique="u").enqueue()
    again = await send.options(unique="u").enqueue()
    assert again.id == first.id
    assert again == first
    assert not again.created
    with pytest.raises(JobExists):
        await send.options(unique="u", on_conflict="raise").enqueue()
    third = await send.options(unique="u", on_conflict="replace").enqueue()
    assert third.created
    assert await first.status() is JobState.CANCELLED


async def test_many_jobs_are_enqueued_in_batches(app: App):
    @app.task
    async def add(a: int) -> int:
        return a + 1

    handles = await app.enqueue_many(add.job(n) for n in range(2500))
    assert len({handle.id for handle in handles}) == 2500
    assert await app.count(state="ready") == 2500
    await app.run_until_idle()
    assert await handles[-1].result() == 2500


async def test_a_refused_batch_leaves_the_earlier_ones_and_says_so(app: App):
    @app.task
    async def add(a: int) -> None: ...

    jobs = [add.job(n) for n in range(1500)]
    with pytest.raises(JobExists) as caught:
        await app.enqueue_many([*jobs, jobs[0]])
    assert caught.value.__notes__ == ["1000 jobs of earlier batches are stored"]
    assert await app.count() == 1000


async def test_what_is_not_a_job_is_refused_by_its_place(app: App):
    @app.task
    async def add(a: int) -> None: ...

    things: list[Any] = [add.job(1), add]
    with pytest.raises(ConfigError, match=r"item 1 of enqueue_many\(\) is <Task add>, not a job; .*task.job"):
        await app.enqueue_many(things)
    assert await app.count() == 0
    with pytest.raises(ConfigError, match="item 1000 of") as caught:
        await app.enqueue_many([*(add.job(n) for n in range(1000)), *things[1:]])
    assert caught.value.__notes__ == ["1000 jobs of earlier batches are stored"]
    with pytest.raises(ConfigError, match=r"enqueue\(\) was given is 5, not a job"):
        await app.enqueue(5)  # pyright: ignore[reportArgumentType]


async def test_a_batch_is_stored_whole_or_not_at_all(app: App):
    @app.task
    async def add(a: int) -> None: ...

    job = add.job(1)
    with pytest.raises(JobExists):
        await app.enqueue_many([add.job(0), job, job])
    assert await app.count() == 0


async def test_a_job_made_beforehand_is_enqueued_by_the_app(app: App):
    @app.task
    async def add(a: int) -> int:
        return a + 1

    job = await app.enqueue(add.job(1))
    await app.run_until_idle()
    assert await job.result() == 2


async def test_a_connection_that_the_store_cannot_use_is_refused(app: App):
    @app.task
    async def add(a: int) -> None: ...

    with pytest.raises(ConfigError, match=r"leave connection= out|cannot be enqueued on"):
        await app.enqueue(add.job(1), connection=object())


async def test_retries_follow_the_policy(app: App, clock: Clock):
    @app.task(retry=Retry(attempts=2, delay=10, jitter=0))
    async def flaky() -> int:
        if current_job().attempt == 1:
            raise OSError("no")
        return current_job().attempt

    job = await flaky.enqueue()
    await app.run_until_idle()
    assert "is to be tried again" in str(await job.explain())
    clock.advance(10)
    await app.run_until_idle()
    assert await job.result() == 2


async def test_a_worker_beside_the_loop_runs_jobs_and_sees_the_clock_move(app: App, clock: Clock):
    @app.task
    async def remind() -> str:
        return "reminded"

    async with app.worker(concurrency=5):
        job = await remind.options(delay=3600).enqueue()
        now = await remind.enqueue()
        assert await now.result(timeout=10) == "reminded"
        clock.advance(3600)
        assert await job.result(timeout=10) == "reminded"


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADGATE_URL", "memory://env")
    assert App().url == "memory://env"
    monkeypatch.delenv("HEADGATE_URL")
    assert App().url == "sqlite:///headgate.db"
    assert App("memory://").url == "memory://"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "nonsense"}, "not a URL"),
        ({"url": ""}, "must be a text"),
        ({"patience": -1}, "patience="),
        ({"reservation_ttl": -1}, "reservation_ttl="),
        ({"retention": {"running": 5}}, "'running' is not one of"),
        ({"retention": -5}, "retention of"),
        ({"payload_limit": 0}, "payload_limit="),
    ],
)
def test_an_app_with_options_that_cannot_work_is_refused(options: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        App(options.pop("url", "memory://"), **options)


async def test_a_failed_opening_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    app = App("memory://")

    async def fail(self: MemoryEngine) -> None:
        raise OSError("not yet")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryEngine, "open", fail)
        with pytest.raises(OSError, match="not yet"):
            await app.open()
    await app.open()


async def test_two_apps_on_one_named_store_share_jobs():
    one, two = App("memory://shared-by-two"), App("memory://shared-by-two")

    @one.task
    async def add(a: int) -> int:
        return a + 1

    two.task(add.fn)
    job = await add.enqueue(1)
    assert await two.run_until_idle() == 1
    assert await job.result() == 2
