"""Fair shares: what they weigh, by whose word, and how many of their jobs run and wait."""

from __future__ import annotations

from collections import Counter

from headgate.app.fair_shares import ShareInfo
from headgate.web.api.pages import cursor, place
from headgate.web.pages.view import ROWS, Context, View

RUNNING = 500
"""Jobs that run which are looked at for their shares."""


async def shares(view: View) -> Context:
    """A page of shares; nothing else is asked of a store without shared queues."""
    found, running, more = await _found(view)
    last = found[-1].share if len(found) == ROWS else None
    return {
        "shares": found,
        "running": running,
        "more_running": more,
        "next": None if last is None else cursor((last,)),
    }


Found = tuple[list[ShareInfo], Counter[str], bool]


async def _found(view: View) -> Found:
    after = place(view.asked("after"), 1)[0] if view.asked("after") else None

    async def read() -> Found:
        found = await view.app.shares(size=ROWS, after=after)
        if not found:
            return found, Counter(), False
        page = await view.app.jobs_page(size=RUNNING, state="running")
        running = Counter(job.share for job in page.jobs if job.share is not None)
        return found, running, page.next is not None

    return await (read() if after else view.readings.get("shares", 0.9, read))
