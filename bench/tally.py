"""What jobs record about themselves: how many have run, and how many of one key at the same time."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable


class Tally:
    """Counts runs and calls `done` at the last expected one. Safe in threads."""

    def __init__(self, expected: int, done: Callable[[], None]) -> None:
        self.expected = expected
        self._done = done
        self._count = itertools.count(1)

    def hit(self) -> None:
        """One job has run."""
        if next(self._count) == self.expected:
            self._done()

    def extra(self) -> int:
        """How many more runs than expected there were; ends the counting."""
        return next(self._count) - 1 - self.expected


class Overlap:
    """How many jobs of one key ran at the same moment, at most. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[int] = Counter()
        self.largest = 0

    def enter(self, key: int) -> None:
        """A job of `key` begins."""
        with self._lock:
            self._running[key] += 1
            self.largest = max(self.largest, self._running[key])

    def leave(self, key: int) -> None:
        """A job of `key` ends."""
        with self._lock:
            self._running[key] -= 1
