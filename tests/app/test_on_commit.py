"""`app.on_commit()`: jobs are kept back while the block lasts, and stored when it has ended well."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from headgate import App, ConfigError, EngineUnavailable, JobExists, JobNotFound, SyncTask
from headgate.app.on_commit import OnCommit
from headgate.engine.contract import Enqueued
from headgate.job import NewJob
from headgate.testing.plugin import AppFactory


@pytest.fixture
def note(app: App) -> SyncTask[[int], int]:
    @app.task
    def note(number: int) -> int:
        return number

    return note


async def test_jobs_are_stored_at_the_end_of_the_block(app: App, note: SyncTask[[int], int]):
    async with app.on_commit() as block:
        one = await note.enqueue(1)
        two = await note.options(priority=3).enqueue(2)
        more = await app.enqueue_many([note.job(3), note.job(4)])
        assert await app.count() == 0
        assert [job.id for job in block.jobs] == [job.id for job in (one, two, *more)]
        assert not one.created
    assert block.jobs == []
    assert all(job.created for job in (one, two, *more))
    assert await app.run_until_idle() == 4
    assert await more[1].result(timeout=0) == 4


async def test_jobs_are_forgotten_if_the_block_ends_with_an_exception(app: App, note: SyncTask[[int], int]):
    job: Any = None
    with suppress(LookupError):
        async with app.on_commit():
            job = await note.enqueue(1)
            raise LookupError
    assert await app.count() == 0
    with pytest.raises(JobNotFound, match=r"never stored: the .* block .* ended with an exception"):
        await job.result(timeout=0)


def test_the_block_works_without_a_loop(app: App, note: SyncTask[[int], int]):
    with app.on_commit():
        job = note.enqueue_sync(1)
        app.enqueue_many_sync([note.job(2)])
        assert app.count_sync() == 0
        with pytest.raises(JobNotFound, match=r"kept back by .* until the commit"):
            job.status_sync()
    assert app.count_sync() == 2
    assert job.status_sync() == "ready"


async def test_an_inner_block_hands_its_jobs_to_the_outer_one(app: App, note: SyncTask[[int], int]):
    async with app.on_commit():
        async with app.on_commit():
            first = await note.enqueue(1)
        assert await app.count() == 0, "the outer transaction may still be rolled back"
        with suppress(LookupError):
            async with app.on_commit():
                await note.enqueue(2)
                raise LookupError
        with app.transaction(None):
            second = await note.enqueue(3)
        assert await app.count() == 1
    assert await app.count(ids=[first.id, second.id]) == 2
    assert await app.count() == 2


async def test_concurrent_tasks_do_not_share_a_block(app: App, note: SyncTask[[int], int]):
    inside, counted = asyncio.Barrier(2), asyncio.Event()

    async def keeps() -> None:
        async with app.on_commit():
            await note.options(id="kept").enqueue(1)
            await inside.wait()
            await counted.wait()

    async def stores() -> None:
        await inside.wait()
        await note.options(id="free").enqueue(2)
        assert [job.id for job in await app.jobs()] == ["free"]
        counted.set()

    await asyncio.gather(keeps(), stores())
    assert await app.count() == 2


async def test_a_unique_job_becomes_the_one_that_is_there(app: App, note: SyncTask[[int], int]):
    there = await note.options(unique="u").enqueue(1)
    async with app.on_commit():
        job = await note.options(unique="u").enqueue(2)
        other = await note.enqueue(3)
    assert (job.id, job.created) == (there.id, False)
    assert other.created
    assert await app.count() == 2


async def test_a_refused_job_holds_back_no_other(app: App, note: SyncTask[[int], int]):
    """The transaction is committed: what can be stored is stored, and the refusal is raised then."""
    await note.options(id="there").enqueue(1)
    block = app.on_commit()

    async def work(block: OnCommit, *ids: str) -> None:
        async with block:
            for id in ids:
                await note.options(id=id).enqueue(2)

    with pytest.raises(JobExists, match="there"):
        await work(block, "one", "there", "two")
    assert {info.id for info in await app.jobs()} == {"there", "one", "two"}
    assert block.jobs == []
    with pytest.raises(ExceptionGroup) as raised:
        await work(app.on_commit(), "one", "three", "two")
    assert [type(error) for error in raised.value.exceptions] == [JobExists, JobExists]
    assert await app.count() == 4


class Away:
    """A store that answers the n-th enqueue only after it is too late."""

    def __init__(self, app: App, *, stores: bool) -> None:
        self.stores = stores
        self.real: Callable[..., Any] = app._client.enqueue

    async def __call__(self, jobs: list[NewJob], connection: Any = None) -> list[Enqueued]:
        if self.stores:
            await self.real(jobs, connection)
        raise EngineUnavailable("away")


@pytest.mark.parametrize("stores", [True, False])
async def test_what_could_not_be_stored_can_be_stored_later_and_never_twice(
    app: App, note: SyncTask[[int], int], monkeypatch: pytest.MonkeyPatch, stores: bool
):
    block, jobs = app.on_commit(), list[Any]()

    async def work() -> None:
        async with block:
            jobs.extend([await note.enqueue(1), await note.enqueue(2)])

    with monkeypatch.context() as patch:
        patch.setattr(app._client, "enqueue", Away(app, stores=stores))
        with pytest.raises(EngineUnavailable) as raised:
            await work()
    assert "2 jobs kept back" in raised.value.__notes__[0]
    assert [job.id for job in block.jobs] == [job.id for job in jobs]
    await block.store()
    assert block.jobs == []
    assert await app.count() == 2
    assert await app.run_until_idle() == 2
    assert await jobs[1].result(timeout=0) == 2
    block.store_sync()


async def test_thousands_of_jobs_are_stored_in_steps(headgate_app: AppFactory):
    app = headgate_app()

    @app.task
    def note(number: int) -> int:
        return number

    async with app.on_commit():
        await app.enqueue_many(note.job(number) for number in range(1500))
        for number in range(700):
            await note.enqueue(number)
    assert await app.count() == 2200


def test_a_hook_of_the_database_says_when_each_call_is_stored(app: App, note: SyncTask[[int], int]):
    """As Django's connection does, which knows which savepoints were rolled back."""
    committed: list[Callable[[], Any]] = []
    with app.on_commit(committed.append):
        first = note.enqueue_sync(1)
        note.enqueue_sync(2)
    assert app.count_sync() == 0
    assert len(committed) == 2
    committed[0]()
    assert [job.id for job in app.jobs_sync()] == [first.id]
    with app.on_commit():  # whatever stands around the commit
        committed[1]()
        assert app.count_sync() == 2


def test_the_hook_is_called_by_the_thread_that_enqueues(app: App, note: SyncTask[[int], int]):
    """Which connection is meant may depend on it. A hook that knows of no transaction calls back at once."""
    threads: list[int] = []

    def register(store: Callable[[], Any]) -> None:
        threads.append(threading.get_ident())
        store()

    with app.on_commit(register):
        job = note.enqueue_sync(1)
        assert job.status_sync() == "ready"
    assert threads == [threading.get_ident()]


async def test_what_is_no_hook_is_refused(app: App):
    with pytest.raises(ConfigError, match=r"a function is needed .* such as connection\.on_commit"):
        app.on_commit(object())  # pyright: ignore[reportArgumentType]


async def test_events_are_told_when_the_jobs_are_stored(app: App, note: SyncTask[[int], int]):
    told: list[str] = []
    app.on("enqueued", lambda event: told.append(event.job))
    async with app.on_commit():
        job = await note.enqueue(1)
        assert told == []
    assert told == [job.id]
