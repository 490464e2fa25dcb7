"""Headgate's own jobs, the refreshes of floating limits: shown only to those who ask for their queue, task or ids."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from headgate.engine.contract import Engine, Filter, JobPage
from headgate.job import INTERNAL_QUEUE, Job

PAGE = 500


def hides(wanted: Filter) -> bool:
    """Whether a filter may match Headgate's own jobs without meaning them."""
    return wanted.queue is None and wanted.ids is None and wanted.task is None and wanted.unique is None


async def find(engine: Engine, wanted: Filter, most: int, after: str | None) -> list[Job]:
    """A page of the program's own jobs."""
    found: list[Job] = []
    while len(found) < most:
        size = min(PAGE, most) if hides(wanted) else most
        page = await engine.find(wanted, limit=size, after=after)
        found += [job for job in page if not (hides(wanted) and job.queue == INTERNAL_QUEUE)]
        if len(page) < size:
            break
        after = page[-1].id
    return found[:most]


async def find_page(engine: Engine, wanted: Filter, most: int, after: str | None) -> JobPage:
    """The same, by how much is looked at."""
    page = await engine.find_page(wanted, limit=most, after=after)
    if not hides(wanted):
        return page
    return JobPage(tuple(job for job in page.jobs if job.queue != INTERNAL_QUEUE), page.rest)


async def count(engine: Engine, wanted: Filter) -> int:
    """How many of the program's own jobs match."""
    number = await engine.count(wanted)
    if number and hides(wanted):
        number -= await engine.count(msgspec.structs.replace(wanted, queue=INTERNAL_QUEUE))
    return max(number, 0)


async def pages(engine: Engine, wanted: Filter, size: int, *, gone: bool) -> AsyncIterator[list[str]]:
    """The ids that match, page by page; `gone` says that what was yielded is not there any more afterwards."""
    after: str | None = None
    while page := await engine.find(wanted, limit=size, after=after):
        shown = [job.id for job in page if not (hides(wanted) and job.queue == INTERNAL_QUEUE)]
        yield shown
        after = None if gone and len(shown) == len(page) else page[-1].id
