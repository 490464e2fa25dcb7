"""A thread's connection, which no fork ever sees.

SQLite keeps its file locks in tables of the process. A forked child inherits the tables but not the locks: a
connection that it opens takes itself to be covered by locks that no process holds, and when the parent closes the file,
believing to be the last one, it removes the log with all that the child has stored there. So connections are closed
before a fork and opened again when they are next used. (A subprocess is another matter: its exec leaves nothing of
the tables.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

from headgate.engine.sqlite.connection import Connection, StoreError
from headgate.errors import EngineUnavailable

Identity = tuple[int, int] | None


class Session:
    """`with session as connection:` one thread at a time is inside and uses it. Opened when first entered."""

    def __init__(self, path: str, connect: Callable[[], Connection]) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._connect = connect
        self._connection: Connection | None = None
        self._identity: Identity = None
        self._seized_by: int | None = None
        _sessions.add(self)

    def __enter__(self) -> Connection:
        self.lock.acquire()
        try:
            return self._current()
        except BaseException:
            self.lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def seize(self) -> Connection | None:
        """Enter if that needs no waiting: the connection is open, and no thread is inside. Whatever comes of it,
        `let_off` is to be called."""
        if not self.lock.acquire(blocking=False):
            return None
        self._seized_by = threading.get_ident()
        return self._connection if _identity(self._path) == self._identity else None

    def let_off(self) -> None:
        """Leave, if this thread has seized it."""
        if self._seized_by == threading.get_ident():
            self._seized_by = None
            self.lock.release()

    def close(self) -> None:
        """Close the connection; entering again opens another one."""
        with self.lock:
            self.let_go()

    def let_go(self) -> None:
        """The same where the caller has the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(StoreError):
                connection.close()

    def _current(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
            self._identity = _identity(self._path)
        elif _identity(self._path) != self._identity:
            # SQLite would go on writing to a file that has no name any more.
            raise EngineUnavailable(
                f"{self._path} was deleted or replaced while this process had it open; put it back, or restart"
            )
        return self._connection


def _identity(path: str) -> Identity:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_sessions: WeakSet[Session] = WeakSet()
_forking = threading.Lock()
_held: list[Session] = []


def _before_fork() -> None:
    _forking.acquire()
    for session in list(_sessions):
        session.lock.acquire()
        session.let_go()
        _held.append(session)


def _after_fork() -> None:
    for session in _held:
        session.lock.release()
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
