"""A clock that tests move."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from headgate.clock import duration_us, from_us, instant_us, now_us


class Clock:
    """Stands still until it is moved: `App("memory://", clock=clock)`, then `clock.advance(30)`.

    Moving it wakes the workers of every app that runs on it, so that what has become due is seen at once.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._lock = threading.Lock()
        self._now = now_us() if start is None else instant_us(start, "start")
        self._watchers: list[Callable[[], None]] = []

    def __call__(self) -> int:
        """Now, in microseconds: what an engine asks."""
        return self._now

    def now(self) -> datetime:
        """Now, as a datetime in UTC."""
        return from_us(self._now)

    def advance(self, duration: float | timedelta) -> datetime:
        """Move forward by seconds or a timedelta; returns the new time."""
        with self._lock:
            self._now += duration_us(duration, "advance()")
            watchers = list(self._watchers)
        for wake in watchers:
            wake()
        return self.now()

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after every move; returns the function that ends it."""
        with self._lock:
            self._watchers.append(wake)

        def end() -> None:
            with self._lock:
                if wake in self._watchers:
                    self._watchers.remove(wake)

        return end

    def __repr__(self) -> str:
        return f"<Clock {self.now().isoformat()}>"
