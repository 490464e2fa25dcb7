"""A pool of processes for tasks that compute. They start when needed, are used again, and end with the worker."""

from __future__ import annotations

import asyncio
import logging

from headgate.worker.pool.frames import AppSource
from headgate.worker.pool.pool_process import PoolProcess

log = logging.getLogger("headgate.worker")

CLOSING = 2.0
"""Seconds that idle processes have to close what they keep before they are killed."""


class Pool:
    """At most `size` processes at work, each with one attempt. Used on one event loop."""

    def __init__(self, size: int, source: AppSource, most_memory: int | None = None) -> None:
        self.size = size
        self.busy = 0
        """How many attempts have a place, from their start to the end of what ran them."""
        self._source = source
        self._most_memory = most_memory
        self._idle: list[PoolProcess] = []
        self._all: set[PoolProcess] = set()

    @property
    def free(self) -> int:
        """How many more attempts could start now."""
        return self.size - self.busy

    async def take(self) -> PoolProcess:
        """A process that runs nothing: the one used last, or a new one. Raises ProcessDied if none can be had."""
        process = self._last_used() or self._start()
        try:
            await process.loaded()
        except asyncio.CancelledError:
            self.give_back(process)  # it goes on loading, for the next attempt
            raise
        return process

    def _last_used(self) -> PoolProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
        return None

    def _start(self) -> PoolProcess:
        process = PoolProcess(self._source, self._gone)
        self._all.add(process)
        log.info("process %d of the pool started", process.pid)
        return process

    def give_back(self, process: PoolProcess, memory: int | None = None) -> None:
        """The process runs nothing any more; one that takes too much memory ends."""
        if self._most_memory is not None and memory is not None and memory > self._most_memory:
            log.info("process %d of the pool takes %d MB and ends", process.pid, memory // 1024**2)
            process.close()
        elif process.alive:
            self._idle.append(process)

    async def close(self) -> None:
        """End all of them; what they run is cut short."""
        processes, idle = list(self._all), set(self._idle)
        self._idle.clear()
        for process in processes:
            process.close() if process in idle else process.kill()
        if processes:
            await asyncio.wait([process.ended for process in processes], timeout=CLOSING)
            for process in processes:
                if not process.ended.done():
                    process.kill()
            await asyncio.wait([process.ended for process in processes], timeout=CLOSING)

    def _gone(self, process: PoolProcess) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
