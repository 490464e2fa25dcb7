from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from headgate import App, ConfigError, FailJob, FloatingLimit, JobFailed, Retry, RetryLater, current_job
from tests.hooks.conftest import ended

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


@pytest.fixture(params=["async", "sync"])
def adding(request: pytest.FixtureRequest, app: App):
    """A task that adds two numbers, as a coroutine or in a thread."""
    if request.param == "async":

        @app.task(name="add")
        async def add_in_coroutine(one: int, two: int = 1) -> int:
            if one < 0:
                raise ValueError("too small")
            return one + two

        return add_in_coroutine

    @app.task(name="add")
    def add_in_thread(one: int, two: int = 1) -> int:
        if one < 0:
            raise ValueError("too small")
        return one + two

    return add_in_thread


async def outcome(app: App, job):
    """What became of a job: its result, or its error's first line."""
    await app.run_until_idle()
    try:
        return await job.result(timeout=0)
    except JobFailed as error:
        return str(error).partition("\n")[0]


async def test_middleware_nests_in_the_order_of_registration(app: App, adding):
    notes: list[str] = []

    def named(name: str):
        async def around(job, call_next):
            notes.append(f"{name} before")
            result = await call_next()
            notes.append(f"{name} after {result}")
            return result

        return around

    app.middleware(named("outer"))
    app.middleware(named("inner"))
    assert await outcome(app, await adding.enqueue(1)) == 2
    assert notes == ["outer before", "inner before", "inner after 2", "outer after 2"]


async def test_middleware_sees_the_job_with_its_arguments(app: App, adding):
    seen = []

    @app.middleware
    async def around(job, call_next):
        seen.append((job.id, job.task, job.attempt, dict(job.args), current_job() is job))
        with pytest.raises(TypeError):
            job.args["one"] = 2
        return await call_next()

    job = await adding.enqueue(41, two=1)
    assert await outcome(app, job) == 42
    assert seen == [(job.id, "add", 1, {"one": 41, "two": 1}, True)]


async def test_middleware_may_return_another_result(app: App, adding):
    @app.middleware
    async def around(job, call_next):
        return -(await call_next())

    assert await outcome(app, await adding.enqueue(1)) == -2


async def test_middleware_may_leave_the_task_out(app: App, adding):
    @app.middleware
    async def around(job, call_next):
        return 7

    assert await outcome(app, await adding.enqueue(-1)) == 7


async def test_middleware_sees_the_exception_and_may_swallow_it(app: App, adding):
    seen = []

    @app.middleware
    async def around(job, call_next):
        try:
            return await call_next()
        except ValueError as error:
            seen.append(str(error))
            return 0

    assert await outcome(app, await adding.enqueue(-1)) == 0
    assert seen == ["too small"]


async def test_middleware_may_say_how_the_attempt_ends(app: App, adding):
    @app.middleware
    async def around(job, call_next):
        try:
            return await call_next()
        except ValueError:
            raise FailJob("not today") from None

    assert "not today" in str(await outcome(app, await adding.enqueue(-1)))


async def test_middleware_may_ask_for_another_attempt(app: App, clock):
    attempts = []

    @app.task(retry=Retry(attempts=3))
    async def work() -> int:
        return current_job().attempt

    @app.middleware
    async def around(job, call_next):
        attempts.append(job.attempt)
        if job.attempt == 1:
            raise RetryLater(60)
        return await call_next()

    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.status() == "scheduled"
    clock.advance(60)
    assert await outcome(app, job) == 2
    assert attempts == [1, 2]


async def test_what_middleware_raises_is_retried_by_the_policy_like_an_error_of_the_task(app: App):
    @app.task(retry=Retry(attempts=2, delay=0))
    async def work() -> int:
        return current_job().attempt

    @app.middleware
    async def around(job, call_next):
        if job.attempt == 1:
            raise OSError("no connection")
        return await call_next()

    assert await outcome(app, await work.enqueue()) == 2


async def test_the_task_may_be_called_again(app: App):
    calls = []

    @app.task
    def work() -> int:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            raise OSError("once")
        return len(calls)

    @app.middleware
    async def twice(job, call_next):
        try:
            return await call_next()
        except OSError:
            return await call_next()

    assert await outcome(app, await work.enqueue()) == 2


async def test_a_synchronous_task_cannot_be_called_twice_at_once(app: App):
    gate = threading.Event()

    @app.task
    def work() -> None:
        gate.wait(10)

    @app.middleware
    async def twice(job, call_next):
        first = asyncio.ensure_future(call_next())
        await asyncio.sleep(0)
        try:
            await call_next()
        finally:
            gate.set()
            await first

    assert "before it had ended" in str(await outcome(app, await work.enqueue()))


async def test_a_context_variable_that_middleware_sets_is_seen_by_the_task(app: App):
    seen = []

    @app.task
    async def on_loop() -> str:
        return request_id.get()

    @app.task
    def in_thread() -> str:
        seen.append(threading.current_thread() is threading.main_thread())
        return request_id.get()

    @app.middleware
    async def around(job, call_next):
        request_id.set(f"request of {job.task}")
        return await call_next()

    assert await outcome(app, await on_loop.enqueue()) == "request of on_loop"
    assert await outcome(app, await in_thread.enqueue()) == "request of in_thread"
    assert seen == [False]
    assert request_id.get() == "none"


async def test_middleware_around_a_synchronous_task_runs_on_the_event_loop(app: App):
    threads = []

    @app.task
    def work() -> None:
        threads.append(threading.get_ident())

    @app.middleware
    async def around(job, call_next):
        threads.append(threading.get_ident())
        return await call_next()

    await outcome(app, await work.enqueue())
    assert threads[0] == threading.get_ident() != threads[1]


async def test_a_thread_is_waited_for_though_what_surrounds_it_is_out_of_time(app: App):
    """The slot belongs to what really runs: the thread, not the coroutine that gave up on it."""
    gate, began = threading.Event(), threading.Event()

    @app.task(max_concurrent=1, timeout=0.1)
    def work() -> str:
        began.set()
        gate.wait(20)
        return "done after all"

    @app.middleware
    async def around(job, call_next):
        return await call_next()

    async with app.worker():
        job = await work.enqueue()
        await asyncio.to_thread(began.wait, 20)
        async with app.worker():  # another worker, whose view of the slot is the store's
            await asyncio.sleep(0.3)
            assert await job.status() == "running"
            assert [limit.held for limit in await app.limits() if limit.name == "task:work"] == [1]
            gate.set()
            with pytest.raises(JobFailed, match="did not end within its timeout"):
                await job.result(timeout=20)


async def test_a_timeout_of_the_middleware_waits_for_the_thread_too(app: App):
    gate, began = threading.Event(), threading.Event()
    ended = []

    @app.task
    def work() -> None:
        began.set()
        gate.wait(20)
        ended.append("thread")

    @app.middleware
    async def around(job, call_next):
        try:
            async with asyncio.timeout(0.05):
                return await call_next()
        finally:
            ended.append("middleware")

    async with app.worker():
        job = await work.enqueue()
        await asyncio.to_thread(began.wait, 20)
        await asyncio.sleep(0.15)
        assert ended == []
        gate.set()
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.result(timeout=20)
    assert ended == ["thread", "middleware"]


async def test_what_surrounds_a_synchronous_task_can_be_cancelled_before_it_runs(app: App):
    waiting, ran = asyncio.Event(), []

    @app.task
    def work() -> None:
        ran.append(True)

    @app.middleware
    async def around(job, call_next):
        waiting.set()
        await asyncio.sleep(3600)
        return await call_next()

    async with app.worker():
        job = await work.enqueue()
        await asyncio.wait_for(waiting.wait(), 20)
        await job.cancel()
        await ended(app, job.id)
    assert (await job.status(), ran) == ("cancelled", [])


async def test_threads_that_are_kept_for_attempts_come_back(app: App):
    """One thread, many jobs: of those whose middleware never calls the task, too."""
    ran = []

    @app.task
    def work(n: int) -> None:
        ran.append(n)

    @app.middleware
    async def around(job, call_next):
        return await call_next() if job.args["n"] % 2 else None

    await app.enqueue_many(work.job(n) for n in range(20))
    async with app.worker(threads=1, concurrency=5):
        await ended(app)
    assert sorted(ran) == list(range(1, 20, 2))


async def test_refreshes_of_floating_limits_have_no_middleware_around_them(app: App):
    seen, refreshed = [], []

    @app.floating_limit("llm", default=1, every=1)
    async def llm(limit) -> int:
        refreshed.append(limit.key)
        return 2

    @app.task(limits=[FloatingLimit("llm")])
    async def work() -> None: ...

    @app.middleware
    async def around(job, call_next):
        seen.append(job.task)
        return await call_next()

    await app.enqueue_many([work.job(), work.job()])  # the second waits, so the key is in use
    await app.run_until_idle()
    assert refreshed == ["llm"]
    assert seen == ["work", "work"]


@pytest.mark.parametrize("wrong", [42, lambda job, call_next: None, print])
def test_what_is_not_an_async_function_is_refused(wrong):
    with pytest.raises(ConfigError, match="an async function is needed"):
        App("memory://").middleware(wrong)


def test_middleware_with_other_parameters_is_refused():
    async def around(job): ...

    with pytest.raises(ConfigError, match="two arguments"):
        App("memory://").middleware(around)  # pyright: ignore[reportArgumentType]
