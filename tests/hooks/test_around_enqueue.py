# pyright: reportRedeclaration=false
from __future__ import annotations

from typing import Any

import pytest

from headgate import App, ConfigError, HeadgateError, JobExists


async def test_what_stands_around_an_enqueue_sees_its_jobs_and_its_handles(app: App):
    seen: list[Any] = []

    @app.around_enqueue
    async def around(jobs: Any, call_next: Any) -> Any:
        seen.append([(job.task, job.args, dict(job.headers)) for job in jobs])
        handles = await call_next()
        seen.append([handle.id for handle in handles])
        return handles

    @app.task
    async def work(number: int) -> None: ...

    one = await work.options(headers={"a": "b"}).enqueue(1)
    many = await app.enqueue_many([work.job(2), work.job(3)])
    assert seen == [
        [("work", {"number": 1}, {"a": "b"})],
        [one.id],
        [("work", {"number": 2}, {}), ("work", {"number": 3}, {})],
        [job.id for job in many],
    ]


async def test_the_first_stands_outermost_and_all_around_the_middleware(app: App):
    order: list[str] = []

    def standing(name: str) -> Any:
        async def around(jobs: Any, call_next: Any) -> Any:
            order.append(name)
            try:
                return await call_next()
            finally:
                order.append(f"{name} over")

        return around

    app.around_enqueue(standing("outer"))
    app.around_enqueue(standing("inner"))

    @app.enqueue_middleware
    def add(job: Any) -> None:
        order.append("middleware")

    @app.on("enqueued")
    def told(event: Any) -> None:
        order.append("enqueued")

    @app.task
    def work() -> None: ...

    work.enqueue_sync()
    assert order == ["outer", "inner", "middleware", "enqueued", "inner over", "outer over"]


async def test_it_sees_what_the_store_refuses_and_may_raise_itself(app: App):
    seen: list[str] = []

    @app.around_enqueue
    async def around(jobs: Any, call_next: Any) -> Any:
        if jobs[0].tenant == "closed":
            raise PermissionError("closed")
        try:
            return await call_next()
        except JobExists as error:
            seen.append(type(error).__name__)
            raise

    @app.task
    async def work() -> None: ...

    await work.options(id="one").enqueue()
    with pytest.raises(JobExists):
        await work.options(id="one").enqueue()
    with pytest.raises(PermissionError):
        await work.options(tenant="closed").enqueue()
    assert seen == ["JobExists"]
    assert len(await app.jobs()) == 1


async def test_a_function_that_forgets_the_handles_is_told_so(app: App):
    @app.around_enqueue
    async def around(jobs: Any, call_next: Any) -> Any:
        await call_next()

    @app.task
    async def work() -> None: ...

    with pytest.raises(HeadgateError, match="must return what its call_next"):
        await work.enqueue()


@pytest.mark.parametrize(
    ("function", "text"),
    [(lambda jobs, call_next: None, "an async function is needed"), (7, "an async function is needed")],
)
def test_what_cannot_stand_around_is_refused(app: App, function: Any, text: str):
    with pytest.raises(ConfigError, match=text):
        app.around_enqueue(function)


def test_a_function_of_other_parameters_is_refused(app: App):
    async def around(jobs: Any) -> Any: ...

    with pytest.raises(ConfigError, match="two arguments: jobs and call_next"):
        app.around_enqueue(around)  # pyright: ignore[reportArgumentType]


async def test_periodic_jobs_have_middleware_but_nothing_around(app: App, clock: Any):
    seen: list[str] = []

    @app.around_enqueue
    async def around(jobs: Any, call_next: Any) -> Any:
        seen.append("around")
        return await call_next()

    @app.enqueue_middleware
    def add(job: Any) -> None:
        seen.append("middleware")

    @app.task(every=60)
    async def tick() -> None: ...

    await app.run_until_idle()
    clock.advance(61)
    await app.run_until_idle()
    assert seen == ["middleware"]
