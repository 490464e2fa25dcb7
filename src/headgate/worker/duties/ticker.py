"""The duty of periodic tasks: each tick becomes one job, however many workers see it come."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import Engine
from headgate.errors import EngineUnavailable
from headgate.hooks.enqueueing import Enqueueing
from headgate.job import NewJob
from headgate.periodic import Schedule, tick_text
from headgate.worker.events import Events
from headgate.worker.runnable import Runnable

log = logging.getLogger("headgate.worker")

LONGEST_PAUSE = 60.0
"""Seconds after which to look at the store's clock again, however far the next tick is."""


class Ticker:
    """Turns due ticks into jobs. The engine compares and sets the last tick: a second worker changes nothing.

    A task that the store has not seen begins with its next tick, not with the ones before it was deployed. Jobs of a
    paused one are not even prepared: what hooks do to them would be done in vain.
    """

    name = "ticker"

    def __init__(
        self,
        engine: Engine,
        tasks: Iterable[Runnable],
        events: Events,
        enqueueing: Enqueueing | None = None,
    ) -> None:
        self.found = False
        self.asked = True
        self._engine = engine
        self._events = events
        self._enqueueing = enqueueing or Enqueueing()
        self._tasks = [(task, task.schedule) for task in tasks if task.schedule is not None]

    @property
    def needed(self) -> bool:
        """Whether there is any periodic task."""
        return bool(self._tasks)

    async def run_once(self) -> float:
        """Run what is due; returns the seconds until the next tick."""
        self.found = False
        now = await self._engine.clock()
        seen = await self._engine.ticks([task.name for task, _ in self._tasks])
        due = [(task, one) for task, one in self._tasks if _is_due(one, seen.get(task.name), now)]
        paused = await self._engine.paused_schedules() if due else ()
        for task, schedule in due:
            if task.name not in paused:
                await self._one(task, schedule, seen.get(task.name), now)
        pauses = [_pause(schedule, seen.get(task.name), now) for task, schedule in self._tasks]
        return min([LONGEST_PAUSE, *pauses])

    async def _one(self, task: Runnable, schedule: Schedule, last: int | None, now: int) -> None:
        if last is None:
            await self._engine.tick(task.name, None, now, ())
        else:
            await self._try(task, schedule.missed(last, now), last, now)

    async def _try(self, task: Runnable, ticks: list[int], last: int, now: int) -> None:
        """One task that cannot make its job must not keep the others from ticking; it is tried again."""
        try:
            await self._fire(task, ticks, last, now)
        except EngineUnavailable:
            raise
        except Exception:
            log.exception("periodic task %s could not be enqueued", task.name, extra={"task": task.name})

    async def _fire(self, task: Runnable, ticks: list[int], last: int, now: int) -> None:
        at = ticks[-1] if ticks else now
        jobs = await self._enqueueing.prepare([tick_job(task, tick) for tick in ticks])
        if await self._engine.tick(task.name, last, at, jobs):
            self.found = True
            log.debug("%s ticked: %d jobs", task.name, len(jobs), extra={"task": task.name})
            self._events.jobs.enqueued(jobs)
            self._events.emit("ticked", task=task.name, jobs=[job.id for job in jobs])


def _is_due(schedule: Schedule, last: int | None, now: int) -> bool:
    return last is None or schedule.next_after(last) <= now


def _pause(schedule: Schedule, last: int | None, now: int) -> float:
    return (schedule.next_after(now if last is None else max(last, now)) - now) / SECOND


def tick_job(task: Runnable, tick: int) -> NewJob:
    """The job of one tick: its id says which, so that no tick can have two; the task finds it in its metadata, too."""
    job, text = task.job(), tick_text(tick)
    metadata = job.metadata or msgspec.json.encode({"tick": text}).decode()
    start_by = None if job.start_within is None else tick + job.start_within
    return msgspec.structs.replace(
        job, id=f"{task.name}@{text}", at=tick, metadata=metadata, start_by=start_by, start_within=None
    )
