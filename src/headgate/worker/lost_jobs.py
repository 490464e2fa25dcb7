"""Log lines for jobs that failed because their workers were lost: the same from a sweep and from a supervisor."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headgate.engine.contract import LostJob

log = logging.getLogger("headgate.worker")


def log_lost(failed: Iterable[LostJob]) -> None:
    """One error line for each."""
    for job in failed:
        log.error(
            "job %s (%s) failed: %s", job.id, job.task, job.error, extra={"job": job.id, "task": job.task}
        )
