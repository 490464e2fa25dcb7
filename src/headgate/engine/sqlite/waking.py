"""Waking those who sleep: at once within the process, and across processes by watching the file.

SQLite tells nobody about commits of other processes, but a connection can ask, for a few microseconds, whether
there were any (`PRAGMA data_version`). One thread asks every 15 ms while somebody watches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headgate.engine.contract import Wake
from headgate.engine.sqlite.connection import StoreError
from headgate.engine.sqlite.session import Session
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.engine")

POLL_SECONDS = 0.015


class Watchers:
    """Who is to be woken, and the thread that looks for other processes' commits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on_work: dict[int, tuple[Wake, Sequence[str] | None]] = {}
        self._on_ended: dict[int, Wake] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def on_work(self, wake: Wake, queues: Sequence[str] | None) -> Callable[[], None]:
        """Wake for jobs of these queues."""
        return self._add(self._on_work, (wake, queues))

    def on_ended(self, wake: Wake) -> Callable[[], None]:
        """Wake for ended jobs."""
        return self._add(self._on_ended, wake)

    def signal(self, queues: Iterable[str], *, workers: bool, ended: bool) -> None:
        """Something of this process's own was committed."""
        ready = set(queues)
        for wake, served in list(self._on_work.values()):
            if workers or (ready if served is None else ready.intersection(served)):
                _ring(wake)
        if ended:
            for wake in list(self._on_ended.values()):
                _ring(wake)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _add(self, table: dict[int, Any], entry: Any) -> Callable[[], None]:
        with self._lock:
            self._count += 1
            number = self._count
            table[number] = entry
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="headgate-sqlite-watch", daemon=True)
                self._thread.start()
        return lambda: table.pop(number, None)

    def _watch(self) -> None:
        seen = None
        while not self._stop.wait(POLL_SECONDS):
            if not self._on_work and not self._on_ended:
                continue
            version = self._version()
            if version != seen:
                seen = version
                self.signal((), workers=True, ended=True)
        self._session.close()

    def _version(self) -> int | None:
        try:
            with self._session as connection:
                return connection.execute("PRAGMA data_version").get
        except (StoreError, HeadgateError):
            return None


def _ring(wake: Wake) -> None:
    """A sleeper that cannot be woken must not take the thread down that wakes the others."""
    try:
        wake()
    except Exception:
        log.exception("a sleeper could not be woken")
