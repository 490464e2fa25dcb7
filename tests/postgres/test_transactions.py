"""`app.transaction(connection)`: every enqueue inside joins, nothing else does, and what cannot work says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import asyncpg
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headgate import (
    App,
    ConfigError,
    EngineUnavailable,
    HeadgateError,
    JobExists,
    JobNotFound,
    SyncTask,
    TaskSet,
)
from headgate.testing import use_store
from tests.postgres.callers import (
    WAYS,
    Open,
    by_asyncpg,
    by_psycopg,
    by_psycopg_async,
    by_sqlalchemy_async,
    settled,
)
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import eventually, until


def made(url: str) -> tuple[App, SyncTask[[int], int]]:
    app = App(url)

    @app.task
    def note(number: int) -> int:
        return number

    return app, note


@pytest.fixture
def url(process: PostgresProcess, schema: str) -> str:
    return process.url(quote(schema))


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    app, _ = made(url)
    async with app:
        yield app
        assert (await app.audit()).ok


@pytest.fixture
def note(app: App) -> Any:
    return app.tasks["note"]


@pytest.fixture
def elsewhere(process: PostgresProcess) -> Iterator[str]:
    """A database on the same server, without a store."""
    process.execute("CREATE DATABASE elsewhere")
    yield process.dsn.removesuffix("postgres") + "elsewhere"
    process.execute("DROP DATABASE elsewhere WITH (FORCE)")


@pytest.mark.parametrize("way", WAYS)
async def test_everything_that_is_enqueued_inside_joins(
    app: App, note: Any, process: PostgresProcess, way: Open
) -> None:
    async with way(process.dsn) as (connection, commit, _):
        async with app.transaction(connection):
            one = await note.enqueue(1)
            two = await note.options(priority=3).enqueue(2)
            three = await app.enqueue(note.job(3))
            more = await app.enqueue_many(note.job(number) for number in range(4, 7))
        assert await app.count() == 0
        await settled(commit)
    assert await app.count(ids=[job.id for job in (one, two, three, *more)]) == 6
    assert await app.run_until_idle() == 6
    assert await more[-1].result(timeout=5) == 6


@pytest.mark.parametrize("way", WAYS)
async def test_everything_is_gone_with_the_rollback(
    app: App, note: Any, process: PostgresProcess, way: Open
) -> None:
    async with way(process.dsn) as (connection, _, rollback):
        async with app.transaction(connection):
            await note.enqueue(1)
            await app.enqueue_many([note.job(2), note.job(3)])
        await settled(rollback)
    assert await app.count() == 0


@pytest.mark.parametrize("way", [by_psycopg, by_sqlalchemy_async])
async def test_the_block_may_stand_around_the_transaction(
    app: App, note: Any, process: PostgresProcess, way: Open
):
    """It begins and ends nothing, and sends nothing before the first enqueue."""
    with psycopg.connect(process.dsn) as connection, app.transaction(connection):
        with connection.transaction():
            await note.enqueue(1)
        assert await app.count() == 1, "the connection's own block has committed"
    connection = await asyncpg.connect(process.dsn)
    async with app.transaction(connection), connection.transaction():
        await note.enqueue(2)
    await connection.close()
    assert await app.count() == 2


def test_the_sync_twins_join_a_sync_connection(url: str, process: PostgresProcess) -> None:
    app, note = made(url)
    with app, psycopg_pool.ConnectionPool(process.dsn, min_size=1, open=True) as pool:
        with pool.connection() as connection, app.transaction(connection):
            jobs = [
                note.enqueue_sync(1),
                note.options(delay=1).enqueue_sync(2),
                app.enqueue_sync(note.job(3)),
            ]
            jobs += app.enqueue_many_sync([note.job(4), note.job(5)])
            assert app.count_sync() == 0
        assert app.count_sync(ids=[job.id for job in jobs]) == 5
        with suppress(RuntimeError), pool.connection() as connection, app.transaction(connection):
            note.enqueue_sync(6)
            raise RuntimeError
        assert app.count_sync() == 5


def test_a_scoped_session_joins(url: str, process: PostgresProcess) -> None:
    app, note = made(url)
    engine = sqlalchemy.create_engine(process.dsn.replace("postgresql://", "postgresql+psycopg://"))
    session = scoped_session(sessionmaker(engine))
    with app, app.transaction(session):
        note.enqueue_sync(1)
        assert app.count_sync() == 0
        session.commit()
        assert app.count_sync() == 1
    session.remove()
    engine.dispose()


def test_a_scoped_session_that_is_named_is_that_of_the_callers_thread(
    url: str, process: PostgresProcess
) -> None:
    app, note = made(url)
    engine = sqlalchemy.create_engine(process.dsn.replace("postgresql://", "postgresql+psycopg://"))
    session = scoped_session(sessionmaker(engine))
    with app:
        app.enqueue_sync(note.job(1), connection=session)
        app.enqueue_many_sync([note.job(2)], connection=session)
        assert app.count_sync() == 0
        session.commit()
        assert app.count_sync() == 2
    session.remove()
    engine.dispose()


async def test_a_task_of_a_set_joins_the_transaction_of_its_app(url: str, process: PostgresProcess) -> None:
    tasks = TaskSet()

    @tasks.task
    async def hello() -> None: ...

    app = App(url)
    app.include(tasks)
    async with app, by_asyncpg(process.dsn) as (connection, _, rollback):
        async with app.transaction(connection):
            await hello.enqueue()
            await hello.options(priority=1).enqueue()
        await rollback()
        assert await app.count() == 0


# ── what does not join ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_concurrent_requests_each_have_their_own_transaction(
    app: App, note: Any, process: PostgresProcess
):
    inside = asyncio.Barrier(3)

    async def request(number: int, commits: bool) -> None:
        async with by_asyncpg(process.dsn) as (connection, commit, rollback), app.transaction(connection):
            await inside.wait()
            await note.options(id=f"job {number}").enqueue(number)
            await inside.wait()
            await (commit() if commits else rollback())

    async def without() -> None:
        await inside.wait()
        await note.options(id="free").enqueue(0)
        assert await app.handle("free").status() == "ready"
        await inside.wait()

    await asyncio.gather(request(1, True), request(2, False), without())
    assert {job.id for job in await app.jobs()} == {"job 1", "free"}


async def test_another_app_on_the_same_store_does_not_join(
    app: App, note: Any, url: str, process: PostgresProcess
):
    other, same = made(url)
    async with other, by_asyncpg(process.dsn) as (connection, _, rollback):
        async with app.transaction(connection):
            await same.options(id="other").enqueue(1)
            await note.enqueue(2)
        await rollback()
    assert [job.id for job in await app.jobs()] == ["other"]


async def test_nested_blocks_join_the_innermost_and_none_joins_nothing(
    app: App, note: Any, process: PostgresProcess
):
    async with (
        by_asyncpg(process.dsn) as (outer, commit, _),
        by_psycopg(process.dsn) as (inner, _, roll_inner_back),
    ):
        async with app.transaction(outer):
            await note.options(id="first").enqueue(1)
            with app.transaction(inner):
                await note.options(id="second").enqueue(2)
            with app.transaction(None):
                await note.options(id="audit").enqueue(3)
            await note.options(id="third").enqueue(4)
            assert [job.id for job in await app.jobs()] == ["audit"]
        roll_inner_back()
        await commit()
    assert {job.id for job in await app.jobs()} == {"first", "audit", "third"}


async def test_what_a_worker_runs_meanwhile_does_not_join(
    app: App, note: Any, process: PostgresProcess
) -> None:
    @app.task
    async def parent() -> None:
        await note.options(id="child").enqueue(1)

    async with by_asyncpg(process.dsn) as (connection, _, rollback):
        job = await parent.enqueue()
        async with app.transaction(connection), app.worker():
            await job.result(timeout=10)
            assert await app.handle("child").result(timeout=10) == 1
        await rollback()
    assert await app.count() == 2


async def test_tasks_and_threads_that_the_body_starts_join_while_it_lasts(
    app: App, note: Any, process: PostgresProcess
):
    over = asyncio.Event()

    async def late() -> None:
        await over.wait()
        await note.options(id="late").enqueue(3)

    async with by_asyncpg(process.dsn) as (connection, _, rollback):
        async with app.transaction(connection):
            await asyncio.gather(*(note.enqueue(number) for number in range(5)))
            straggler = asyncio.create_task(late())
        assert await app.count() == 0
        over.set()
        await straggler
        await rollback()
    with psycopg.connect(process.dsn) as connection, app.transaction(connection):
        await asyncio.to_thread(note.enqueue_sync, 4)
        thread = threading.Thread(target=note.options(id="thread").enqueue_sync, args=(5,))
        thread.start()  # a bare thread has a context of its own
        await asyncio.to_thread(thread.join)
        connection.rollback()
    assert {job.id for job in await app.jobs()} == {"late", "thread"}


async def test_a_connection_that_is_named_counts_more_than_the_block(
    app: App, note: Any, process: PostgresProcess
):
    async with by_asyncpg(process.dsn) as (one, _, _), by_asyncpg(process.dsn) as (two, commit, _):
        async with app.transaction(one):
            job = await app.enqueue(note.job(1), connection=two)
            (another,) = await app.enqueue_many([note.job(2)], connection=two)
        await commit()
    assert await app.count(ids=[job.id, another.id]) == 2


# ── handles ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_handle_says_that_the_commit_is_missing_and_answers_after_it(
    app: App, note: Any, process: PostgresProcess
):
    async with by_asyncpg(process.dsn) as (connection, commit, _):
        async with app.transaction(connection):
            job = await note.enqueue(1)
            assert job.created
            for ask in (job.status, job.info, job.explain, job.cancel, lambda: job.result(timeout=5)):
                with pytest.raises(JobNotFound, match=r"app\.transaction\(\), which is still open.*ask once"):
                    await ask()
        with pytest.raises(JobNotFound, match="rolled back, or is not committed yet"):
            await job.status()
        await commit()
        assert await job.status() == "ready"
        assert await app.run_until_idle() == 1
        assert await job.result(timeout=5) == 1


async def test_a_handle_says_that_its_transaction_was_rolled_back(
    app: App, note: Any, process: PostgresProcess
):
    async with by_asyncpg(process.dsn) as (connection, _, rollback):
        async with app.transaction(connection):
            job = await note.enqueue(1)
        named = await app.enqueue(note.job(2), connection=connection)
        with pytest.raises(JobNotFound, match="rolled back or is not committed yet"):
            await named.status()
        await rollback()
    for one in (job, named):
        with pytest.raises(JobNotFound, match="rolled back"):
            await one.result(timeout=5)


async def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(
    app: App, note: Any, process: PostgresProcess
):
    async with by_asyncpg(process.dsn) as (connection, commit, _), app.transaction(connection):
        kept = await note.enqueue(1)
        gone: Any = None
        with suppress(LookupError):
            async with connection.transaction():
                gone = await note.enqueue(2)
                raise LookupError
        also = await note.enqueue(3)
        await commit()
        assert await app.count(ids=[kept.id, also.id]) == 2
        with pytest.raises(JobNotFound):
            await gone.status()


async def test_a_refused_job_leaves_the_transaction_usable(app: App, note: Any, process: PostgresProcess):
    await note.options(id="there").enqueue(1)
    async with by_asyncpg(process.dsn) as (connection, commit, _), app.transaction(connection):
        with pytest.raises(JobExists):
            await note.options(id="there").enqueue(2)
        await note.enqueue(3)
        await commit()
    assert await app.count() == 2


# ── what cannot work ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_plain_with_refuses_a_connection_that_is_awaited(app: App, process: PostgresProcess) -> None:
    for way in (by_asyncpg, by_psycopg_async, by_sqlalchemy_async):
        async with way(process.dsn) as (connection, _, _):
            with (
                pytest.raises(ConfigError, match=r"write `async with app\.transaction"),
                app.transaction(connection),
            ):
                pass


async def test_a_sync_twin_refuses_a_connection_of_an_event_loop(
    app: App, note: Any, process: PostgresProcess
) -> None:
    for way in (by_asyncpg, by_psycopg_async, by_sqlalchemy_async):
        async with way(process.dsn) as (connection, _, _), app.transaction(connection):
            with pytest.raises(ConfigError, match=r"belongs to the event loop .* write `await …enqueue"):
                note.enqueue_sync(1)
            with pytest.raises(ConfigError, match=r"belongs to the event loop"):
                app.enqueue_sync(note.job(1), connection=connection)


async def test_without_an_open_transaction_nothing_is_stored(
    app: App, note: Any, process: PostgresProcess
) -> None:
    plain = await asyncpg.connect(process.dsn)
    engine = sqlalchemy.create_engine(
        process.dsn.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    later = create_async_engine(
        process.dsn.replace("postgresql://", "postgresql+asyncpg://"), isolation_level="AUTOCOMMIT"
    )
    with (
        psycopg.connect(process.dsn, autocommit=True) as auto,
        engine.connect() as core,
        Session(engine) as session,
    ):
        async with later.connect() as async_core, AsyncSession(later) as async_session:
            for connection in (plain, auto, core, session, async_core, async_session):
                async with app.transaction(connection):
                    with pytest.raises(ConfigError, match="has no open transaction"):
                        await note.enqueue(1)
        with auto.transaction(), app.transaction(auto):
            await note.enqueue(2)
    await plain.close()
    engine.dispose()
    await later.dispose()
    assert await app.count() == 1


async def test_a_closed_connection_is_named(app: App, note: Any, process: PostgresProcess) -> None:
    by_one = await asyncpg.connect(process.dsn)
    await by_one.close()
    by_two = psycopg.connect(process.dsn)
    by_two.close()
    engine = sqlalchemy.create_engine(process.dsn.replace("postgresql://", "postgresql+psycopg://"))
    by_three = engine.connect()
    by_three.close()
    later = create_async_engine(process.dsn.replace("postgresql://", "postgresql+asyncpg://"))
    by_four: AsyncConnection = await later.connect()
    await by_four.close()
    for connection in (by_one, by_two, by_three, by_four):
        async with app.transaction(connection):
            with pytest.raises(ConfigError, match=r"is closed; enqueue before"):
                await note.enqueue(1)
    engine.dispose()
    await later.dispose()


@pytest.mark.parametrize("way", WAYS)
async def test_a_transaction_of_another_database_is_refused_and_remains_usable(
    app: App, note: Any, elsewhere: str, way: Open
) -> None:
    async with way(elsewhere) as (connection, commit, _), app.transaction(connection):
        with pytest.raises(
            ConfigError, match=r"leads to database 'elsewhere', which has no schema .*the store is"
        ):
            await note.enqueue(1)
        await settled(commit)
    assert await app.count() == 0


async def test_a_store_of_the_same_name_in_another_database_is_not_mistaken(
    app: App, note: Any, elsewhere: str, schema: str
) -> None:
    """As where a copy of the database was made: the jobs would land there."""
    copied = App(f"{elsewhere}?schema={quote(schema)}")
    async with copied, by_asyncpg(elsewhere) as (connection, _, _), app.transaction(connection):
        with pytest.raises(ConfigError, match="'elsewhere', which is another one than the store's"):
            await note.enqueue(1)


async def answers(app: App) -> bool:
    try:
        return await app.count() > 0
    except EngineUnavailable:
        return False


async def test_a_store_whose_server_was_restarted_is_still_the_same(url: str) -> None:
    server = PostgresProcess()
    server.start()
    try:
        app, note = made(server.url())
        async with app:
            for number in range(2):
                async with by_asyncpg(server.dsn) as (connection, commit, _), app.transaction(connection):
                    await note.enqueue(number)
                    await commit()
                server.restart()
                await until(lambda: answers(app), "the pool to have noticed")
            assert await app.count() == 2
    finally:
        server.stop()


async def test_errors_of_a_database_without_the_store_say_so(app: App, note: Any, elsewhere: str) -> None:
    """With `connection=` the error is the driver's, and a note has the remedy."""
    async with by_asyncpg(elsewhere) as (connection, _, _):
        with pytest.raises(asyncpg.PostgresError) as raised:
            await app.enqueue(note.job(1), connection=connection)
    assert "give one to the database that the app's URL names" in raised.value.__notes__[0]


async def test_what_is_no_connection_is_refused_at_the_block(app: App, process: PostgresProcess) -> None:
    with pytest.raises(ConfigError, match="cannot be enqueued on"):
        async with app.transaction("postgresql://"):
            pass
    pool = psycopg_pool.ConnectionPool(process.dsn, open=False)
    with pytest.raises(ConfigError, match="ConnectionPool cannot be enqueued on"), app.transaction(pool):
        pass


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
async def test_a_store_without_transactions_of_callers_names_the_way_that_it_has(
    url: str, process: PostgresProcess, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app, _ = made(url)
    async with app, by_asyncpg(process.dsn) as (connection, _, _):
        with pytest.raises(ConfigError, match=r"cannot take part .* `with app\.on_commit\(\):` around"):
            async with app.transaction(connection):
                pass


async def test_a_block_is_entered_once(app: App) -> None:
    block = app.transaction(None)
    async with block:
        pass
    with pytest.raises(HeadgateError, match="entered before"):
        async with block:
            pass


async def test_a_test_on_a_store_in_memory_gets_the_jobs_at_the_end_of_the_block(app: App, note: Any) -> None:
    with use_store(app):
        async with app.transaction(object()):
            job = await note.enqueue(1)
            assert await app.count() == 0
        with suppress(LookupError):
            async with app.transaction(object()):
                await note.enqueue(2)
                raise LookupError
        assert await app.run_until_idle() == 1
        assert await job.result(timeout=0) == 1


async def test_the_question_where_a_connection_leads_holds_up_no_worker(
    app: App, note: Any, process: PostgresProcess
):
    async with by_asyncpg(process.dsn) as (connection, commit, _), app.transaction(connection):
        await note.enqueue(1)
        async with app.worker():
            with app.transaction(None):
                job = await note.enqueue(2)
            assert await job.result(timeout=10) == 2
        await commit()


def test_a_thread_that_waits_for_a_lock_holds_up_no_other(url: str, process: PostgresProcess) -> None:
    """The second waits for the first one's commit, and the first enqueues once more before that."""
    app, note = made(url)
    first_is_in = threading.Event()

    def second() -> None:
        assert first_is_in.wait(10)
        with psycopg.connect(process.dsn) as connection, app.transaction(connection):
            note.options(unique="same").enqueue_sync(3)

    with app:
        thread = threading.Thread(target=second, daemon=True)
        thread.start()
        with psycopg.connect(process.dsn) as connection, app.transaction(connection):
            note.options(unique="same").enqueue_sync(1)
            first_is_in.set()
            eventually(lambda: process.waiting() > 0, "the second to wait for a lock")
            note.enqueue_sync(2)
        thread.join(10)
        assert not thread.is_alive()
        assert [job.args["number"] for job in app.jobs_sync()] == [2, 1]
        assert app.audit_sync().ok
