"""Sync twins of async methods.

A sync_loop is one background thread with an event loop, started when a twin is first called. A twin hands its coroutine
over and waits; so it works without any loop, and also in a thread whose own loop is running (which it blocks meanwhile,
as any synchronous call does). Twins are derived, never written: `enqueue_sync = twin(enqueue)`.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from headgate.app.worker_loops import WorkerLoops
from headgate.callers import CALLER, Caller
from headgate.errors import EngineUnavailable, HeadgateError
from headgate.forks import renew_after_fork

P = ParamSpec("P")
T = TypeVar("T")

LOOK_UP = 1.0
"""Seconds after which a waiting thread looks up. A signal that comes while a thread is about to wait does not end the
waiting, in CPython: without this, a Ctrl-C could be lost."""


class SyncLoop:
    """A loop in a thread of its own, for callers that have none."""

    def __init__(self) -> None:
        self.worker_loops = WorkerLoops()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """No thread is there: none survives a fork."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the sync_loop and wait for what it returns."""
        loop = self._running()
        if self.is_mine():
            work.close()
            raise HeadgateError(
                "a *_sync method was called on the loop that would have to serve it; await its twin"
            )
        caller = Caller()
        token = CALLER.set(caller)  # what is handed over runs in a copy of this context
        future = asyncio.run_coroutine_threadsafe(work, loop)
        CALLER.reset(token)
        try:
            return caller.wait(future, LOOK_UP)
        except CancelledError:
            raise EngineUnavailable("the app was closed before this was done") from None
        except BaseException:
            future.cancel()
            raise

    def hand_over(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the sync_loop without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def is_mine(self) -> bool:
        """Whether the calling code was handed over by a twin."""
        return threading.current_thread() is self._thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="headgate-sync", daemon=True
                )
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
            loop.run_until_complete(_wind_up(loop))
        finally:
            loop.close()

    def close(self) -> None:
        """Stop the thread; a later twin starts a new one. Harmless when called twice, or from the sync_loop itself."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Let what still runs hear that it is over."""
    rest = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()


class HasSyncLoop(Protocol):
    """What a twin needs of the object it belongs to."""

    @property
    def sync_loop(self) -> SyncLoop: ...


S = TypeVar("S", bound=HasSyncLoop)


def twin(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[S, P], T]:
    """The sync twin of an async method."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.sync_loop.run(method(self, *args, **kwargs))

    call.__name__ = f"{method.__name__}_sync"
    call.__qualname__ = f"{method.__qualname__}_sync"
    call.__doc__ = f"`{method.__name__}()` for code that cannot await."
    return call


def waiting_twin(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """The sync twin of a method that waits for jobs: refused where the waiting would hold up the worker."""
    call = twin(method)

    @functools.wraps(call)
    def wait(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.sync_loop.worker_loops.refuse_to_block(method.__name__)
        return call(self, *args, **kwargs)

    return wait
