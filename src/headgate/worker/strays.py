"""Attempts that the store believes we run, and we do not.

When the answer to an exchange is lost on the way, jobs may have been claimed in our name that we never heard of; while
we go on renewing the lease, nobody would ever run them. After such a failure we look for them and give them back.
"""

from __future__ import annotations

import logging
from collections.abc import Container

from headgate.engine.contract import Engine, Filter, Released
from headgate.job import Job, JobState

log = logging.getLogger("headgate.worker")

PAGE = 1000


async def find_strays(engine: Engine, worker: str, known: Container[str]) -> list[Released]:
    """Reports that give back every job running under `worker` that is not `known`."""
    strays = [job for job in await _running(engine) if job.worker == worker and job.id not in known]
    if strays:
        log.warning("giving back %d jobs that were claimed in an answer that never arrived", len(strays))
    return [Released(job.id, job.attempt) for job in strays]


async def _running(engine: Engine) -> list[Job]:
    running: list[Job] = []
    page = await engine.find(Filter(states=(JobState.RUNNING,)), limit=PAGE)
    while page:
        running += page
        page = await engine.find(Filter(states=(JobState.RUNNING,)), limit=PAGE, after=page[-1].id)
    return running
