"""Log lines for attempts that have ended.

Templates are constant and a failure's exception comes along, so that collectors of errors can group them.
"""

from __future__ import annotations

import logging
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import Attempt, Failed, Outcome, Stopped
from headgate.errors import RetryLater

log = logging.getLogger("headgate.worker")


def log_failure(failed: Failed, attempt: Attempt, worker: str, error: BaseException | None) -> None:
    """An error if the job has failed, a warning if it is tried again; RetryLater is no accident and needs no trace."""
    first_line, extra = failed.error.partition("\n")[0], fields(attempt, worker)
    if failed.retry_in is None:
        text = "job %s (%s) failed on attempt %d: %s"
        log.error(text, attempt.job, attempt.task, attempt.number, first_line, exc_info=error, extra=extra)
        return
    on_purpose = isinstance(error, RetryLater) and error.__cause__ is None
    text = "job %s (%s) failed on attempt %d, next in %.3g s: %s"
    wait, trace = failed.retry_in / SECOND, None if on_purpose else error
    log.warning(
        text, attempt.job, attempt.task, attempt.number, wait, first_line, exc_info=trace, extra=extra
    )


def log_end(outcome: Outcome, attempt: Attempt, worker: str, seconds: float) -> None:
    """What is no failure is told on level debug, with the time that it took and the time that it waited."""
    waiting = max(attempt.started_at - (attempt.due or attempt.enqueued_at), 0) / SECOND
    extra = {**fields(attempt, worker), "duration": seconds, "waiting": waiting}
    how = "was cancelled" if type(outcome) is Stopped else type(outcome).__name__.lower()
    text = "job %s (%s) %s on attempt %d in %.3g s, after waiting %.3g s"
    log.debug(text, attempt.job, attempt.task, how, attempt.number, seconds, waiting, extra=extra)


def fields(attempt: Attempt, worker: str) -> dict[str, Any]:
    """What every line about an attempt carries."""
    return {
        "job": attempt.job,
        "task": attempt.task,
        "attempt": attempt.number,
        "queue": attempt.queue,
        "tenant": attempt.tenant or None,
        "worker": worker,
    }
