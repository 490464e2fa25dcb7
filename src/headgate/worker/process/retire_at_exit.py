"""Retires the workers of a process that ends while a thread of theirs cannot be stopped.

Such a thread keeps its slots until it has ended, and it ends with its process: what retires its worker must come later.
For its children a supervisor does that (lost_workers.py). A process without one becomes this program at its very end:
`exec` ends all threads and keeps the process id, so that it works as a container's first process, too. Without it the
leases would lapse, and the store would ask which of the jobs is to blame (rule 15).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import sys
import tempfile
import time

from headgate.worker import registrations
from headgate.worker.process.lost_workers import LostWorkers, tell_until_heard

PROGRAM = "headgate.worker.process.retire_at_exit"
PATIENCE = 5.0
"""Seconds for telling the store, at most; after that the leases lapse."""


class RetireAtExit:
    """Made before the app is loaded: what the app wants done at exit is done first."""

    def __init__(self) -> None:
        self.stopped = False
        """Whether the workers have stopped in good order: a crash keeps its exit code."""
        if hasattr(os, "pread"):  # elsewhere `exec` does not end threads before it begins: the leases lapse
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - needed until the process ends
            registrations.keep_in(self._file.fileno())
            atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        with self._file as file:
            notes = registrations.read_notes(file.fileno())
            if self.stopped and notes.store is not None and notes.left:
                _become_this_program(notes.store.url, file.fileno())


def _become_this_program(url: str, file: int) -> None:
    if url.startswith("memory:"):  # gone with the process
        return
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os.set_inheritable(file, True)
    with contextlib.suppress(OSError):  # no such program any more: the leases lapse
        os.execv(sys.executable, [sys.executable, "-m", PROGRAM, str(file)])


def main() -> None:
    """The threads are gone: retire their workers."""
    notes = registrations.read_notes(int(sys.argv[1]))
    if notes.store is not None:
        until = time.monotonic() + PATIENCE
        asyncio.run(tell_until_heard(LostWorkers(notes.store, notes.left, False, until)))


if __name__ == "__main__":
    main()
