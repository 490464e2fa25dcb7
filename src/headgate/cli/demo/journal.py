"""What the jobs write down about themselves: one line when a run starts, one when it ends.

The file is opened for appending, and each line is one write: the lines of several processes never mix, and none of
them is lost when its process is killed. Nothing of it goes through Headgate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

from headgate.hooks.context import current_job


class Entry(msgspec.Struct, frozen=True):
    """One line. `at` is the machine's monotonic clock, the same for all processes; `claimed` the store's clock."""

    what: Literal["start", "end", "fail"]
    job: str
    attempt: int
    pid: int
    task: str
    customer: int
    number: int
    at: float
    claimed: float


class Journal:
    """The writing side, one per process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    @contextmanager
    def run(self, customer: int, number: int) -> Generator[None]:
        """Write down the start and the end of the run that the calling task is in."""
        self._write("start", customer, number)
        try:
            yield
        except BaseException:
            self._write("fail", customer, number)
            raise
        self._write("end", customer, number)

    def _write(self, what: Literal["start", "end", "fail"], customer: int, number: int) -> None:
        job = current_job()
        claimed = job.started_at.timestamp()
        entry = Entry(
            what, job.id, job.attempt, os.getpid(), job.task, customer, number, time.monotonic(), claimed
        )
        os.write(self._file, msgspec.json.encode(entry) + b"\n")


class Reader:
    """The reading side: follows the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._decode = msgspec.json.Decoder(Entry).decode
        self.entries: list[Entry] = []

    def follow(self) -> list[Entry]:
        """The entries that are new since the last call; a line that is half written waits for its other half."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._read += len(whole) + len(newline)
        new = [self._decode(line) for line in whole.splitlines()]
        self.entries += new
        return new
