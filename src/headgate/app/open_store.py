"""A store that is open in this process: its engine, and what waits there for results."""

from __future__ import annotations

import asyncio
import os
from weakref import WeakKeyDictionary

from headgate.app.results import ResultWatcher
from headgate.engine.contract import Engine
from headgate.job import Job


class OpenStore:
    """Belongs to the process that opened it: a forked child opens its own."""

    __slots__ = ("_pid", "_watchers", "engine")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._pid = os.getpid()
        self._watchers: WeakKeyDictionary[asyncio.AbstractEventLoop, ResultWatcher] = WeakKeyDictionary()

    @property
    def own(self) -> bool:
        """Whether this process opened it."""
        return self._pid == os.getpid()

    async def ended(self, id: str) -> Job | None:
        """The job, once it has ended; None if there is no such job. Each event loop has one watcher."""
        loop = asyncio.get_running_loop()
        watcher = self._watchers.get(loop)
        if watcher is None:
            watcher = self._watchers[loop] = ResultWatcher(self.engine)
        return await watcher.ended(id)
