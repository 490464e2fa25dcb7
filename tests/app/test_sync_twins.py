"""The same surface for code that cannot await."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import Future

import pytest

from headgate import App, EngineUnavailable, JobHandle, Task
from headgate.app.sync import SyncLoop
from headgate.app.task import TaskWithOptions


@pytest.fixture
def double(app: App) -> Task[[int], int]:
    @app.task
    def double(n: int) -> int:
        return n * 2

    return double


def test_everything_works_without_a_loop(app: App, double: Task[[int], int]):
    job = double.enqueue_sync(2)
    later = double.options(delay=60).enqueue_sync(3)
    assert job.status_sync() == "ready"
    assert "scheduled" in str(later.explain_sync())
    assert app.run_until_idle_sync() == 1
    assert job.result_sync(timeout=5) == 4
    assert later.expedite_sync() == "ready"
    assert app.cancel_sync(later).done == 1
    assert later.restart_sync() == "ready"
    assert [info.id for info in app.jobs_sync(state="ready")] == [later.id]
    assert app.pause_sync("default")
    assert app.resume_sync("default")
    assert app.enqueue_sync(double.job(5)).info_sync().args == {"n": 5}
    assert len(app.enqueue_many_sync(double.job(n) for n in range(10))) == 10
    assert app.count_sync(state="ready") == 12
    assert app.audit_sync().ok


async def test_everything_works_in_the_thread_of_a_running_loop(app: App, double: Task[[int], int]):
    job = double.enqueue_sync(2)
    assert await app.run_until_idle() == 1
    assert job.result_sync() == 4
    assert await job.result() == 4


class Interrupt(BaseException):
    """What a signal raises, as Ctrl-C raises KeyboardInterrupt."""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of a thread are POSIX'")
def test_a_signal_that_does_not_end_the_waiting_itself_is_heeded(app: App, double: Task[[int], int]):
    """A signal just before the thread waits, which cannot be timed, is like one that another thread gets."""

    def strike() -> None:
        until = time.monotonic() + 10
        while "_next" not in names_of_frames(waiting) and time.monotonic() < until:
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    def interrupt(*_: object) -> None:
        raise Interrupt

    job, waiting, began = double.enqueue_sync(1), threading.get_ident(), time.monotonic()
    before = signal.signal(signal.SIGUSR1, interrupt)
    striker = threading.Thread(target=strike)
    try:
        striker.start()
        with pytest.raises(Interrupt):
            job.result_sync(timeout=40)
    finally:
        striker.join()
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - began < 20, "the end of the wait has ended it, and not the signal"


def names_of_frames(thread: int) -> set[str]:
    """The functions in which a thread is."""
    return {frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[thread])}


def test_one_app_serves_many_loops_and_threads(app: App, double: Task[[int], int]):
    ids: list[str] = []

    def work() -> None:
        ids.append(asyncio.run(double.enqueue(1)).id)
        ids.append(double.enqueue_sync(1).id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.count_sync() == len(set(ids)) == 16
    assert app.run_until_idle_sync() == 16


def test_a_task_may_enqueue_from_its_thread(app: App, double: Task[[int], int]):
    @app.task
    def parent() -> str:
        return double.enqueue_sync(7).id

    job = parent.enqueue_sync()
    assert app.run_until_idle_sync() == 2
    assert app.handle(job.result_sync()).result_sync() == 14


def test_an_app_is_a_context_manager_without_a_loop():
    before = set(threading.enumerate())  # other tests may have left sync loops of their own
    with App("memory://") as app:
        assert app.limits_sync() == []
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name == "headgate-sync"]


async def test_an_app_is_a_context_manager_in_a_loop():
    async with App("memory://") as app:
        assert app.limits_sync() == []


def test_closing_twice_is_harmless_and_the_next_use_opens_again(app: App, double: Task[[int], int]):
    double.enqueue_sync(1)
    app.close_sync()
    app.close_sync()
    assert double.enqueue_sync(1).status_sync() == "ready"


@pytest.mark.parametrize("kind", [App, Task, TaskWithOptions, JobHandle])
def test_every_awaitable_method_has_a_twin(kind: type):
    methods = [
        name
        for name, value in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_") and not name.endswith("_sync") and name != "send"
    ]
    assert methods
    for name in methods:
        assert callable(getattr(kind, f"{name}_sync")), name


def test_a_caller_that_waits_in_a_sync_loop_that_is_closed_is_told_so():
    sync_loop, begun, told = SyncLoop(), threading.Event(), Future[None]()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            told.set_result(sync_loop.run(work()))
        except BaseException as error:
            told.set_exception(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(10)
    sync_loop.close()
    with pytest.raises(EngineUnavailable, match="closed before this was done"):
        told.result(10)
    thread.join()
