"""Everything Headgate raises on purpose.

HeadgateError
├── ConfigError           a declaration, option or URL is wrong
├── PayloadError          arguments or a result cannot travel: not JSON, too large, not what the task declares
├── JobNotFound           no job has this id
├── LimitNotFound         no limit of this name is declared
├── JobExists             a job with this id (or this unique key) is there already
├── BacklogFull           as many jobs wait as may; nothing was stored
├── WrongState            the job is not in a state in which this can be done
├── SlotLost              a slot of app.slot() is this code's no longer
├── LeaseLost             the worker no longer owns what it reports about
├── StaleMessage          a worker's message that a later one has overtaken
├── LifespanError         the lifespan of an app failed, so its worker does not work
├── ProcessDied           the process of a pool that ran an attempt is gone
├── RaisedInProcess       what a task raised in a process of a pool
├── JobFailed             result() of a job that failed
├── JobCancelled          result() of a job that was cancelled
└── EngineError           the store
    ├── EngineUnavailable     cannot be reached, is full, read-only or locked for too long
    └── SchemaMismatch        is newer than this code, or is not a Headgate store

JobControl                raised *by task code* to say how the attempt ends; never an error
├── RetryLater · Snooze · Throttled · CancelJob · FailJob
"""

from __future__ import annotations

from datetime import timedelta


class HeadgateError(Exception):
    """Root of every error that Headgate raises."""


class ConfigError(HeadgateError, ValueError):
    """A declaration, option or URL is wrong; the message names the value and the remedy."""


class PayloadError(HeadgateError, ValueError):
    """Arguments or a result cannot travel as JSON, are too large, or do not fit the task's annotations."""


class JobNotFound(HeadgateError, LookupError):
    """No job has this id (it may have been deleted by retention)."""


class LimitNotFound(HeadgateError, LookupError):
    """No limit of this name is declared in this store."""


class JobExists(HeadgateError):
    """A job with this id, or an unfinished one with this unique key, is there already; nothing was stored."""

    def __init__(self, message: str, job_id: str = "") -> None:
        super().__init__(message)
        self.job_id = job_id


class BacklogFull(HeadgateError):
    """As many jobs wait for a limit, or in a queue, as may (`max_waiting`); nothing was stored. `limit` is its key."""

    def __init__(self, message: str, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class WrongState(HeadgateError):
    """The job is not in a state in which this can be done; the message names the state."""

    def __init__(self, message: str, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class LeaseLost(HeadgateError):
    """The worker's lease lapsed, or the attempt is no longer its own: the report changed nothing."""


class SlotLost(HeadgateError):
    """A slot that code held with `app.slot()` was taken back: its lease lapsed, or an operator cancelled it."""


class StaleMessage(HeadgateError):
    """A message of a worker that arrived after a later one had taken effect: it changed nothing."""


class LifespanError(HeadgateError):
    """The lifespan of an app raised, so its worker does not start, or ends; `__cause__` is what it raised."""


class ProcessDied(HeadgateError):
    """The process that ran an attempt (`run_in="process"`) ended in the middle of it, or could not be started."""


class RaisedInProcess(HeadgateError):
    """What a task with `run_in="process"` raised, as middleware and listeners in its worker see it.

    The exception itself stays in the process that ran the task. `error_type` is the name of its class, with its module
    unless that is built in, `error_message` its text, and `traceback` where it was raised.
    """

    def __init__(self, error_type: str, error_message: str, traceback: str) -> None:
        super().__init__(f"{error_type}: {error_message}" if error_message else error_type)
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback
        if traceback:
            self.add_note(traceback)


class JobFailed(HeadgateError):
    """The job whose result was awaited has failed; the message carries its last error.

    `error_type` is the name of the exception's class, with its module unless that is built in; empty where the job did
    not fail by an exception. `error_message` is its text, and `traceback` where it was raised, as far as it was kept.
    """

    def __init__(
        self,
        message: str,
        *,
        job_id: str = "",
        task: str = "",
        error_type: str = "",
        error_message: str = "",
        traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.task = task
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class JobCancelled(HeadgateError):
    """The job whose result was awaited was cancelled."""


class EngineError(HeadgateError):
    """The store refused or could not do what was asked."""


class EngineUnavailable(EngineError):
    """The store cannot be reached, is full, is read-only, or stayed locked past the busy timeout."""


class SchemaMismatch(EngineError):
    """The store is newer than this code, needs a migration, or is not a Headgate store at all."""


class JobControl(Exception):
    """Raised by task code to say how its attempt ends."""


class RetryLater(JobControl):
    """Try again after `delay`; counts against the retry policy. Without a delay the policy's back-off applies."""

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "asked to be retried later")
        self.delay = None if delay is None else _checked(delay, "RetryLater(delay=)")


class Snooze(JobControl):
    """Try again after `delay`; does not count against the retry policy."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__("snoozed")
        self.delay = _checked(delay, "Snooze(delay=)")


class Throttled(JobControl):
    """A service that the task called said: not now (429). The job comes back as it was, uncounted, and the key of its
    limit is closed for `retry_after`, for all jobs; then it opens bit by bit.

    `limit` names the one that is meant; without it that is its rate, else its concurrency limit. An attempt that names
    none of its job's limits fails.
    """

    def __init__(self, retry_after: float | timedelta, limit: str | None = None) -> None:
        super().__init__("throttled" if limit is None else f"throttled by {limit}")
        self.retry_after = _checked(retry_after, "Throttled(retry_after=)")
        if limit is not None and not (isinstance(limit, str) and limit):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"Throttled(limit={limit!r}): the name of a limit of the task is needed")
        self.limit = limit


def _checked(delay: float | timedelta, what: str) -> float | timedelta:
    """A delay that is none is refused in the line that says it, not later in the worker."""
    from headgate.clock import duration_us  # the clock raises errors of this module

    duration_us(delay, what)
    return delay


class CancelJob(JobControl):
    """End this job as cancelled."""


class FailJob(JobControl):
    """End this job as failed, whatever its retry policy says."""

    def __init__(self, reason: str = "failed by the task") -> None:
        super().__init__(reason)
