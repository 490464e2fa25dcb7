"""Periodic tasks as operators see them: when each ran last and runs next, run now, pause, resume."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headgate.app.asking import Asking
from headgate.app.blocks import enqueue
from headgate.app.handle import JobHandle
from headgate.app.info import Info
from headgate.app.sync import twin
from headgate.app.task import AnyTask
from headgate.clock import from_us
from headgate.errors import ConfigError
from headgate.keys import check_text
from headgate.periodic import CatchUp, Schedule, tick_text


class ScheduleInfo(Info, frozen=True):
    """A periodic task. `schedule` is its cron expression or interval, `last` its latest tick (whether or not a job came
    of it), None before the first; `next` is None while it is paused."""

    name: str
    schedule: str
    timezone: str
    queue: str
    last: datetime | None
    next: datetime | None
    paused: bool
    catch_up: CatchUp


class Schedules(Asking):
    """The part of an app that looks after its periodic tasks."""

    async def schedules(self) -> list[ScheduleInfo]:
        """The periodic tasks of this program, in the order of their names."""
        tasks = {name: task for name, task in sorted(self._tasks.items()) if task.schedule is not None}
        engine = await self._client.engine()
        now, seen = await engine.clock(), await engine.ticks(list(tasks))
        paused = await engine.paused_schedules()
        return [_info(task, seen.get(name), now, paused=name in paused) for name, task in tasks.items()]

    async def pause_schedule(self, name: str) -> bool:
        """Let a periodic task tick no more; jobs that it has made go on. False if it was paused already."""
        self._periodic(name)
        return await (await self._client.engine()).pause_schedule(name)

    async def resume_schedule(self, name: str) -> bool:
        """Let it tick again, from now on: what fell into the pause is passed over. False if it was not paused."""
        return await (await self._client.engine()).resume_schedule(check_text(name, "periodic task"))

    async def run_schedule(self, name: str) -> JobHandle[Any]:
        """Run a periodic task once, now, beside its ticks, also while it is paused."""
        task = self._periodic(name)
        now = tick_text(await (await self._client.engine()).clock())
        metadata = msgspec.json.encode({"tick": now}).decode()
        job = msgspec.structs.replace(task.job(), metadata=metadata)
        return (await enqueue(self._client, (job,)))[0]

    def _periodic(self, name: str) -> AnyTask:
        task = self._tasks.get(check_text(name, "periodic task"))
        if task is not None and task.schedule is not None:
            return task
        known = ", ".join(sorted(one.name for one in self._tasks.values() if one.schedule is not None))
        raise ConfigError(f"{name!r} is no periodic task of this program; it has: {known or 'none'}")

    schedules_sync = twin(schedules)
    pause_schedule_sync = twin(pause_schedule)
    resume_schedule_sync = twin(resume_schedule)
    run_schedule_sync = twin(run_schedule)


def _info(task: AnyTask, last: int | None, now: int, *, paused: bool) -> ScheduleInfo:
    schedule = task.schedule
    assert schedule is not None
    return ScheduleInfo(
        name=task.name,
        schedule=schedule.text,
        timezone=schedule.timezone,
        queue=task.queue,
        last=None if last is None else from_us(last),
        next=None if paused else from_us(_next(schedule, last, now)),
        paused=paused,
        catch_up=schedule.catch_up,
    )


def _next(schedule: Schedule, last: int | None, now: int) -> int:
    """The next tick that a worker will run; one that is due already if no worker has run it yet."""
    return schedule.next_after(now) if last is None else schedule.next_after(last)
