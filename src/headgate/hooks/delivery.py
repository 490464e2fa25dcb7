"""Delivery: how the listeners of an app are told in a worker.

Synchronous listeners are called at once. An asynchronous one has a line of its own: its events reach it one after the
other, in their order, while the worker goes on. A line that grows too long loses what is new, and says so.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable
from typing import Any

from headgate.hooks.listeners import Listener, Listeners, call, finish, shown

log = logging.getLogger("headgate.hooks")

LONGEST_LINE = 10_000
"""Events that may wait for one asynchronous listener."""


class Delivery:
    """Tells an app's listeners from one event loop."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._lines: dict[Listener, Line] = {}

    def tell(self, event: Any) -> None:
        """Tell those that listen to it; never waits, never raises."""
        for listener in self._listeners.of(event.name):
            if (answer := call(listener, event)) is not None:
                self._line(listener).add(event, answer)

    def _line(self, listener: Listener) -> Line:
        line = self._lines.get(listener)
        if line is None:
            line = self._lines[listener] = Line(listener)
        return line

    async def close(self, seconds: float) -> None:
        """Wait for what is still to be told, but not for long."""
        tasks = {line.task: line for line in self._lines.values() if line.task is not None}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            line = tasks[task]
            log.warning(
                "listener %s did not end in time; %d events are dropped", shown(line.listener), len(line)
            )
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=seconds)


class Line:
    """What waits for one asynchronous listener."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.task: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[Any, Awaitable[Any]]] = deque()
        self._full = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: Any, answer: Awaitable[Any]) -> None:
        """Await `answer` once those before it are done."""
        if len(self._waiting) >= LONGEST_LINE:
            self._drop(answer)
            return
        self._waiting.append((event, answer))
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        try:
            while self._waiting:
                event, answer = self._waiting.popleft()
                await finish(self.listener, event, answer)
        finally:
            self.task, self._full = None, False
            while self._waiting:
                _close(self._waiting.popleft()[1])

    def _drop(self, answer: Awaitable[Any]) -> None:
        _close(answer)
        if not self._full:
            self._full = True
            text = "listener %s is %d events behind; it will not be told of new ones until it has caught up"
            log.warning(text, shown(self.listener), LONGEST_LINE)


def _close(answer: Awaitable[Any]) -> None:
    if inspect.iscoroutine(answer):
        answer.close()
