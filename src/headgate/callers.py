"""The thread that waits for a sync twin, and what is done in it: statements on its own connection.

A twin's coroutine runs on a loop that all threads of a program share. A statement that waits there for a lock would
hold up every other thread, also the one whose commit gives the lock back: so it goes back to the thread that asked for
it, which has nothing else to do. Drivers whose connections belong to a thread find it to be the right one, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Errand = tuple[Future[Any], Callable[[], Any]]

CALLER: ContextVar[Caller | None] = ContextVar("headgate_caller", default=None)


class Caller:
    """A thread that waits for a future, and does meanwhile what the work behind that future sends back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._waits = True

    def wait(self, future: Future[T], look_up: float) -> T:
        """What the future brings. The thread looks up every so often, for a signal that came just before it waited."""
        future.add_done_callback(lambda _: self._errands.put(None))
        try:
            while (errand := self._next(look_up)) is not None:
                _run(*errand)
        finally:
            self._leave()
        return future.result()

    def _next(self, look_up: float) -> Errand | None:
        while True:
            try:
                return self._errands.get(timeout=look_up)
            except Empty:
                continue

    def _leave(self) -> None:
        with self._lock:
            self._waits = False
        while not self._errands.empty():
            if (errand := self._errands.get()) is not None:
                errand[0].cancel()

    def take(self, function: Callable[[], T]) -> Future[T] | None:
        """Have a function called by this thread; None if it waits no more."""
        with self._lock:
            if not self._waits:
                return None
            answer = Future[T]()
            self._errands.put((answer, function))
            return answer


def _run(answer: Future[Any], function: Callable[[], Any]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(function())
    except Exception as error:
        answer.set_exception(error)
    except BaseException:  # a signal: it ends the waiting of this thread, and must not end the loop of all
        answer.set_exception(CancelledError())
        raise


async def by_the_caller(function: Callable[[], T]) -> T:
    """Call a function in the thread that waits for this coroutine; here, if there is none."""
    caller = CALLER.get()
    answer = None if caller is None else caller.take(function)
    return function() if answer is None else await asyncio.wrap_future(answer)
