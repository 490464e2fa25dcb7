# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportPrivateUsage=false
"""A program as a user would write it: mypy --strict and pyright must find every error that is marked, and no other.

A mark that is not needed is an error, too. Nothing here is run.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, assert_type

from headgate import (
    App,
    AsyncTask,
    ConcurrencyLimit,
    FloatingLimitView,
    JobHandle,
    JobState,
    PayloadContext,
    RateLimit,
    Retry,
    ShareInfo,
    StateName,
    SyncTask,
    TaskDefaults,
    TaskSet,
    Throttled,
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


def width(plan: str) -> int | None:
    return {"free": 1}.get(plan)


def plan_of(plan: str) -> str:
    return plan


app.queue(
    "ai", share_by="tenant", weights={"gold": 3}, charge="time", max_waiting=5, on_overflow="drop_oldest"
)
app.queue("by_plan", share_by=plan_of)


@app.task(
    queue="ai",
    expires=60,
    limits=[
        ConcurrencyLimit(64, cost="gb", scope="gpu", when_full="drop"),
        ConcurrencyLimit("user", max_concurrent=width, scope="user", max_waiting=9),
        RateLimit(width, per=60, cost="estimate", scope="tokens"),
    ],
)
async def ask(user: int, plan: str, gb: int, estimate: int) -> str:
    current_job().spent("tokens", 12)
    raise Throttled(retry_after=12, limit="tokens")


async def flow() -> None:
    debounced = ask.options(unique="k", on_conflict="update", delay=5, at_most=timedelta(seconds=30))
    assert_type(await debounced.enqueue(1, "free", 2, 3), JobHandle[str])
    ask.options(unique="k", unique_for=60, expires=datetime.now(UTC), share="gold")
    await app.set_share("gold", weight=3, by="ops", until=60)
    app.set_share_sync("gold", 2.5)
    assert_type(await app.shares(), list[ShareInfo])
    assert_type(app.clear_share_sync("gold"), bool)


async def mistakes() -> None:
    ConcurrencyLimit(5, when_full="panic")  # type: ignore[arg-type]
    ConcurrencyLimit(5, max_concurrent=plan_of)  # type: ignore[arg-type]
    RateLimit(5, per=60, on_overflow="wait")  # type: ignore[arg-type]
    app.queue("ai", charge="money")  # type: ignore[arg-type]
    await app.set_share("gold", weight="3")  # type: ignore[arg-type]
    ask.options(unique_for="a minute")  # type: ignore[arg-type]
    current_job().spent("tokens", "many")  # type: ignore[arg-type]
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
