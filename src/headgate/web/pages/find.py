"""Where a word leads: a job, a key or a limit, a queue, a task or a tenant."""

from __future__ import annotations

from urllib.parse import quote

from headgate.errors import JobNotFound
from headgate.web.pages.view import View


async def find(view: View) -> str:
    """The path of the page."""
    word = view.asked("q")
    if not word:
        return "/"
    quoted = quote(word, safe="")
    try:
        await view.app.job(word)
    except JobNotFound:
        pass
    else:
        return f"/jobs/{quoted}"
    if "=" in word or await view.app.limits(word, size=1):
        return f"/key?key={quoted}"
    if word in {queue.name for queue in await view.readings.queues()}:
        return f"/jobs?queue={quoted}"
    name = "tenant" if word not in view.app.tasks and await view.app.jobs(tenant=word, size=1) else "task"
    return f"/jobs?{name}={quoted}"
