"""Sync twins: without a loop, inside one, from many threads, after close."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headgate.app.sync import SyncLoop, twin
from headgate.errors import HeadgateError
from tests.support.waiting import turns


class Thing:
    def __init__(self) -> None:
        self.sync_loop = SyncLoop()

    async def add(self, a: int, b: int = 1) -> int:
        """Add."""
        await turns()
        return a + b

    async def fail(self) -> None:
        raise KeyError("x")

    async def nested(self) -> int:
        return self.add_sync(1)

    async def for_ever(self) -> None:
        await asyncio.Event().wait()

    add_sync = twin(add)
    fail_sync = twin(fail)
    nested_sync = twin(nested)
    for_ever_sync = twin(for_ever)


@pytest.fixture
def thing():
    made = Thing()
    yield made
    made.sync_loop.close()


def test_a_twin_works_without_a_loop(thing: Thing):
    assert thing.add_sync(1, b=2) == 3


async def test_a_twin_works_in_the_thread_of_a_running_loop(thing: Thing):
    assert thing.add_sync(1) == 2


def test_a_twin_raises_what_its_method_raises(thing: Thing):
    with pytest.raises(KeyError):
        thing.fail_sync()


def test_a_twin_called_inside_the_sync_loop_is_refused_instead_of_waiting_for_itself(thing: Thing):
    with pytest.raises(HeadgateError, match="await its twin"):
        thing.nested_sync()


def test_one_sync_loop_serves_many_threads(thing: Thing):
    sums: list[int] = []
    before = set(threading.enumerate())  # other tests may have left sync loops of their own
    threads = [threading.Thread(target=lambda: sums.append(thing.add_sync(1))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [2] * 20
    assert sum(thread.name == "headgate-sync" for thread in set(threading.enumerate()) - before) == 1


def test_a_closed_sync_loop_opens_again(thing: Thing):
    thing.add_sync(1)
    thing.sync_loop.close()
    thing.sync_loop.close()
    assert thing.add_sync(1) == 2


def test_closing_ends_what_still_runs(thing: Thing):
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            thing.for_ever_sync()
        except BaseException as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    thing.add_sync(1)
    while waiter.is_alive():
        thing.sync_loop.close()
        waiter.join(0.05)
    assert len(errors) == 1


def test_a_twin_is_named_after_its_method():
    assert Thing.add_sync.__name__ == "add_sync"
    assert Thing.add_sync.__doc__ == "`add()` for code that cannot await."
