"""What each page shows, as plain values for its template."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote

from starlette.requests import Request

from headgate.app.app import App
from headgate.app.filters import JobFilter
from headgate.app.info import JobInfo, LimitInfo
from headgate.errors import JobNotFound
from headgate.job import JobState
from headgate.web.api.pages import cursor, place
from headgate.web.api.shown import for_reading
from headgate.web.problems import Refusal
from headgate.web.roles import Identity
from headgate.web.settings import WebSettings

ROWS = 50
TIGHTEST = 8
FAILED = 6
LOOKED_AT = 1000
"""Limits and keys that one look reads at most."""
FILTERS = ("state", "queue", "task", "tenant", "limit")


class View:
    """One request for a page."""

    __slots__ = ("app", "request", "settings", "who")

    def __init__(self, app: App, who: Identity, request: Request, settings: WebSettings) -> None:
        self.app = app
        self.who = who
        self.request = request
        self.settings = settings

    def asked(self, name: str) -> str:
        """What stands behind the question mark."""
        return self.request.query_params.get(name, "")

    def shown(self, job: JobInfo) -> JobInfo:
        """A job as this reader may see it."""
        return for_reading(job, self.who, self.settings)


async def overview(view: View) -> dict[str, Any]:
    """How the store stands."""
    queues = await view.app.queues()
    counts = {
        state: sum(getattr(queue, state) for queue in queues)
        for state in ("running", "ready", "waiting", "scheduled")
    }
    for state in ("succeeded", "failed"):
        counts[state] = await view.app.count(state=state)
    limits = await view.app.limits(size=LOOKED_AT)
    tight = [one for one in limits if one.waiting and (one.key != one.name or one.kind == "concurrency")]
    failed = await view.app.jobs(state="failed", size=FAILED)
    return {
        "totals": list(counts.items()),
        "tight": sorted(tight, key=lambda one: -one.waiting)[:TIGHTEST],
        "failed": [view.shown(job) for job in failed],
        "queues": queues,
        "workers": await view.app.workers(),
    }


async def queues(view: View) -> dict[str, Any]:
    """All queues."""
    return {"queues": await view.app.queues()}


async def workers(view: View) -> dict[str, Any]:
    """All workers."""
    return {"workers": await view.app.workers()}


async def limits(view: View) -> dict[str, Any]:
    """A page of limits, each followed by its keys in use."""
    after = place(view.asked("after"), 3) if view.asked("after") else None
    found = await view.app.limits(size=ROWS, after=after)  # pyright: ignore[reportArgumentType]
    last = found[-1] if len(found) == ROWS else None
    only_keys = bool(view.asked("keys"))
    return {
        "limits": [one for one in found if not only_keys or one.key != one.name or one.held or one.waiting],
        "only_keys": only_keys,
        "next": None if last is None else cursor((last.name, last.key, last.tenant or "")),
    }


async def key(view: View) -> dict[str, Any]:
    """One key: who holds it, who waits."""
    text, tenant = view.asked("key"), view.asked("tenant") or None
    if not text:
        raise Refusal("invalid", "a key is needed: /key?key=customer=42")
    limit = await _limit(view.app, text, tenant)
    waiting = await view.app.jobs(limit=text, state="waiting", size=ROWS)
    running = await view.app.jobs(state="running", size=LOOKED_AT)
    about = f"?tenant={quote(tenant, safe='')}" if tenant else ""
    return {
        "title": text,
        "tenant": tenant,
        "limit": limit,
        "waiting": [job for job in waiting if tenant in (None, job.tenant)],
        "running": [job for job in running if text in job.limits and tenant in (None, job.tenant)][:ROWS],
        "override_path": f"/limits/{quote(text, safe='')}/override{about}",
    }


async def _limit(app: App, text: str, tenant: str | None) -> LimitInfo | None:
    found = await app.limits(text.partition("=")[0], size=LOOKED_AT)
    return next((one for one in found if one.key == text and (tenant is None or one.tenant == tenant)), None)


async def jobs(view: View) -> dict[str, Any]:
    """A page of jobs."""
    given = {name: view.asked(name) for name in FILTERS}
    filter = {name: value for name, value in given.items() if value}
    after = place(view.asked("after"), 1)[0] if view.asked("after") else None
    found = await view.app.jobs(size=ROWS, after=after, **cast("JobFilter", filter))
    return {
        "asked": given,
        "filter": filter,
        "jobs": [view.shown(job) for job in found],
        "next": cursor((found[-1].id,)) if len(found) == ROWS else None,
        "states": [state.value for state in JobState],
    }


async def job(view: View) -> dict[str, Any]:
    """One job, with why it is where it is."""
    handle = view.app.handle(view.request.path_params["id"])
    info = await handle.info()
    explained = await handle.explain()
    return {
        "title": f"{info.task} {info.id}",
        "job": view.shown(info),
        "sentence": str(explained),
        "lights": [await _light(view.app, info, key) for key in info.limits],
        "events": f"/jobs/{quote(info.id, safe='')}/events" if not info.state.ended else "",
    }


async def _light(app: App, info: JobInfo, key: str) -> dict[str, Any]:
    """Whether a key of the job has room now."""
    limit = await _limit(app, key, info.tenant) or await _limit(app, key, None)
    full = limit is not None and limit.kind != "rate" and limit.max is not None and limit.held >= limit.max
    mine = info.state is JobState.RUNNING
    goes = mine or not (full or key == info.waiting_on)
    words = (
        "held by this job"
        if mine
        else "it waits here"
        if key == info.waiting_on
        else "full"
        if full
        else "room"
    )
    tenant = limit.tenant if limit else None
    return {"key": key, "tenant": tenant, "limit": limit, "goes": goes, "words": words}


async def find(view: View) -> str:
    """Where a word leads: a job, a key or a limit, a queue or a task."""
    word = view.asked("q").strip()
    if not word:
        return "/"
    try:
        await view.app.job(word)
    except JobNotFound:
        pass
    else:
        return f"/jobs/{quote(word, safe='')}"
    if "=" in word or await view.app.limits(word, size=1):
        return f"/key?key={quote(word, safe='')}"
    name = "queue" if word in {queue.name for queue in await view.app.queues()} else "task"
    return f"/jobs?{name}={quote(word, safe='')}"
