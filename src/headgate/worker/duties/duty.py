"""Duties: what a worker does beside running jobs. One small class each, with one `run_once()`."""

from __future__ import annotations

import logging
import random
from typing import Protocol

from headgate import cancels
from headgate.engine.deadline import within
from headgate.errors import EngineUnavailable
from headgate.worker.bell import Bell
from headgate.worker.engine_status import Backoff, EngineStatus

log = logging.getLogger("headgate.worker")


class Duty(Protocol):
    """Something to be done again and again."""

    name: str
    asked: bool
    """Whether the last round asked the store: one that had no reason to says nothing about it."""

    async def run_once(self) -> float:
        """Do what is due; returns the seconds until there will be more."""
        ...


async def keep(duty: Duty, bell: Bell, engine_status: EngineStatus, backoff: Backoff, seconds: float) -> None:
    """Do a duty until cancelled, each time within `seconds`. A ring makes it run early; no failure ends it."""
    while True:
        pause = await _attempt(duty, engine_status, backoff, seconds)
        cancels.heed()
        await bell.sleep(pause)


async def _attempt(duty: Duty, engine_status: EngineStatus, backoff: Backoff, seconds: float) -> float:
    try:
        with within(seconds):
            pause = await duty.run_once()
    except EngineUnavailable as error:
        engine_status.failed(error, duty.name)
        return backoff.wait()
    except Exception:
        log.exception("the worker's %s failed; it goes on", duty.name)
        return backoff.wait()
    if duty.asked:
        backoff.reset()
        engine_status.worked(duty.name)
    return pause


def jittered(seconds: float) -> float:
    """Around `seconds`, so that workers which started together do not march in step."""
    return seconds * random.uniform(0.75, 1.25)
