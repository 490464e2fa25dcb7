"""Following one job: what it reports and where it stands, as it happens, until it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from headgate.app.info import Info
from headgate.engine.contract import Engine
from headgate.engine.deadline import within
from headgate.errors import EngineUnavailable
from headgate.job import Job, JobState

log = logging.getLogger("headgate.app.stream")

REST = 0.05
"""Seconds between two looks at least: jobs that report in a loop are followed by twenty looks a second."""
POLL = 1.0
LOOK_TIMEOUT = 5.0
LONGEST_RETRY = 1.0


class JobUpdate(Info, frozen=True):
    """One step of a job: its state, its attempt so far, what it last reported, and the error of its last attempt."""

    state: JobState
    attempt: int
    progress: Any
    error: str | None


async def follow(
    engine: Engine, look: Callable[[], Awaitable[Job]], decode_progress: Callable[[Job], Any]
) -> AsyncGenerator[JobUpdate]:
    """Every change that a look sees; what was overtaken between two looks is not told. Ends with the job."""
    loop, wake = asyncio.get_running_loop(), asyncio.Event()

    def ring() -> None:
        with suppress(RuntimeError):  # the loop is gone, and the one who followed with it
            loop.call_soon_threadsafe(wake.set)

    last: JobUpdate | None = None
    stop = engine.watch_ended(ring)
    try:
        while True:
            wake.clear()
            update = await _look(look, decode_progress)
            if update != last:
                last = update
                yield update
            if update.state.ended:
                return
            await asyncio.sleep(REST)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await wake.wait()
    finally:
        stop()


async def _look(look: Callable[[], Awaitable[Job]], decode_progress: Callable[[Job], Any]) -> JobUpdate:
    """One look; while the store cannot be reached it is tried again."""
    wait = 0.0
    while True:
        try:
            with within(LOOK_TIMEOUT):
                job = await look()
            return JobUpdate(job.state, job.attempt, decode_progress(job), job.error)
        except EngineUnavailable as error:
            if not wait:
                log.warning("following a job: the store cannot be reached, trying again: %s", error)
            wait = min(LONGEST_RETRY, 2 * wait or REST)
            await asyncio.sleep(wait)
