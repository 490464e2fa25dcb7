"""How many jobs have run."""

import asyncio
import itertools


class Tally:
    """Counts runs and sets `done` at the last expected one. Jobs may run in threads."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._count = itertools.count(1)

    def hit(self) -> None:
        """One job has run."""
        if next(self._count) == self.expected:
            self._loop.call_soon_threadsafe(self.done.set)

    def extra(self) -> int:
        """How many more runs than expected there were; ends the counting."""
        return next(self._count) - 1 - self.expected
