"""What an app hangs around its tasks is around those of the sets that it includes, too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headgate import App, Depends, Retry, TaskDefaults, TaskSet, current_job

MakeApp = Callable[..., App]


class Client:
    def __init__(self, name: str) -> None:
        self.name = name


notes: list[str] = []


def open_client() -> Iterator[Client]:
    notes.append("opened")
    yield Client("real")
    notes.append("closed")


def fake_client() -> Client:
    return Client("fake")


tasks = TaskSet()


@tasks.task
async def greet(name: str, client: Client = Depends(open_client)) -> str:
    notes.append("called")
    return f"{client.name} {name} in {current_job().queue}, {current_job().state}"


@tasks.task
def greet_in_a_thread(name: str, client: Client = Depends(open_client)) -> str:
    notes.append("called")
    return f"{client.name} {name} in {current_job().queue}, {current_job().state}"


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[str]:
    yield "alive"


@pytest.mark.parametrize("task", [greet, greet_in_a_thread], ids=["async", "sync"])
async def test_a_task_of_a_set_gets_its_dependencies_inside_the_middleware(make_app: MakeApp, task: Any):
    app = make_app(lifespan=lifespan, defaults=TaskDefaults(queue="greetings"))
    app.include(tasks)
    notes.clear()

    @app.middleware
    async def around(job: Any, call_next: Any) -> Any:
        notes.append(f"before {job.task} {dict(job.args)}")
        answer = await call_next()
        notes.append("after")
        return answer

    job = await task.enqueue("ada")
    assert (await job.info()).args == {"name": "ada"}
    await app.run_until_idle(raise_errors=True)
    assert await job.result(timeout=0) == "real ada in greetings, alive"
    assert notes == [f"before {task.name} {{'name': 'ada'}}", "opened", "called", "closed", "after"]
    with app.override(open_client, fake_client):
        job = await task.enqueue("bob")
        await app.run_until_idle(raise_errors=True)
    assert await job.result(timeout=0) == "fake bob in greetings, alive"


async def test_errors_of_dependencies_and_middleware_are_raised_on_demand(make_app: MakeApp):
    app = make_app()
    failing = TaskSet()

    def broken() -> Client:
        raise OSError("no client")

    @failing.task(retry=Retry(attempts=2, delay=60))
    async def send(client: Client = Depends(broken)) -> None: ...

    @failing.task
    async def plain() -> None: ...

    app.include(failing)
    await send.enqueue()
    with pytest.raises(OSError, match="no client"):
        await app.run_until_idle(raise_errors=True)

    @app.middleware
    async def around(job: Any, call_next: Any) -> Any:
        raise LookupError(job.task)

    await plain.enqueue()
    with pytest.raises(LookupError, match="plain"):
        await app.run_until_idle(raise_errors=True)
    await plain.enqueue()
    assert await app.run_until_idle() == 1


async def test_an_error_that_middleware_handles_is_no_error_of_the_attempt(make_app: MakeApp):
    app = make_app()

    @app.task
    async def fail() -> str:
        raise LookupError("handled")

    @app.middleware
    async def around(job: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except LookupError:
            return "handled"

    job = await fail.enqueue()
    assert await app.run_until_idle(raise_errors=True) == 1
    assert await job.result(timeout=0) == "handled"
