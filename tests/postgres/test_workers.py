"""Workers on servers in trouble: they wait with growing pauses, say in one line what is wrong, and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from headgate import App, EngineUnavailable, Retry, Task, current_job
from tests.support.at_work import at_work as at_work_with
from tests.support.postgres_binaries import as_nobody
from tests.support.postgres_server import PostgresProcess, Standby
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def own() -> Iterator[PostgresProcess]:
    """A server of the test's own."""
    server = PostgresProcess()
    server.start()
    yield server
    server.stop()


at_work = partial(at_work_with, lease=5, retry=Retry(attempts=5, delay=0.1))


async def works(add: Task) -> None:
    """An enqueue that meets the trouble's end may have to be made again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(EngineUnavailable):
                handle = await add.enqueue(2, 3)
                break
            await asyncio.sleep(0.1)
    assert await handle.result(timeout=PATIENCE) == 5


def said(caplog: pytest.LogCaptureFixture, words: str) -> int:
    """Lines of the worker with these words."""
    return sum(words in each.message for each in caplog.records if each.name == "headgate.worker")


async def test_a_restart_of_the_server_is_one_line(
    own: PostgresProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(own.url()) as (_, add):
            later = [await add.options(delay=0.5).enqueue(number, 1) for number in range(10)]
            await asyncio.to_thread(own.halt)
            await until(lambda: said(caplog, "the engine cannot be reached") > 0)
            await asyncio.to_thread(own.start)
            results = await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in later))
            assert results == [number + 1 for number in range(10)]
            await until(lambda: said(caplog, "the engine can be reached again") > 0)
    assert said(caplog, "the engine cannot be reached") == 1
    assert said(caplog, "the engine can be reached again") == 1


@pytest.mark.parametrize("outlasted", [False, True], ids=["shorter", "longer"])
async def test_what_runs_goes_on_as_long_as_the_lease_lasts(own: PostgresProcess, outlasted: bool) -> None:
    """A server that is back in time hears of the outcome; one that is not finds the job given up and runs it again."""
    app = App(own.url())
    began, finish = asyncio.Event(), asyncio.Event()
    ends: list[tuple[int, str]] = []

    @app.task(retry=Retry(attempts=2, delay=0.1))
    async def hold() -> int:
        began.set()
        try:
            await finish.wait()
        except asyncio.CancelledError:
            ends.append((current_job().attempt, "cancelled"))
            raise
        ends.append((current_job().attempt, "done"))
        return current_job().attempt

    async with app:
        async with app.worker(concurrency=1, lease=1 if outlasted else 30):
            handle = await hold.enqueue()
            await asyncio.wait_for(began.wait(), PATIENCE)
            await asyncio.to_thread(own.halt)
            if outlasted:
                await until(lambda: ends == [(1, "cancelled")])
            finish.set()
            await until(lambda: bool(ends))
            await asyncio.to_thread(own.start)
            assert await handle.result(timeout=PATIENCE) == (2 if outlasted else 1)
        assert (await app.audit()).ok
    assert ends[-1] == (2 if outlasted else 1, "done")


async def test_too_many_connections_are_waited_out(
    process: PostgresProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A role's limit gives the same error as the server's."""
    for statement in (
        "DROP SCHEMA IF EXISTS crowded CASCADE", "DROP OWNED BY crowd", "DROP ROLE crowd",
    ):  # fmt: skip
        with contextlib.suppress(psycopg.Error):
            process.execute(statement)
    process.execute("CREATE ROLE crowd LOGIN")
    process.execute("CREATE SCHEMA crowded AUTHORIZATION crowd")
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'crowd'"
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(process.url("crowded", user="crowd")) as (_, add):
            process.execute("ALTER ROLE crowd CONNECTION LIMIT 0")
            process.execute(cut)
            await until(lambda: said(caplog, "the engine cannot be reached") > 0)
            with pytest.raises(EngineUnavailable, match="too many connections"):
                await add.enqueue(1, 1)
            process.execute("ALTER ROLE crowd CONNECTION LIMIT -1")
            await works(add)
    # A backend that was told to end may have answered once more in between.
    assert 1 <= said(caplog, "the engine cannot be reached") <= 2


async def test_statements_that_take_too_long_are_waited_out(
    process: PostgresProcess, caplog: pytest.LogCaptureFixture
) -> None:
    process.execute("DROP SCHEMA IF EXISTS slowed CASCADE")
    url = process.url("slowed") + "&options=-c%20statement_timeout%3D300"
    with caplog.at_level(logging.WARNING, "headgate"):
        async with at_work(url) as (_, add):
            with psycopg.connect(process.dsn) as blocking:
                blocking.execute("LOCK TABLE slowed.jobs IN ACCESS EXCLUSIVE MODE")
                await until(lambda: said(caplog, "statement_timeout") > 0)
                blocking.rollback()
            await works(add)
    assert said(caplog, "the engine cannot be reached") == 1


def _limit_files(server: PostgresProcess, size: int | str) -> None:
    """The server and its backends cannot make files larger than this: to them, the disk is full."""
    assert server.process is not None
    pid = (server.data / "postmaster.pid").read_text().split()[0]
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", pid], capture_output=True, text=True, check=True)
    for each in [pid, *children.stdout.split()]:
        subprocess.run(as_nobody(["prlimit", f"--pid={each}", f"--fsize={size}:"]), check=False)


@pytest.mark.skipif(not shutil.which("prlimit"), reason="there is no prlimit (util-linux)")
async def test_a_full_disk_is_waited_out(own: PostgresProcess, caplog: pytest.LogCaptureFixture) -> None:
    """A limit on the size of files is to the server what a full disk is. It is just above that of its log's files."""
    app = App(own.url())

    @app.task(retry=Retry(attempts=1))
    async def swell(size: int) -> str:
        return secrets.token_hex(size // 2)

    with caplog.at_level(logging.WARNING, "headgate"):
        async with app:
            _limit_files(own, 16 * 2**20 + 4096)
            async with app.worker(concurrency=2, lease=5):
                handles = [await swell.enqueue(1_000_000) for _ in range(24)]
                await until(lambda: said(caplog, "disk is full") > 0)
                assert said(caplog, "the engine cannot be reached") == 1
                await asyncio.sleep(0.5)
                _limit_files(own, "unlimited")
                results = await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in handles))
                assert {len(result) for result in results} == {1_000_000}
                await until(lambda: said(caplog, "the engine can be reached again") > 0)
            assert (await app.audit()).ok


async def test_a_standby_takes_over_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """With both hosts in the URL, and commits that wait for the standby."""
    primary = PostgresProcess("wal_level=replica", "synchronous_standby_names=*", "synchronous_commit=local")
    primary.start()
    standby = Standby(primary)
    try:
        standby.start()
        for each in ("postgres", "template1"):
            primary.execute(f"ALTER DATABASE {each} SET synchronous_commit = on")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        with caplog.at_level(logging.WARNING, "headgate"):
            async with at_work(url) as (_, add):
                later = [await add.options(delay=1).enqueue(number, 1) for number in range(10)]
                primary.kill()
                await until(lambda: said(caplog, "the engine cannot be reached") > 0)
                standby.promote()
                results = await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in later))
                assert results == [number + 1 for number in range(10)]
        assert said(caplog, "the engine cannot be reached") == 1
    finally:
        standby.stop()
        primary.stop()


async def test_a_standby_is_named_as_what_it_is(own: PostgresProcess) -> None:
    """Reading works there; a caller that wants to change something is told where to go."""
    app = App(own.url())

    @app.task
    async def nothing() -> None: ...

    async with app:
        handle = await nothing.enqueue()
    standby = Standby(own)
    try:
        standby.start()
        async with App(standby.url()) as reading:
            assert (await (await reading.job(handle.id)).status()).value == "ready"
            with pytest.raises(EngineUnavailable, match="read-only"):
                await reading.pause("default")
            with pytest.raises(EngineUnavailable, match="read-only"):
                await reading.run_until_idle()
        empty = App(standby.url("elsewhere"))
        with pytest.raises(EngineUnavailable, match="read-only"):
            await empty.migrate()
        await empty.close()
    finally:
        standby.stop()
