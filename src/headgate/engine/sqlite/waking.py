"""Waking sleepers: at once within the process, and across processes by watching the file.

SQLite does not tell of commits of other processes, but a connection can ask, for a few microseconds, whether there
were any but its own (`PRAGMA data_version`). The writer's thread does so while there are sleepers: when the operating
system says that the log was written, or where that is not to be had every 20 ms, if the time stamp of the log says so.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from headgate.engine.contract import Wake
from headgate.engine.sleepers import Sleepers
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.inotify import Inotify

YOUNG = 100_000_000
"""Nanoseconds: far more than the grain of any file system's clock."""
LOOK_SECONDS = 0.02
"""Between two looks where the operating system does not tell of writes."""
REST = 1.0
"""Seconds between two looks where it does: in practice they find nothing."""


class Watchers:
    """The sleepers of this process. `nudge` is called when one is registered."""

    def __init__(self, path: str) -> None:
        self._log_path = f"{path}-wal"
        self._mark: tuple[int, int, int] | None = None
        self._sure_at = 0.0
        self.nudge: Callable[[], None] = lambda: None
        self._sleepers = Sleepers()
        self._lock = threading.Lock()
        self._seen: int | None = None
        self._inotify: Inotify | None = None

    def stop(self) -> None:
        """Listen no more."""
        with self._lock:
            notices, self._inotify = self._inotify, None
        if notices is not None:
            notices.stop()

    def on_work(self, wake: Wake, queues: Sequence[str] | None) -> Callable[[], None]:
        """Wake for jobs of these queues."""
        end = self._sleepers.on_work(wake, queues)
        self._listen()
        return end

    def on_ended(self, wake: Wake) -> Callable[[], None]:
        """Wake for ended jobs."""
        end = self._sleepers.on_ended(wake)
        self._listen()
        return end

    def signal(self, queues: Iterable[str], *, workers: bool, ended: bool) -> None:
        """A commit of this process made jobs ready, concerns all workers, or ended jobs."""
        self._sleepers.work(None if workers else {*queues})
        if ended:
            self._sleepers.ended()

    def stirred(self) -> bool:
        """Whether the log was written since the last look. Time stamps are coarse: a young one may hide a second commit
        behind the first, and does not count as old news yet. Once in a while the answer is yes whatever they say: a
        commit is written to the log before it can be read, and its process may stand still in between."""
        now = time.monotonic()
        if now > self._sure_at + REST:
            self._sure_at = now
            return True
        try:
            log = os.stat(self._log_path)
        except OSError:
            return True
        mark, before = (log.st_mtime_ns, log.st_size, log.st_ino), self._mark
        self._mark = mark
        return mark != before or abs(time.time_ns() - log.st_mtime_ns) < YOUNG

    def look(self, connection: Connection) -> None:
        """Wake all sleepers if another connection has committed since the last look."""
        version = connection.execute("PRAGMA data_version").get
        if version != self._seen:
            self._seen = version
            self.signal((), workers=True, ended=True)

    @property
    def rest(self) -> float | None:
        """Seconds between two looks unless there was a notice; None if there are no sleepers."""
        if not self._sleepers:
            return None
        return REST if self._inotify is not None and self._inotify.listening else LOOK_SECONDS

    def _noticed(self) -> None:
        if self.rest is not None:
            self.nudge()

    def _listen(self) -> None:
        with self._lock:
            if self._inotify is None:
                self._inotify = Inotify(self._log_path, self._noticed)
                self._inotify.start()
        self.nudge()
