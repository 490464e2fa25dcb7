"""Who sleeps hears of other processes' commits: from the operating system, or by looking where it does not tell."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from headgate.engine.sqlite import SqliteEngine, inotify, waking
from headgate.engine.sqlite.inotify import Inotify
from headgate.job import NewJob
from tests.sqlite.conftest import OpenEngine
from tests.support.child import Child

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
PATIENCE = 10.0
ENQUEUE = """
import asyncio
from headgate.engine.sqlite import SqliteEngine
from headgate.job import NewJob

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    say("open")
    while (id := await asyncio.to_thread(hear)) != "end":
        await engine.enqueue([NewJob(id, "t")])
        say("done")
    await engine.close()

asyncio.run(main())
"""


class Sleeper:
    """Counts its wake-ups."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def woken(self) -> None:
        await asyncio.wait_for(self._woken.wait(), PATIENCE)
        self._woken.clear()


def threads() -> int:
    return sum(thread.name == "headgate-sqlite-notice" for thread in threading.enumerate())


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Callable[[SqliteEngine], bool]:
    """Looking finds nothing; says whether the engine listens."""
    monkeypatch.setattr(waking, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(waking, "REST", 3600.0)
    return lambda engine: engine._opened().watchers.rest == 3600.0  # pyright: ignore[reportPrivateUsage]


async def hear_each(engine: SqliteEngine, path: Path, times: int) -> None:
    """Another process enqueues job after job, and a sleeper of this one is woken for each."""
    with Child(ENQUEUE, path) as other:
        assert await asyncio.to_thread(other.hear) == "open"
        sleeper = Sleeper()
        unwatch = engine.watch_work(sleeper.wake)
        await sleeper.woken()  # the first look, when the listening begins
        for n in range(times):
            other.tell(f"j{n}")
            assert await asyncio.to_thread(other.hear) == "done"
            await sleeper.woken()
        unwatch()
        other.tell("end")


@linux
async def test_commits_of_another_process_are_heard_of_without_looking(
    engine: SqliteEngine, path: Path, listening: Callable[[SqliteEngine], bool]
):
    assert listening(engine) is False
    await hear_each(engine, path, 20)


@linux
async def test_a_notice_is_followed_whatever_the_time_stamps_say(
    engine: SqliteEngine,
    path: Path,
    listening: Callable[[SqliteEngine], bool],
    monkeypatch: pytest.MonkeyPatch,
):
    """A process that stands still between its write and its commit for so long that the write is old news."""
    monkeypatch.setattr(waking.Watchers, "stirred", lambda self: False)
    await hear_each(engine, path, 3)


def test_a_look_is_due_once_in_a_while_whatever_the_time_stamps_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = tmp_path / "jobs.db-wal"
    log.write_bytes(b"old")
    os.utime(log, (1, 1))
    watchers = waking.Watchers(str(tmp_path / "jobs.db"))
    assert [watchers.stirred() for _ in range(3)] == [True, True, False]
    monkeypatch.setattr(waking, "REST", -1.0)
    assert watchers.stirred()


async def test_where_the_operating_system_does_not_tell_commits_are_found_by_looking(
    open_engine: OpenEngine, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inotify, "_libc", lambda: None)
    monkeypatch.setattr(waking, "REST", 3600.0)
    engine = await open_engine()
    await hear_each(engine, path, 3)


@linux
def test_a_log_that_is_deleted_and_begun_anew_is_listened_to_again(tmp_path: Path):
    log, heard = tmp_path / "jobs.db-wal", threading.Event()
    listener = Inotify(str(log), heard.set)
    listener.start()

    def hears(act: Callable[[], object]) -> None:
        heard.clear()
        act()
        assert heard.wait(PATIENCE)

    def until_listening() -> None:
        while not listener.listening:
            assert heard.wait(PATIENCE)
            heard.clear()

    log.write_bytes(b"")
    until_listening()
    hears(lambda: log.write_bytes(b"one"))
    hears(log.unlink)
    log.write_bytes(b"")
    until_listening()
    hears(lambda: log.write_bytes(b"two"))
    listener.stop()


@linux
def test_a_notice_is_repeated_as_the_commit_may_follow_the_write(tmp_path: Path):
    """A writer that is held up between the two, which cannot be timed."""
    log, heard = tmp_path / "jobs.db-wal", threading.Semaphore(0)
    log.write_bytes(b"")
    listener = Inotify(str(log), heard.release)
    listener.start()
    assert heard.acquire(timeout=PATIENCE)
    for _ in inotify.AFTERWARDS:
        assert heard.acquire(timeout=PATIENCE), "behind the beginning"
    assert not heard.acquire(timeout=1), "and then there is quiet"
    log.write_bytes(b"one")
    for _ in (log, *inotify.AFTERWARDS):
        assert heard.acquire(timeout=PATIENCE)
    listener.stop()


@linux
async def test_nothing_of_the_listener_stays_behind(path: Path):
    before, files = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        engine = SqliteEngine(path)
        await engine.open()
        engine.watch_work(lambda: None)
        await engine.enqueue([NewJob(os.urandom(4).hex(), "t")])
        await engine.close()
    assert threads() == before
    assert len(os.listdir("/proc/self/fd")) <= files


async def test_a_process_that_only_enqueues_does_not_listen(engine: SqliteEngine):
    before = threads()
    await engine.enqueue([NewJob("j", "t")])
    assert threads() == before


@linux
async def test_the_look_behind_a_notice_is_not_lost_to_one_just_before(
    engine: SqliteEngine, path: Path, listening: Callable[[SqliteEngine], bool]
):
    """A commit right behind a look of ours, which is too soon for another one: that follows by itself."""
    sleeper = Sleeper()
    unwatch = engine.watch_work(sleeper.wake)
    await sleeper.woken()
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    for n in range(50):
        connection.execute("INSERT INTO paused (queue) VALUES (?)", (f"q{n}",))
        await sleeper.woken()
    connection.close()
    unwatch()
