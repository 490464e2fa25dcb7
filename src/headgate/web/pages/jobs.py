"""Jobs that match a filter, a page at a time."""

from __future__ import annotations

from typing import Any, cast

from headgate.app.filters import JobFilter
from headgate.job import JobState
from headgate.web.api.matching import moment
from headgate.web.api.pages import cursor, place
from headgate.web.pages.view import ROWS, Context, View

TEXTS = ("queue", "task", "tenant", "limit", "unique", "error")
TIMES = ("since", "until")
MORE = ("unique", "error", "ids", *TIMES)
"""What stands behind "more": rarely asked for."""


async def jobs(view: View) -> Context:
    """A page of jobs."""
    filter = _filter(view)
    after = place(view.asked("after"), 1)[0] if view.asked("after") else None
    page = await view.app.jobs_page(size=ROWS, after=after, **cast("JobFilter", filter))
    return {
        "asked": {name: view.asked(name) for name in (*TEXTS, *TIMES)} | {"ids": ", ".join(_ids(view))},
        "chosen": set(view.asked_all("state")),
        "filter": filter,
        "more_open": any(name in filter for name in MORE),
        "jobs": [view.shown(job) for job in page.jobs],
        "next": None if page.next is None else cursor((page.next,)),
        "states": [state.value for state in JobState],
    }


def _filter(view: View) -> dict[str, Any]:
    given: dict[str, Any] = {name: view.asked(name) for name in TEXTS}
    given |= {name: moment(view.asked(name)) for name in TIMES}
    given |= {"state": view.asked_all("state"), "ids": _ids(view)}
    return {name: value for name, value in given.items() if value}


def _ids(view: View) -> list[str]:
    return [id for one in view.asked_all("ids") for id in one.split()]
