from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from headgate import App, ConfigError, LifespanError, current_job
from headgate.hooks.lifespan import entered
from tests.hooks.conftest import MakeApp
from tests.support.waiting import until


def noting(notes: list[str], state=None):
    """A lifespan that notes when it is entered and left."""

    @asynccontextmanager
    async def lifespan(app: App):
        notes.append("entered")
        yield state
        notes.append("left")

    return lifespan


def with_task(app: App, notes: list[str]):
    @app.task
    async def work():
        notes.append("worked")
        return current_job().state

    return work


async def test_the_lifespan_is_around_the_work_and_gives_its_state(make_app: MakeApp):
    notes: list[str] = []
    app = make_app(lifespan=noting(notes, "the state"))
    job = await with_task(app, notes).enqueue()
    await app.run_until_idle()
    assert notes == ["entered", "worked", "left"]
    assert await job.result() == "the state"


async def test_an_embedded_worker_is_inside_the_lifespan_while_it_works(make_app: MakeApp):
    notes: list[str] = []
    app = make_app(lifespan=noting(notes))
    work = with_task(app, notes)
    async with app.worker():
        assert notes == ["entered"]
        await (await work.enqueue()).result(timeout=20)
        assert notes == ["entered", "worked"]
    assert notes == ["entered", "worked", "left"]


async def test_a_synchronous_task_sees_the_state_too(make_app: MakeApp):
    app = make_app(lifespan=noting([], {"pool": 7}))

    @app.task
    def work() -> int:
        return current_job().state["pool"]

    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == 7


async def test_the_lifespan_gets_the_app_and_may_be_synchronous(make_app: MakeApp):
    seen: list[object] = []

    @contextmanager
    def lifespan(app: App):
        seen.append(app)
        yield "plain"
        seen.append("left")

    app = make_app(lifespan=lifespan)
    job = await with_task(app, []).enqueue()
    await app.run_until_idle()
    assert seen == [app, "left"]
    assert await job.result() == "plain"


async def test_without_the_decorator_a_generator_function_will_do(make_app: MakeApp):
    async def lifespan(app: App):
        yield 1

    app = make_app(lifespan=lifespan)
    job = await with_task(app, []).enqueue()
    await app.run_until_idle()
    assert await job.result() == 1


async def test_a_lifespan_that_raises_keeps_the_worker_from_working(make_app: MakeApp):
    @asynccontextmanager
    async def lifespan(app: App):
        raise ConnectionError("no route to the database")
        yield

    app, notes = make_app(lifespan=lifespan), []
    job = await with_task(app, notes).enqueue()
    with pytest.raises(LifespanError, match=r"lifespan failed.*ConnectionError: no route") as caught:
        await app.run_worker()
    assert isinstance(caught.value.__cause__, ConnectionError)
    with pytest.raises(LifespanError):
        async with app.worker():
            pass
    assert (await job.status(), notes) == ("ready", [])
    assert await app.workers() == []


async def test_a_lifespan_that_raises_when_it_is_left_is_told_after_all_work_is_done(make_app: MakeApp):
    @asynccontextmanager
    async def lifespan(app: App):
        yield
        raise OSError("cannot be closed")

    app = make_app(lifespan=lifespan)
    job = await with_task(app, []).enqueue()
    with pytest.raises(LifespanError, match=r"when it was left: OSError: cannot be closed"):
        await app.run_until_idle()
    assert await job.status() == "succeeded"


@pytest.mark.parametrize("lifespan", [lambda app: None, lambda: None])
async def test_a_function_that_is_no_context_manager_is_refused_by_name(make_app: MakeApp, lifespan):
    with pytest.raises(LifespanError, match="lambda"):
        await make_app(lifespan=lifespan).run_until_idle()


def test_a_lifespan_that_cannot_be_called_is_refused_at_once():
    with pytest.raises(ConfigError, match="lifespan=42"):
        App("memory://", lifespan=42)  # pyright: ignore[reportArgumentType]


async def test_a_worker_that_is_stopped_while_its_lifespan_is_entered_gives_up_entering(make_app: MakeApp):
    entering, ended = asyncio.Event(), []

    @asynccontextmanager
    async def lifespan(app: App):
        entering.set()
        try:
            await asyncio.sleep(3600)
            yield
        finally:
            ended.append(True)

    app = make_app(lifespan=lifespan)
    worker = await app._worker({})
    running = asyncio.create_task(worker.run())
    await entering.wait()
    worker.stop()
    await asyncio.wait_for(running, 10)
    assert ended == [True]


async def test_a_lifespan_that_swallows_an_error_of_the_worker_does_not_hide_it(make_app: MakeApp):
    @asynccontextmanager
    async def lifespan(app: App):
        with suppress(asyncio.CancelledError):
            yield

    app = make_app(lifespan=lifespan)
    working = asyncio.create_task(app.run_worker())

    async def registered() -> bool:
        return bool(await app.workers())

    await until(registered)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_the_lifespan_is_left_with_the_error_that_ends_the_work():
    left: list[BaseException] = []

    @asynccontextmanager
    async def lifespan(app: None):
        try:
            yield
        except BaseException as error:
            left.append(error)
            raise

    error = ConnectionError("gone")
    with pytest.raises(ConnectionError):
        async with entered(lifespan, None):
            raise error
    assert left == [error]


async def test_the_end_of_a_worker_whose_lifespan_failed_is_not_told_as_a_crash(make_app: MakeApp, caplog):
    async def lifespan(app: App):
        raise ConnectionError("gone")
        yield

    with caplog.at_level(logging.CRITICAL), pytest.raises(LifespanError):
        await make_app(lifespan=lifespan).run_worker()
    assert not caplog.records
