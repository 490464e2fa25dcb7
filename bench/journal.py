"""What jobs note about themselves, for any number of processes: each writes to its own mapped file, without a call.

Times are of the clock that all processes of a machine share.
"""

import mmap
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

WIDTH = 8
SPARE = 1_000  # jobs that run twice are noted too


class Journal:
    """Starts and ends of jobs by key. Safe in threads; one process writes, others may read."""

    def __init__(self, path: Path, jobs: int) -> None:
        size = WIDTH * (1 + 2 * 2 * (jobs + SPARE))
        path.touch()
        with path.open("r+b") as file:
            file.truncate(size)
            self._cells = memoryview(mmap.mmap(file.fileno(), size)).cast("q")
        self._lock = threading.Lock()

    def enter(self, key: int) -> None:
        """A job of `key` begins."""
        self._note(key + 1)

    def leave(self, key: int) -> None:
        """A job of `key` ends."""
        self._note(-key - 1)

    def _note(self, what: int) -> None:
        with self._lock:
            notes = self._cells[0]
            self._cells[2 * notes + 1] = time.monotonic_ns()
            self._cells[2 * notes + 2] = what
            self._cells[0] = notes + 1

    def __len__(self) -> int:
        return self._cells[0]

    def notes(self) -> Iterator[tuple[int, int, int]]:
        """Time, key, and 1 for a start or -1 for an end."""
        for at in range(1, 2 * len(self) + 1, 2):
            what = self._cells[at + 1]
            yield self._cells[at], abs(what) - 1, 1 if what > 0 else -1


def overlap(journals: Sequence[Journal]) -> int:
    """How many jobs of one key ran at the same moment, at most."""
    running: defaultdict[int, int] = defaultdict(int)
    largest = 0
    # At the same nanosecond an end counts before a start.
    for _, change, key in sorted((at, change, key) for each in journals for at, key, change in each.notes()):
        running[key] += change
        largest = max(largest, running[key])
    return largest


def last(journals: Sequence[Journal]) -> int:
    """When the last thing was noted."""
    return max(at for each in journals for at, _, _ in each.notes())
