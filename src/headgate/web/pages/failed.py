"""What went wrong, grouped by task and error."""

from __future__ import annotations

from typing import Any

from headgate.app.failures import FailureGroup, Failures
from headgate.web.api.shown import failures_shown, hides
from headgate.web.pages.view import Context, View

SINCE = {"3600": "1 h", "21600": "6 h", "86400": "24 h", "604800": "7 d", "": "all"}
LOOKED_AT = 1000


async def failed(view: View) -> Context:
    """All groups of failed jobs."""
    given = view.asked("since")
    since = given if given in SINCE else ""
    task, queue = view.asked("task"), view.asked("queue")
    found = await _read(view, int(since) if since else None, task or None, queue or None)
    return {
        "since": since,
        "sinces": SINCE,
        "task": task,
        "queue": queue,
        "groups": [_group(group, since) for group in found.groups],
        "looked": found.jobs,
        "more": found.more,
    }


async def failures(view: View, since: int, most: int) -> list[dict[str, Any]]:
    """The largest groups of the latest failures."""
    found = await _read(view, since, None, None)
    return [_group(group, str(since)) for group in found.groups[:most]]


async def _read(view: View, since: int | None, task: str | None, queue: str | None) -> Failures:
    async def read() -> Failures:
        return await view.app.failures(size=LOOKED_AT, since=since, task=task, queue=queue)

    found = await (read() if task or queue else view.readings.get(("failures", since), 3, read))
    if not hides(view.who, view.settings):
        return found
    newest = [group.ids[0] for group in found.groups]
    jobs = await view.app.jobs(ids=newest, size=len(newest)) if newest else []
    return failures_shown(found, {job.id: job for job in jobs}, view.who, view.settings)


def _group(group: FailureGroup, since: str) -> dict[str, Any]:
    filter: dict[str, str | float] = {"state": "failed", "task": group.task}
    if group.common:
        filter["error"] = group.common
    if since:
        filter["since"] = float(since)
    return {"group": group, "filter": filter}
