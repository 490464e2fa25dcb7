# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportPrivateUsage=false
"""A program as a user would write it: mypy --strict and pyright must find every error that is marked, and no other.

A mark that is not needed is an error, too. Nothing here is run.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any, assert_type

from headgate import (
    App,
    AsyncTask,
    ConcurrencyLimit,
    FloatingLimitView,
    JobHandle,
    JobState,
    PayloadContext,
    Retry,
    StateName,
    SyncTask,
    TaskDefaults,
    TaskSet,
    current_job,
)
from headgate.hooks import NewJobInfo

app = App("memory://", defaults=TaskDefaults(timeout=30, retry=Retry(attempts=3)))
tasks = TaskSet()
app.include(tasks)


@app.task
async def fetch(url: str, times: int = 1) -> bytes:
    current_job().progress({"times": times})
    return b""


@app.task(queue="email", max_concurrent=3)
def render(name: Annotated[str, ConcurrencyLimit(1)]) -> str:
    return name


@tasks.task
async def from_a_set(number: int) -> float:
    return number / 2


@tasks.task(every=60)
def sync_from_a_set() -> None: ...


@app.floating_limit("llm", default=3)
async def capacity(limit: FloatingLimitView) -> int:
    return limit.held + (limit.current or 0)


@tasks.floating_limit("db", default=3)
def pool(limit: FloatingLimitView) -> int:
    return limit.waiting


class Sealed:
    def encode(self, data: bytes, context: PayloadContext) -> bytes:
        return bytes(context) + data

    def decode(self, data: bytes, context: PayloadContext) -> bytes:
        return data.removeprefix(bytes(context))


class Squeezed:
    def encode(self, data: bytes) -> bytes:
        return data

    def decode(self, data: bytes) -> bytes:
        return data


sealed = App("memory://", codec=Sealed(), types={Squeezed: (str, lambda text: Squeezed())})
squeezed = App("memory://", codec=Squeezed())


@sealed.enqueue_middleware
def add(job: NewJobInfo) -> dict[str, str]:
    return {"correlation-id": job.parent.headers["correlation-id"] if job.parent else job.id}


@sealed.enqueue_middleware
async def look_up(job: NewJobInfo) -> None: ...


async def calls() -> None:
    assert_type(await fetch("https://example.com"), bytes)
    assert_type(render("ada"), str)
    assert_type(await from_a_set(1), float)
    started: Coroutine[Any, Any, bytes] = fetch("https://example.com", times=2)
    started.close()


async def jobs() -> None:
    handle = await fetch.enqueue("https://example.com")
    assert_type(handle, JobHandle[bytes])
    assert_type(await handle.result(timeout=5), bytes)
    assert_type(await (await render.options(priority=3).enqueue("ada")).result(), str)
    assert_type(from_a_set.enqueue_sync(3).result_sync(), float)
    assert_type(await handle.status(), JobState)
    for info in await app.jobs(state=["failed", JobState.CANCELLED], task="fetch"):
        assert_type(info.state, JobState)
    assert_type(await app.enqueue(fetch.job("https://example.com")), JobHandle[bytes])
    assert_type(app.enqueue_sync(render.options(delay=1).job("ada")), JobHandle[str])
    for one in await app.enqueue_many(render.job(name) for name in ("ada", "bob")):
        assert_type(await one.result(), str)
    wanted: StateName = "failed"
    assert_type([info.to_dict() for info in await app.jobs(state=wanted)], list[dict[str, Any]])
    await app.enqueue_many([fetch.job("https://example.com"), render.job("ada")])


async def mistakes() -> None:
    await fetch.enqueue(5)  # type: ignore[arg-type]
    await fetch.enqueue("https://example.com", tims=1)  # type: ignore[call-arg]
    await from_a_set.enqueue()  # type: ignore[call-arg]
    text: str = await from_a_set(1)  # type: ignore[assignment]
    number: int = render("ada")  # type: ignore[assignment]
    await app.jobs(state="faild")  # type: ignore[arg-type]
    app.task(max_concurent=1)  # type: ignore[call-overload]
    render.options(on_conflict="ignore")  # type: ignore[arg-type]
    size: JobHandle[int] = await app.enqueue(render.job("ada"))  # type: ignore[arg-type]
    render.options(headers={"attempts": 1})  # type: ignore[dict-item]
    App("memory://", codec=app)  # type: ignore[arg-type]
    print(text, number, size)


def takes_either(first: AsyncTask[..., bytes], second: SyncTask[..., str]) -> None: ...


takes_either(fetch, render)
