"""Worker processes that have done their share are replaced, and no job is lost or done twice by it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate import App, ConfigError
from headgate.job import JobState
from headgate.worker import Worker
from headgate.worker.process.config import ProcessConfig
from headgate.worker.run import wear
from tests.support.waiting import eventually
from tests.support.worker_command import free_port, page, worker_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

SHOP = """
import asyncio, os, time
from headgate import App

app = App(os.environ["HEADGATE_URL"])
kept = []

@app.task
async def work(path: str) -> int:
    note = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(note, f"{os.getpid()}\\n".encode())
    os.close(note)
    await asyncio.sleep(0.005)
    return os.getpid()

@app.task
def leak(megabytes: int) -> int:
    kept.append(b"x" * megabytes * 1024 ** 2)
    return os.getpid()
"""


def pids(path: Path) -> Counter[str]:
    """How many jobs each process has begun."""
    return Counter(path.read_text().split()) if path.exists() else Counter()


@pytest.mark.slow(20)
def test_processes_are_replaced_after_so_many_jobs_and_no_job_runs_twice(tmp_path: Path, store_url: str):
    began = tmp_path / "began"
    app = client(store_url)
    work = app.tasks["work"]
    jobs = app.enqueue_many_sync(work.job(str(began)) for _ in range(60))
    options = ["--processes", "2", "--max-jobs", "10", "--concurrency", "4"]
    with worker_command(tmp_path, SHOP, store_url, *options) as command:
        unfinished = [state for state in JobState if not state.ended]
        eventually(lambda: app.count_sync(state=unfinished) == 0, "all jobs to end", 60)
        assert command.stop() == 0
        assert "has done its share; starting another one" in command.logged
        assert "starting it again in" not in command.logged, "it was no accident"
    counts = pids(began)
    assert sum(counts.values()) == 60, "each job ran once"
    assert max(counts.values()) <= 10
    assert len(counts) >= 6
    assert all(len(job.info_sync().attempts) == 1 for job in jobs)
    assert app.audit_sync().ok
    app.close_sync()


@pytest.mark.slow(10)
def test_a_single_process_that_takes_too_much_memory_is_replaced(tmp_path: Path):
    url, port = f"sqlite:///{tmp_path}/jobs.db", free_port()
    options = ["--max-memory", "250MB", "--health", str(port)]
    with worker_command(tmp_path, SHOP, url, *options) as command:
        with client(url) as app:
            leak = app.tasks["leak"]
            first = leak.enqueue_sync(10).result_sync(timeout=30)
            assert first != command.process.pid, "a supervisor starts it"
            assert leak.enqueue_sync(300).result_sync(timeout=30) == first
            eventually(lambda: "more than 250 MB" in command.logged, "its memory to be looked at")
            eventually(lambda: page(port, "/ready")[0] == 200, "another one to be ready")
            assert leak.enqueue_sync(1).result_sync(timeout=30) != first
            assert app.audit_sync().ok
        assert command.stop() == 0


def client(url: str) -> App:
    """The shop's tasks, to be enqueued from here."""
    app = App(url)

    @app.task
    async def work(path: str) -> int:
        return 0

    @app.task
    def leak(megabytes: int) -> int:
        return 0

    return app


async def test_run_worker_returns_when_its_jobs_are_done_and_what_runs_has_ended(tmp_path: Path):
    app, began, go_on = App("memory://"), asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        began.set()
        await go_on.wait()

    @app.task
    async def quick() -> None: ...

    async with app:
        first = await slow.enqueue()
        others = [await quick.enqueue() for _ in range(5)]
        work = asyncio.create_task(app.run_worker(max_jobs=3, grace=0))
        await began.wait()
        await others[1].result(timeout=20)
        assert [await job.status() for job in others[2:]] == [JobState.READY] * 3, (
            "it takes no more than three"
        )
        assert not work.done(), "what runs is finished, whatever the grace is"
        go_on.set()
        await asyncio.wait_for(work, 20)
        assert await first.status() is JobState.SUCCEEDED
        assert [await job.status() for job in others[2:]] == [JobState.READY] * 3
        assert [len((await job.info()).attempts) for job in others[2:]] == [0] * 3
        assert (await app.audit()).ok


async def test_a_worker_that_is_stopped_while_it_finishes_ends_after_its_grace():
    app, began = App("memory://"), asyncio.Event()

    @app.task
    async def slow() -> None:
        began.set()
        await asyncio.sleep(600)

    made = list[Worker]()
    async with app:
        job = await slow.enqueue()
        work = asyncio.create_task(app.run_worker(max_jobs=1, grace=0.05, watch=made.append))
        await began.wait()
        made[0].stop()
        await asyncio.wait_for(work, 20)
        assert await job.status() is JobState.READY


async def test_a_bound_that_is_too_low_is_refused(monkeypatch: pytest.MonkeyPatch):
    app = App("memory://")
    async with app:
        with pytest.raises(
            ConfigError, match=r"max_memory=1048576: this process takes \d+ MB before its first job"
        ):
            await app.run_worker(max_memory=1024**2)
        for name in ("max_jobs", "max_memory"):
            options: Any = {name: 5_000_000}
            with pytest.raises(ConfigError, match=rf"app.worker\({name}=5000000\): it ends the worker"):
                async with app.worker(**options):
                    pass
        with pytest.raises(ConfigError, match="max_jobs=0: a whole number from 1"):
            await app.run_worker(max_jobs=0)
        with pytest.raises(ConfigError, match="max_memory=10: a number of bytes is needed"):
            await app.run_worker(max_memory=10)


async def test_memory_is_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch):
    told, used = list[str](), iter([None, 5 * wear.MB, 11 * wear.MB])
    monkeypatch.setattr(wear, "LOOK", 0.001)
    monkeypatch.setattr(wear, "memory_used", lambda: next(used))
    await wear.watch_memory(10 * wear.MB, told.append)
    assert told == ["it takes 11 MB of memory, which is more than 10 MB"]


def test_several_processes_have_bounds_that_differ():
    config = ProcessConfig(target="shop:app", processes=4, max_jobs=1000, max_memory=10**9)
    children = [config.for_child(index) for index in range(4)]
    jobs, memory = [{getattr(child, name) for child in children} for name in ("max_jobs", "max_memory")]
    assert len(jobs) > 1
    assert all(800 <= number <= 1000 for number in jobs)
    assert len(memory) > 1
    assert all(9 * 10**8 <= number <= 10**9 for number in memory)
    alone = ProcessConfig(target="shop:app", max_jobs=1000).for_child(0)
    assert (alone.max_jobs, alone.max_memory) == (1000, None)
