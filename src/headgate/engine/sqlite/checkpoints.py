"""Checkpoints: the log's pages go into the file before the log grows long, and no commit waits for the disk meanwhile.

SQLite's own way is that the commit which finds the log long copies all of it, some 20 ms for 4,000 pages, while every
job waits. Here another thread copies most of it beside the writer; the few pages that were written meanwhile are left
to the writer, since a log begins anew only when nothing in it is left to copy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headgate.engine.sqlite.connection import Connection, StoreError

LONG = 4000
"""Pages of a log that is worth copying."""
STEP = 1000
"""Pages that a log must have grown by before another try, when readers keep it from beginning anew."""
TOO_LONG = 4 * LONG
"""Pages of a log that the writer copies itself, because the other thread does not come to it."""


class Checkpoints:
    """Told of every commit by SQLite. `copy_beside` has another thread call `copy`."""

    def __init__(self, copy_beside: Callable[[], None]) -> None:
        self._copy_beside = copy_beside
        self._next = LONG
        self._asked = False
        self._copied = False
        self.due = False
        """Whether a commit may have to wait for the disk: to copy the rest of the log, or to begin it anew."""

    def committed(self, connection: Connection, _: str, pages: int) -> int:
        """The hook of the writer's connection, called after each commit."""
        self.due = pages >= LONG
        if pages < LONG:
            self._next, self._asked, self._copied = LONG, False, False
        elif self._copied or pages >= max(self._next, TOO_LONG):
            self._next, self._asked, self._copied = pages + STEP, False, False
            _copy(connection)
        elif pages >= self._next and not self._asked:
            self._asked = True
            self._copy_beside()
        return 0

    def copy(self, connection: Connection) -> None:
        """On the other thread, with its own connection."""
        _copy(connection)
        self._copied = self._asked


def _copy(connection: Connection) -> None:
    with suppress(
        StoreError
    ):  # busy: another process does it; a full disk: the log keeps what it has, the next try tells
        connection.wal_checkpoint()
