"""Queues, workers, periodic tasks, and questions in SQL."""

from __future__ import annotations

from headgate.engine.contract import TABLES
from headgate.web.pages.charts import RANGES, Charts
from headgate.web.pages.shares import shares
from headgate.web.pages.view import Context, View
from headgate.web.problems import Refusal

HOUR = RANGES["1h"]
EXAMPLES = (
    (
        "Jobs by task and state",
        "select task, state, count(*) as jobs from jobs\ngroup by task, state order by jobs desc",
    ),
    (
        "Longest running",
        "select id, task, worker, started_at from jobs\nwhere state = 'running' order by started_at limit 20",
    ),
    (
        "Longest waiting",
        "select id, task, waiting_on, due from jobs\nwhere state = 'waiting' order by due limit 20",
    ),
    (
        "What holds the most keys",
        "select job, task, count(*) as keys from holders\ngroup by job, task order by keys desc limit 20",
    ),
    ("Overrides in force", "select key, max, by, why, until from overrides order by at desc"),
)


async def queues(view: View) -> Context:
    """All queues, with what they started in the last hour, and the shares among which they divide their starts."""
    history = await view.readings.history(HOUR.since, HOUR.step)
    now = await view.readings.now()
    found = await view.readings.queues()
    curves = {
        queue.name: Charts([one for one in history if one.queue == queue.name], HOUR, now).sums("started")
        for queue in found
    }
    return {"queues": found, "curves": curves, **await shares(view)}


async def workers(view: View) -> Context:
    """All workers."""
    return {"workers": await view.readings.workers()}


async def schedules(view: View) -> Context:
    """The periodic tasks of this server's code."""
    return {"schedules": await view.app.schedules()}


async def sql(view: View) -> Context:
    """A place to ask; the API answers."""
    if not view.who.may("keep"):
        raise Refusal("forbidden", f"{view.who.name} has the role {view.who.role}; SQL needs admin")
    return {
        "query": view.asked("q"),
        "examples": EXAMPLES,
        "tables": TABLES,
        "redacts": view.settings.redact is not None,
    }
