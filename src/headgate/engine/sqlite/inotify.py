"""Hearing from the operating system that another process has written to the file's log.

Linux tells by inotify, at once and without a wake-up meanwhile. Where that is not to be had this thread does not
listen, and the writer's thread looks for commits itself.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections.abc import Callable
from typing import Any

IN_MODIFY = 0x2
IN_IGNORED = 0x8000
EVENT = struct.Struct("iIII")
GAP = 0.005
"""Seconds between two notices: while much is written, more of them would be of no use."""
AFTERWARDS = (0.02, 0.1, 0.4)
"""Seconds of quiet after which a notice is repeated. A commit is written to the log before it can be read: a look in
between, which may last where the writer is held up, finds nothing, and no notice follows."""


class Inotify:
    """A thread that calls `heard` after writes to the file at `path`, and once when it begins to listen."""

    def __init__(self, path: str, heard: Callable[[], None]) -> None:
        self.listening = False
        self._path = path
        self._heard = heard
        self._stopped = threading.Event()
        self._end = -1
        self._thread = threading.Thread(target=self._run, name="headgate-sqlite-notice", daemon=True)

    def start(self) -> None:
        """Begin; `listening` says when it has succeeded."""
        if hasattr(os, "eventfd"):
            self._end = os.eventfd(0)
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._end >= 0:
            os.eventfd_write(self._end, 1)
            self._thread.join()
            os.close(self._end)

    def _run(self) -> None:
        libc = _libc()
        notices = -1 if libc is None else libc.inotify_init1(os.O_CLOEXEC)
        if notices < 0:
            return
        try:
            self._listen(libc, notices)
        finally:
            self.listening = False
            os.close(notices)

    def _listen(self, libc: Any, notices: int) -> None:
        waiting = select.poll()
        waiting.register(notices, select.POLLIN)
        waiting.register(self._end, select.POLLIN)
        repeats = AFTERWARDS
        while not self._stopped.is_set():
            if not self.listening:  # at first, and when the log was deleted and begun anew
                self.listening = libc.inotify_add_watch(notices, os.fsencode(self._path), IN_MODIFY) >= 0
            elif waiting.poll(repeats[0] * 1000 if repeats else None):
                self.listening = self._stopped.is_set() or not _is_gone(os.read(notices, 4096))
                repeats = AFTERWARDS
            else:
                repeats = repeats[1:]
            self._heard()
            self._stopped.wait(GAP)


def _is_gone(events: bytes) -> bool:
    """Whether the file is not watched any more; events on a single file carry no name."""
    return any(mask & IN_IGNORED for _, mask, _, _ in EVENT.iter_unpack(events))


def _libc() -> Any:
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        return libc if libc.inotify_init1 and libc.inotify_add_watch else None
    except (ImportError, OSError, AttributeError):
        return None
