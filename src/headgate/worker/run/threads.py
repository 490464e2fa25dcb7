"""Threads for synchronous tasks.

Not `concurrent.futures`: its threads are joined when the interpreter ends, so one task that hangs would keep a worker
from ever exiting. These are daemons, started when first needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
Work = Callable[[], None]


class Threads:
    """At most `limit` threads; a piece of work that is submitted while one is free starts at once."""

    def __init__(self, limit: int, name: str) -> None:
        self.limit = limit
        self.busy = 0
        self.closed = False
        self._name = name
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._count = 0

    @property
    def free(self) -> int:
        """How many more pieces of work could start now."""
        return self.limit - self.busy

    def submit(self, work: Work) -> None:
        """Run `work`, which must not raise, in a thread; from the event loop's thread."""
        self.reserve()
        self.run(work)

    def reserve(self) -> None:
        """Keep a thread for an attempt that will soon need one; from the event loop's thread."""
        self.busy += 1

    def run(self, work: Work) -> None:
        """Run `work` in a thread that was reserved."""
        self._work.put(work)
        if self._count < min(self.busy, self.limit):
            self._count += 1
            name = f"{self._name}-thread-{self._count}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def done(self) -> None:
        """A piece of work has ended, or needs no thread after all; from the event loop's thread."""
        self.busy -= 1

    def close(self) -> None:
        """Let idle threads end, and busy ones after what they do."""
        self.closed = True
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()


class Mailbox(Generic[T]):
    """Brings items from threads to the event loop; many before the loop turns cost one hop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[T], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._items: deque[T] = deque()
        self._posted = False

    def post(self, item: T) -> None:
        """From any thread."""
        self._items.append(item)
        if self._posted:
            return
        self._posted = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: no attempt is waited for any more
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._posted = False
        while self._items:
            self._receive(self._items.popleft())
