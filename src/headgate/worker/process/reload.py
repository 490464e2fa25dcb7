"""`--reload`: a worker process that ends itself when its source files change, for its supervisor to start it anew."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger("headgate.worker")

LOOK_INTERVAL = 0.3
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


class Reloader(threading.Thread):
    """Watches the loaded source files outside of the Python installation; ends the process in good order."""

    def __init__(self, interval: float = LOOK_INTERVAL) -> None:
        super().__init__(name="headgate-reload", daemon=True)
        self.changed = False
        self._interval = interval
        self._began = time.time_ns()
        self._seen: dict[str, int] = {}

    def run(self) -> None:
        """Poll until something changes."""
        while not (changed := self.changes(loaded_files())):
            time.sleep(self._interval)
        self.changed = True
        log.warning("%s changed, starting anew", ", ".join(changed))
        os.kill(os.getpid(), signal.SIGTERM)

    def changes(self, files: Iterable[str]) -> list[str]:
        """The files that changed since they were first seen, or between our start and then."""
        return [file for file in files if self._changed(file, _mtime(file))]

    def _changed(self, file: str, mtime: int) -> bool:
        return self._seen.setdefault(file, mtime) != mtime or mtime > self._began


def loaded_files() -> list[str]:
    """The source files of loaded modules that are no part of an installation."""
    installed = tuple({sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])})
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return sorted(
        {f for f in files if f and f.endswith(".py") and not os.path.abspath(f).startswith(installed)}
    )


def source_files(directory: str) -> list[str]:
    """All source files below a directory, leaving out hidden and installed ones."""
    found: list[str] = []
    for folder, names, files in os.walk(directory):
        names[:] = [name for name in names if not name.startswith(".") and name not in SKIPPED]
        found += [os.path.join(folder, file) for file in files if file.endswith(".py")]
    return found


def wait_for_change(directory: str, interval: float = LOOK_INTERVAL) -> None:
    """Return when a source file below `directory` changes, comes or goes: after a failed start nothing is loaded."""
    before = _times(directory)
    while _times(directory) == before:
        time.sleep(interval)


def _times(directory: str) -> dict[str, int]:
    return {file: _mtime(file) for file in source_files(directory)}


def _mtime(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
