"""Waiting for jobs to end, many at a time.

All waiters of one event loop share one watcher: it is woken by the store, asks for the states of all awaited jobs at
once, and fetches those that have ended in one more step. A slow poll beside the wakes covers a wake that got lost.

While the store cannot be reached the watcher tries again: the timeout of a waiter says how long it waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Sequence
from contextlib import suppress

from headgate.engine.contract import Engine, Wake
from headgate.engine.deadline import within
from headgate.errors import EngineUnavailable
from headgate.job import Job

log = logging.getLogger("headgate.app.results")

JOBS_PER_LOOK = 1000
POLL = 1.0
FIRST_RETRY = 0.05
LOOK_TIMEOUT = 5.0
"""Seconds for one look: a connection that has fallen silent is given up, and another one tried."""
LONGEST_RETRY = 1.0
"""Seconds between two tries while the store cannot be reached."""
REST_PER_JOB = 5e-6
"""Seconds of rest per awaited job between two looks, so that many waiters and many ends do not mean many × many."""

EndedJob = asyncio.Future[Job | None]


class ResultWatcher:
    """All the waiting of one event loop. Its task lives only while a caller waits."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, set[EndedJob]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._away: float | None = None

    async def ended(self, id: str) -> Job | None:
        """The job, once it has ended; None if there is no such job."""
        future: EndedJob = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id, set()).add(future)
        self._wake.set()
        if self._task is None or self._task.done():
            # The watcher outlives its first caller, whose deadline is not that of the others.
            context = contextvars.Context()
            self._task = asyncio.create_task(self._watch(), name="headgate-results", context=context)
        try:
            return await future
        finally:
            self._forget(id, future)

    def _forget(self, id: str, future: EndedJob) -> None:
        if futures := self._waiting.get(id):
            futures.discard(future)
            if not futures:
                del self._waiting[id]
        if not self._waiting:
            self._wake.set()

    async def _watch(self) -> None:
        stop = self._engine.watch_ended(_waker(asyncio.get_running_loop(), self._wake))
        try:
            while self._waiting:
                self._wake.clear()
                await self._try_to_look()
                if self._waiting:
                    await self._rest()
        except Exception as error:
            self._fail(error)
        finally:
            stop()

    async def _try_to_look(self) -> None:
        """Look; where the store is away, wait a while instead, longer each time."""
        try:
            with within(LOOK_TIMEOUT):
                await self._look(list(self._waiting))
        except EngineUnavailable as error:
            if self._away is None:
                log.warning("waiting for results: the store cannot be reached, trying again: %s", error)
            self._away = min(LONGEST_RETRY, 2 * (self._away or FIRST_RETRY / 2))
            await asyncio.sleep(self._away * random.uniform(0.5, 1))
        else:
            self._away = None

    async def _rest(self) -> None:
        if self._away is not None:
            return
        await asyncio.sleep(min(len(self._waiting) * REST_PER_JOB, POLL))
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                await self._wake.wait()

    async def _look(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), JOBS_PER_LOOK):
            batch = ids[start : start + JOBS_PER_LOOK]
            states = await self._engine.states(batch)
            over = [id for id, state in zip(batch, states, strict=True) if state is None or state.ended]
            if over:
                for id, job in zip(over, await self._engine.get(over), strict=True):
                    self._tell(id, job)

    def _tell(self, id: str, job: Job | None) -> None:
        if job is not None and not job.state.ended:
            return  # restarted between the two looks
        for future in self._waiting.get(id, ()):
            if not future.done():
                future.set_result(job)
        self._waiting.pop(id, None)

    def _fail(self, error: Exception) -> None:
        """The store cannot be asked: all waiters hear why."""
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._waiting.clear()


def _waker(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Wake:
    """Sets the event from any thread; a loop that is gone needs no waking."""

    def wake() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    return wake
