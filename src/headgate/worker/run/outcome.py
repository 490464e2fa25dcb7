"""From how a task ended to what the engine is told: the one place that decides it."""

from __future__ import annotations

import asyncio
from typing import Any, assert_never

from headgate.clock import SECOND, duration_us
from headgate.engine import contract
from headgate.engine.contract import Attempt, Failed, Outcome, Released, Snoozed, Stopped, Succeeded
from headgate.errors import (
    CancelJob,
    ConfigError,
    FailJob,
    JobControl,
    PayloadError,
    RetryLater,
    Snooze,
    Throttled,
)
from headgate.worker.run.error_text import error_text
from headgate.worker.run.running_attempt import RunningAttempt


def returned(run: RunningAttempt, value: Any) -> Outcome:
    """The task returned. What comes after the timeout came too late; everything else that was finished counts."""
    attempt = run.attempt
    if run.stop_reason == "timeout":
        return timed_out(run)
    try:
        return Succeeded(attempt.job, attempt.number, run.encode_result(value))
    except Exception as error:  # deterministic: running the task again would not change what it returns
        run.error = _unencodable(error, value)
        return Failed(attempt.job, attempt.number, error_text(run.error))


def raised(run: RunningAttempt, error: BaseException) -> Outcome:
    """The task raised. A reason of the worker's own goes before what the exception says."""
    attempt = run.attempt
    match run.stop_reason:
        case "timeout":
            return timed_out(run)
        case "release":
            return Released(attempt.job, attempt.number)
        case "cancel" | "abandon" if isinstance(error, asyncio.CancelledError):
            return Stopped(attempt.job, attempt.number)
        case "cancel" | "abandon" | None:
            return _by_exception(run, error)
        case _:
            assert_never(run.stop_reason)


def timed_out(run: RunningAttempt) -> Outcome:
    """Its time was up: a failure like any other, retried if the policy covers TimeoutError."""
    seconds = (run.attempt.timeout or 0) / SECOND
    return _by_policy(run, TimeoutError(f"the attempt did not end within its timeout of {seconds:g} s"))


def undecodable(attempt: Attempt, error: Exception) -> Outcome:
    """The arguments do not fit the task: no retry will change that."""
    return Failed(attempt.job, attempt.number, error_text(error))


def _by_exception(run: RunningAttempt, error: BaseException) -> Outcome:
    if run.remote is not None and run.remote[0] is error:  # decided where it was raised
        run.error = error
        return run.remote[1]
    return _by_control(run, error) if isinstance(error, JobControl) else _by_policy(run, error)


def _by_control(run: RunningAttempt, control: JobControl) -> Outcome:
    attempt, run.error = run.attempt, control
    match control:
        case Snooze():
            return Snoozed(attempt.job, attempt.number, duration_us(control.delay, "Snooze(delay=)"))
        case Throttled():
            if (wrong := _names_no_limit(run, control)) is not None:
                return _by_policy(run, wrong)
            delay = duration_us(control.retry_after, "Throttled(retry_after=)")
            return contract.Throttled(attempt.job, attempt.number, delay, control.limit)
        case RetryLater():
            return Failed(attempt.job, attempt.number, error_text(control), _later(attempt, control))
        case CancelJob():
            return Stopped(attempt.job, attempt.number, str(control) or None)
        case FailJob():
            return Failed(attempt.job, attempt.number, str(control))
        case _:
            return Failed(attempt.job, attempt.number, error_text(control))


def _names_no_limit(run: RunningAttempt, control: Throttled) -> ConfigError | None:
    """A misspelt name would close nothing: the attempt fails instead, where the exception was raised."""
    try:
        if control.limit is not None:
            run.context.check_throttled(control.limit)
    except ConfigError as error:
        return error.with_traceback(control.__traceback__)
    return None


def _by_policy(run: RunningAttempt, error: BaseException) -> Outcome:
    attempt, run.error = run.attempt, error
    retry = run.task.retry
    again = attempt.tries < attempt.retry.attempts and retry.covers(error)
    wait = retry.wait(error, attempt.tries, attempt.retry) if again else None
    return Failed(attempt.job, attempt.number, error_text(error), wait)


def _later(attempt: Attempt, control: RetryLater) -> int | None:
    if attempt.tries >= attempt.retry.attempts:
        return None
    if control.delay is None:
        return attempt.retry.wait_with_jitter(attempt.tries)
    return duration_us(control.delay, "RetryLater(delay=)")


def _unencodable(error: Exception, value: Any) -> Exception:
    if isinstance(error, PayloadError):
        return error
    return PayloadError(f"the result, a {type(value).__name__}, cannot travel as JSON: {error}")
