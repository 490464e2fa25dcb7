"""Ids as people type them: whole, or the beginning of one that no other job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.app.app import App

SHORTEST = 4
PAGE = 1000
PAGES = 10
SHOWN = 5


def full_id(app: App, text: str) -> str:
    """The id that is meant: of a job with just this id, else of the only job whose id begins so.

    No store can be asked for beginnings, so the newest 10,000 jobs are looked through. What is found nowhere is
    returned as it is: who asks for it hears that there is no such job.
    """
    from headgate.errors import JobNotFound

    try:
        return app.job_sync(text).id
    except JobNotFound:
        found = _beginning(app, text) if len(text) >= SHORTEST else []
    if len(found) > 1:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise ConfigError(f"{text!r} is the beginning of several ids: {', '.join(found[:SHOWN])}{more}")
    return found[0] if found else text


def _beginning(app: App, text: str) -> list[str]:
    found: list[str] = []
    after: str | None = None
    for _ in range(PAGES):
        page = app.jobs_sync(size=PAGE, after=after)
        found += [job.id for job in page if job.id.startswith(text)]
        if len(page) < PAGE:
            break
        after = page[-1].id
    return found
