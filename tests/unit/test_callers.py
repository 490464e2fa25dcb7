"""What a sync twin's thread does while it waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future

import pytest

from headgate.app.sync import SyncLoop
from headgate.callers import Caller, by_the_caller


class Interrupt(BaseException):
    """What a signal raises, as Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture
def sync_loop() -> Iterator[SyncLoop]:
    loop = SyncLoop()
    yield loop
    loop.close()


def test_the_thread_that_waits_calls_what_is_sent_back(sync_loop: SyncLoop):
    async def work() -> list[int]:
        return [await by_the_caller(threading.get_ident), await by_the_caller(threading.get_ident)]

    assert sync_loop.run(work()) == [threading.get_ident()] * 2


async def test_without_a_thread_that_waits_it_is_called_at_once():
    assert await by_the_caller(threading.get_ident) == threading.get_ident()


def test_the_loop_serves_other_threads_while_one_is_held_up(sync_loop: SyncLoop):
    free, held = threading.Event(), threading.Event()

    def hold() -> bool:
        held.set()
        return free.wait(10)

    async def quick() -> None:
        free.set()

    thread = threading.Thread(target=lambda: sync_loop.run(by_the_caller(hold)))
    thread.start()
    assert held.wait(10)
    sync_loop.run(quick())
    thread.join(10)
    assert not thread.is_alive()


def test_an_exception_reaches_the_work_and_then_the_caller(sync_loop: SyncLoop):
    async def work() -> None:
        try:
            await by_the_caller(lambda: [][1])
        except IndexError as error:
            raise LookupError("seen") from error

    with pytest.raises(LookupError, match="seen"):
        sync_loop.run(work())


def test_a_signal_ends_the_waiting_and_not_the_loop(sync_loop: SyncLoop):
    ended = threading.Event()

    def strike() -> None:
        raise Interrupt

    async def work() -> None:
        try:
            await by_the_caller(strike)
        finally:
            ended.set()

    async def alive() -> str:
        return "alive"

    with pytest.raises(Interrupt):
        sync_loop.run(work())
    assert ended.wait(10)
    assert sync_loop.run(alive()) == "alive"


def test_what_outlives_the_waiting_is_called_on_the_loop(sync_loop: SyncLoop):
    go, where = threading.Event(), Future[int]()

    async def later() -> None:
        await asyncio.to_thread(go.wait, 10)
        where.set_result(await by_the_caller(threading.get_ident))

    async def work() -> asyncio.Task[None]:
        return asyncio.create_task(later())

    task = sync_loop.run(work())
    go.set()
    assert where.result(10) not in (0, threading.get_ident())
    assert task is not None


def test_what_is_left_when_the_thread_leaves_is_cancelled():
    caller, waited_for, begun = Caller(), Future[None](), threading.Event()

    def strike() -> None:
        assert begun.wait(10)
        raise Interrupt

    first = caller.take(strike)
    second = caller.take(lambda: 1)
    begun.set()
    with pytest.raises(Interrupt):
        caller.wait(waited_for, 1)
    assert first is not None
    assert second is not None
    assert isinstance(first.exception(1), CancelledError)
    assert second.cancelled()
    assert caller.take(lambda: 1) is None
