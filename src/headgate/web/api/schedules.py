"""Periodic tasks over HTTP: when each ran last and runs next, run now, pause, resume."""

from __future__ import annotations

from headgate.app.schedules import ScheduleInfo
from headgate.web.api.enqueueing import EnqueuedJob
from headgate.web.api.store import Done
from headgate.web.problems import Refusal
from headgate.web.route import Call, Handler, Route


async def list_schedules(call: Call) -> list[ScheduleInfo]:
    """List the periodic tasks of this server's code"""
    return await call.app.schedules()


async def run_schedule(call: Call) -> EnqueuedJob:
    """Run a periodic task once, now, also while it is paused"""
    handle = await call.app.run_schedule(_periodic(call))
    return EnqueuedJob(handle.id, handle.created)


async def pause_schedule(call: Call) -> Done:
    """Let a periodic task tick no more"""
    return Done(await call.app.pause_schedule(_periodic(call)))


async def resume_schedule(call: Call) -> Done:
    """Let a periodic task tick again, from now on"""
    return Done(await call.app.resume_schedule(_periodic(call)))


def _periodic(call: Call) -> str:
    name = call.path["name"]
    task = call.app.tasks.get(name)
    if task is None or task.schedule is None:
        raise Refusal("not-found", f"{name!r} is no periodic task of this server's code")
    return name


def _one(verb: str, handler: Handler, status: int = 200) -> Route:
    path = f"/schedules/{{name:path}}/{verb}"
    return Route(
        "POST", path, handler, right="steer", tag="Schedules", status=status, problems=("not-found",)
    )


ROUTES = (
    Route("GET", "/schedules", list_schedules, right="look", tag="Schedules"),
    _one("run", run_schedule, 201),
    _one("pause", pause_schedule),
    _one("resume", resume_schedule),
)
