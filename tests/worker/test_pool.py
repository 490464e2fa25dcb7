"""Tasks in processes of a worker's pool: real processes, which are killed where a thread could not be."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate import App, ConfigError, JobCancelled, JobFailed, JobState, RaisedInProcess, RateLimit, Worker
from headgate.testing import use_store
from headgate.worker.run import process_calls
from tests.support.stores import STORES, fresh_url
from tests.support.waiting import until
from tests.worker import pool_shop as shop
from tests.worker.stand_in import FailingEngine, Watcher

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """The shop's, on a store of its own, without what a test hangs into it."""
    hooks = shop.app._client.hooks
    monkeypatch.setattr(hooks, "middleware", [])
    with use_store(shop.app, "memory://"):
        yield shop.app


@asynccontextmanager
async def at_work(app: App, **given: Any) -> AsyncGenerator[Worker]:
    """A worker with a pool of two; at the end no process of it is left."""
    options: Any = {"pool_processes": 2, **given}
    async with app, app.worker(**options) as worker:
        yield worker
        assert (await app.audit()).ok
    assert children() == []


def children() -> list[int]:
    """The living processes that this one has started from the pool's program."""
    found = list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"pool_child" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (OSError, IndexError):
            continue
    return found


async def noted(path: Path) -> int:
    """The process that a job has told."""
    return int(await until(lambda: path.exists() and path.read_text(), "the job to begin"))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_jobs_run_in_processes_that_are_used_again(app: App):
    async with at_work(app):
        first = await (await shop.where.enqueue()).result(timeout=30)
        assert first != os.getpid()
        assert [await (await shop.where.enqueue()).result(timeout=30) for _ in range(3)] == [first] * 3
        assert await (await shop.on_loop.enqueue()).result(timeout=30) == os.getpid()
        assert await (await shop.in_thread.enqueue()).result(timeout=30) == os.getpid()


@pytest.mark.parametrize("store", STORES)
async def test_a_timeout_kills_the_process_and_gives_its_slot_back_on_every_store(store: str, tmp_path: Path):
    with fresh_url(store, tmp_path) as url, use_store(shop.app, url):
        async with at_work(shop.app):
            stuck = await shop.spin.options(timeout=0.3).enqueue(str(tmp_path / "pid"))
            other = await shop.spin.options(timeout=0.3).enqueue(str(tmp_path / "other"))
            with pytest.raises(JobFailed, match=r"TimeoutError: .* within its timeout of 0.3 s"):
                await stuck.result(timeout=30)
            assert gone(await noted(tmp_path / "pid"))
            with pytest.raises(JobFailed, match="TimeoutError"):
                await other.result(timeout=30)
            info = await stuck.info()
            assert [(one.outcome, info.suspicion) for one in info.attempts] == [("failed", 0)]


async def test_a_slot_is_free_only_when_the_process_is_gone(app: App, tmp_path: Path):
    limited = shop.alive.options(limits=[shop_limit()])
    async with at_work(app):
        options = shop.spin.options(timeout=0.3, limits=[shop_limit()])
        stuck = await options.enqueue(str(tmp_path / "pid"))
        pid = await noted(tmp_path / "pid")
        behind = await limited.enqueue(pid)
        assert await behind.status() is JobState.WAITING
        assert await behind.result(timeout=30) is False
        assert await stuck.status() is JobState.FAILED


def shop_limit() -> Any:
    from headgate import ConcurrencyLimit

    return ConcurrencyLimit(1, scope="one", key="x")


async def test_a_cancel_kills_what_does_not_listen(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_calls, "LAST_WORDS", 0.05)
    async with at_work(app):
        job = await shop.hold_interpreter.enqueue(str(tmp_path / "pid"))
        pid = await noted(tmp_path / "pid")
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=30)
        assert gone(pid)


async def test_what_a_killed_process_has_started_is_killed_with_it(app: App, tmp_path: Path):
    async with at_work(app):
        job = await shop.with_company.options(timeout=1).enqueue(str(tmp_path / "pid"))
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.result(timeout=30)
        await until(lambda: gone(int((tmp_path / "pid.other").read_text())), "the other to be gone")


async def test_a_cancelled_job_sees_it_and_its_process_is_used_again(app: App, tmp_path: Path):
    async with at_work(app):
        job = await shop.until_asked.enqueue(str(tmp_path / "pid"))
        pid = await noted(tmp_path / "pid")
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=30)
        assert await (await shop.where.enqueue()).result(timeout=30) == pid


async def test_the_death_of_a_process_costs_its_attempt_alone(app: App, tmp_path: Path):
    async with at_work(app) as worker:
        id = worker.id
        neighbour = await shop.until_asked.enqueue(str(tmp_path / "pid"))
        await noted(tmp_path / "pid")
        job = await shop.die.enqueue(7)
        with pytest.raises(
            JobFailed, match="the process that ran the attempt ended with exit code 7"
        ) as failed:
            await job.result(timeout=30)
        assert failed.value.error_type == "headgate.errors.ProcessDied"
        info = await job.info()
        assert [one.outcome for one in info.attempts] == ["failed", "failed"], (
            "each counts against the policy"
        )
        assert (info.suspicion, info.lost) == (0, 0), "the worker lives: nothing was lost"
        assert (await neighbour.status(), worker.id) == (JobState.RUNNING, id)
        await neighbour.cancel()


async def test_a_process_that_is_killed_from_outside_says_so(app: App, tmp_path: Path):
    async with at_work(app):
        job = await shop.spin.enqueue(str(tmp_path / "pid"))
        os.kill(await noted(tmp_path / "pid"), signal.SIGKILL)
        with pytest.raises(
            JobFailed, match=r"killed by signal 9 \(SIGKILL\); the machine may be out of memory"
        ):
            await job.result(timeout=30)
        await (await shop.where.enqueue()).result(timeout=30)


async def test_a_job_knows_itself_in_its_process(app: App):
    async with at_work(app) as worker:
        job = await shop.knows.options(metadata={"who": "ada"}).enqueue()
        assert await job.result(timeout=30) == {
            "id": job.id,
            "attempt": 2,
            "task": "knows",
            "metadata": {"who": "ada"},
            "previous": {"at": 1},
            "worker": next(id for id in worker.ids if "-pool-" in id),
            "state": None,
            "args": {},
        }


async def test_progress_arrives_while_the_job_runs(app: App, tmp_path: Path):
    async with at_work(app):
        job = await shop.reports.enqueue(str(tmp_path / "pid"))

        async def progressed() -> bool:
            return await job.progress() == {"step": 1}

        await until(progressed, "its progress")
        assert await job.status() is JobState.RUNNING
        await job.cancel()


async def test_attempts_end_as_they_would_in_a_thread(app: App):
    async with at_work(app):
        jobs = {
            how: await shop.ends.enqueue(how) for how in ("fail", "cancel", "exit", "object", "large", "else")
        }
        snoozed = await shop.ends.enqueue("snooze")
        failures = dict[str, str]()
        for how in ("fail", "exit", "object", "else"):
            with pytest.raises(JobFailed) as failed:
                await jobs[how].result(timeout=30)
            failures[how] = failed.value.args[0]
        assert "failed: it is no use" in failures["fail"]
        assert "failed: SystemExit: 3" in failures["exit"]
        assert "cannot travel as JSON" in failures["object"]
        assert "failed: ValueError: what is else?" in failures["else"]
        assert "pool_shop.py" in failures["else"]
        assert "pool_child.py" not in failures["else"], "the frames are those of the task"
        with pytest.raises(JobCancelled, match="not wanted"):
            await jobs["cancel"].result(timeout=30)
        assert len(await jobs["large"].result(timeout=30)) == 900_000
        await until(lambda: snoozed_later(snoozed), "the snooze")
        assert len((await jobs["else"].info()).attempts) == 2
        assert len((await jobs["fail"].info()).attempts) == 1


async def test_what_an_attempt_says_of_its_limits_reaches_the_store_from_a_process(app: App):
    async with at_work(app):
        tokens = RateLimit(100, per=3600, cost=50, estimated=True, scope="tokens")
        job = await shop.ends.options(limits=[tokens]).enqueue("throttled")

        async def closed() -> bool:
            (line,) = await app.limits("tokens")
            return await job.status() is JobState.WAITING and (line.tokens or 0) <= 0

        await until(closed, "the key of the limit to be closed")
        (past,) = (await job.info()).attempts
        assert past.outcome == "throttled"


async def snoozed_later(job: Any) -> bool:
    return (await job.status()) is JobState.SCHEDULED


async def test_what_middleware_has_set_is_carried_to_the_process(app: App):
    @app.middleware
    async def around(job: Any, call_next: Any) -> Any:
        if job.tenant is not None:
            shop.locale.set(job.tenant)
        return await call_next()

    async with at_work(app, pool_processes=1):
        first = await shop.speaks.options(tenant="fr").enqueue()
        assert await first.result(timeout=30) == "fr"
        assert await (await shop.speaks.enqueue()).result(timeout=30) == "none"


async def test_middleware_stands_around_the_process(app: App):
    seen = list[Any]()

    @app.middleware
    async def around(job: Any, call_next: Any) -> Any:
        try:
            value = await call_next()
        except RaisedInProcess as error:
            seen.append((error.error_type, error.error_message, "pool_shop.py" in error.traceback))
            raise
        seen.append((job.task, os.getpid(), value))
        return value + 1

    async with at_work(app):
        value = await (await shop.where.enqueue()).result(timeout=30)
        assert seen == [("where", os.getpid(), value - 1)]
        with pytest.raises(JobFailed, match="ValueError: what is wrong") as failed:
            await (await shop.ends.enqueue("wrong")).result(timeout=30)
        assert failed.value.error_type == "ValueError", "what the store is told is what was raised there"
        assert seen[1:] == [("ValueError", "what is wrong?", True)] * 2
        with pytest.raises(JobCancelled, match="not wanted"):
            await (await shop.ends.enqueue("cancel")).result(timeout=30)


async def test_listeners_hear_of_what_was_raised(app: App):
    heard = list[Any]()
    hooks = app._client.hooks
    listeners = hooks.listeners.copy()
    app.on("failed", "succeeded")(lambda event: heard.append((event.name, event.exception)))
    try:
        async with at_work(app):
            with pytest.raises(JobFailed):
                await (await shop.ends.enqueue("fail")).result(timeout=30)
            await (await shop.where.enqueue()).result(timeout=30)
    finally:
        hooks.listeners = listeners
    assert [name for name, _ in heard] == ["failed", "succeeded"]
    assert str(heard[0][1]) == "it is no use"


async def test_dependencies_are_made_in_the_process(app: App):
    async with at_work(app, pool_processes=1):
        first = await shop.depends.enqueue(1)
        assert await first.result(timeout=30) == [1, f"file of {first.id}", 1, ["open"]]
        with pytest.raises(JobFailed, match="SystemExit: not even this"):
            await (await shop.depends_and_fails.enqueue()).result(timeout=30)
        third = await shop.depends.enqueue(3)
        opened = ["open", "close", "open", "close", "open"]
        assert await third.result(timeout=30) == [3, f"file of {third.id}", 2, opened]
    assert shop.opened == []


async def test_a_full_pool_holds_up_nothing_else_and_claims_nothing_more(app: App, tmp_path: Path):
    async with at_work(app, pool_processes=1, concurrency=5):
        busy = await shop.until_asked.enqueue(str(tmp_path / "pid"))
        await noted(tmp_path / "pid")
        behind = await shop.where.enqueue()
        for task in (shop.on_loop, shop.in_thread):
            assert await (await task.enqueue()).result(timeout=30) == os.getpid()
        assert await behind.status() is JobState.READY, "no job holds slots while it waits for a process"
        await busy.cancel()
        await behind.result(timeout=30)


async def test_a_worker_that_stops_gives_back_what_its_processes_run(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process_calls, "LAST_WORDS", 0.05)
    async with app:
        async with app.worker(pool_processes=2, grace=0.1):
            jobs = [
                await shop.spin.enqueue(str(tmp_path / "one")),
                await shop.until_asked.enqueue(str(tmp_path / "two")),
            ]
            pids = [await noted(tmp_path / "one"), await noted(tmp_path / "two")]
        assert all(gone(pid) for pid in pids)
        assert [await job.status() for job in jobs] == [JobState.READY] * 2
        assert [[one.outcome for one in (await job.info()).attempts] for job in jobs] == [["released"]] * 2


async def test_a_lost_lease_kills_the_process_before_another_worker_may_run_the_job(app: App, tmp_path: Path):
    engine = FailingEngine()
    await engine.open()
    worker = Worker(engine, app.tasks, hooks=app._client.hooks, lease=0.6, pool_processes=1)
    watcher = Watcher(worker)
    async with worker:
        await engine.enqueue([shop.spin.job(str(tmp_path / "pid"))])
        pid = await noted(tmp_path / "pid")
        engine.cut = True
        await watcher.seen("fenced")
        await until(lambda: gone(pid), "the process to be gone")
        engine.cut = False
        await watcher.seen("registered", 4)
    assert children() == []


async def test_a_process_that_takes_too_much_memory_is_not_used_again(app: App):
    async with at_work(app, pool_processes=1) as worker:
        assert worker._worker_run is not None
        assert worker._worker_run._pool is not None
        worker._worker_run._pool._most_memory = 1
        first = await (await shop.where.enqueue()).result(timeout=30)
        assert await (await shop.where.enqueue()).result(timeout=30) != first
        await until(lambda: gone(first), "the first to end")


async def test_an_app_that_no_other_process_can_find_is_refused_when_its_worker_starts():
    local = App("memory://")

    @local.task(run_in="process")
    def work() -> None: ...

    async with local:
        with pytest.raises(
            ConfigError, match=r"run_in='process' \('work'\) .* cannot be found: keep it in a variable"
        ):
            async with local.worker():
                pass


async def test_run_until_idle_runs_such_tasks_in_threads(app: App):
    async with app:
        job = await shop.where.enqueue()
        assert await app.run_until_idle() == 1
        assert await job.result() == os.getpid()
    assert children() == []


def test_where_a_task_runs_is_checked_when_it_is_declared():
    app = App("memory://")

    def work() -> None: ...

    async def wait() -> None: ...

    with pytest.raises(ConfigError, match=r"task 'work': run_in='fork': 'thread' or 'process' is needed"):
        app.task(run_in="fork")(work)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(ConfigError, match=r"task 'wait' is async and runs on the worker's event loop"):
        app.task(run_in="process")(wait)
    app.task(run_in="thread")(work)
