"""Operations on their way: handed in by callers on event loops, run by a thread, answered together."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

Glance = Callable[[], Any]


class Operation:
    """Work for the thread. `glance` may answer without a transaction when there is nothing to write; `after` runs once
    the result is safely committed."""

    __slots__ = (
        "_claimed",
        "after",
        "begun",
        "future",
        "glance",
        "loop",
        "result",
        "seconds",
        "until",
        "work",
    )

    def __init__(
        self, work: Callable[[], Any], glance: Glance | None, after: Callable[[], None] | None, seconds: float
    ) -> None:
        self.work = work
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self.begun = False
        self._claimed = threading.Lock()
        self.glance = glance
        self.after = after
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None

    def begin(self) -> bool:
        """Whether it is still wanted; from now on it cannot be withdrawn. Asked again where a group broke."""
        self.begun = self.begun or self._claimed.acquire(blocking=False)
        return self.begun

    def run(self) -> Any:
        """Do the work, if it is still wanted."""
        return self.work() if self.begun or self.begin() else None

    def withdraw(self) -> bool:
        """Whether it had not begun: it never will."""
        return self._claimed.acquire(blocking=False)


class Deadlines:
    """The operations that callers of one event loop wait for. One timer serves them all: it is moved only where an
    operation is to end before any other, and moves itself on when it rings."""

    def __init__(self, loop: asyncio.AbstractEventLoop, too_late: Callable[[Operation], None]) -> None:
        self._loop = loop
        self._too_late = too_late
        self._pending: dict[Operation, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, operation: Operation) -> None:
        """The operation will be told when it is too late."""
        self._pending[operation] = None
        if operation.until < self._at:
            self._arm(operation.until)

    def remove(self, operation: Operation) -> None:
        """The operation has ended, or its caller waits no longer."""
        del self._pending[operation]

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._at = None, math.inf
        now = time.monotonic()
        for operation in self._pending:
            if operation.until <= now:
                self._too_late(operation)
        later = [operation.until for operation in self._pending if operation.until > now]
        if later:
            self._arm(min(later))


class Raised:
    """An operation's exception, on its way to its caller."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def fail(batch: list[Operation], error: BaseException) -> None:
    for operation in batch:
        operation.result = Raised(copy.copy(error))  # each caller adds its own traceback


def deliver(batch: list[Operation]) -> None:
    """Wake each event loop once for all of its results."""
    loops: dict[asyncio.AbstractEventLoop, list[Operation]] = defaultdict(list)
    for operation in batch:
        if operation.after is not None and not isinstance(operation.result, Raised):
            operation.after()
        loops[operation.loop].append(operation)
    for loop, operations in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, operations)
        except RuntimeError:
            continue  # the loop is closed: no caller waits any more


def _resolve(operations: list[Operation]) -> None:
    for operation in operations:
        if operation.future.done():
            continue
        if isinstance(operation.result, Raised):
            operation.future.set_exception(operation.result.error)
        else:
            operation.future.set_result(operation.result)
