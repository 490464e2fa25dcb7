"""What jobs and slots note of themselves: a start and an end, and the keys that they hold meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from headgate import current_job
from tests.chaos.notes import note, now, wall
from tests.chaos.wire import claims


@contextmanager
def noted(*keys: str, **what: Any) -> Generator[None]:
    """The attempt that runs here."""
    job = current_job()
    with noted_as(job.id, job.attempt, *keys, task=job.task, queue=job.queue, **what):
        yield


@contextmanager
def noted_as(job: str, attempt: int, *keys: str, task: str, queue: str, **what: Any) -> Generator[None]:
    """An attempt that this process has claimed. However it ends, that is noted."""
    claim = claims[job, attempt]
    claimed = now() - max(0, wall() - claim.started_at * 1000)
    where = {"job": job, "attempt": attempt}
    said = {"worker": claim.worker, "sent": claim.sent, "claimed": claimed, **what}
    note("start", **where, task=task, queue=queue, keys=keys, **said)
    how = "ok"
    try:
        yield
    except asyncio.CancelledError:
        how = "cancelled"
        raise
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        note("end", **where, how=how)


async def work(seconds: float, *keys: str, **what: Any) -> None:
    """Work for a while."""
    with noted(*keys, **what):
        await asyncio.sleep(seconds)
