"""Spans of attempts: from inside the middleware that came before to the end of the task.

What became of the attempt is known only once the store has acknowledged its end, which is told as an event. A span is
finished by the second of the two, with the time of the first; so it says what the store counts.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from headgate.errors import RaisedInProcess
from headgate.hooks import CallNext, JobContext, JobEvent
from headgate.telemetry import attributes as names
from headgate.telemetry.propagation import read

log = logging.getLogger("headgate.telemetry")

ENDS = ("succeeded", "failed", "retried", "snoozed", "throttled", "cancelled", "released", "lost")
ERRORS = frozenset({"failed", "retried", "lost"})


@dataclass(slots=True)
class OpenSpan:
    """A span that waits for the end of its task, or for what the store makes of it."""

    span: Span
    inside: Context
    ended_ns: int | None = None
    event: JobEvent | None = None


class AttemptSpans:
    """Stands around the attempts of one app, and listens to their ends."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[tuple[str, int], OpenSpan] = {}

    async def around(self, job: JobContext, call_next: CallNext) -> Any:
        """Run the attempt inside its span, in the trace that the job carries."""
        key = job.id, job.attempt
        one = self._start(job)
        if one is None:
            return await call_next()
        self._open[key] = one
        token = context.attach(one.inside)
        try:
            return await call_next()
        finally:
            context.detach(token)
            one.ended_ns = time.time_ns()
            self._finish(key, one)

    def ended(self, event: JobEvent) -> None:
        """What became of an attempt. One whose arguments did not fit its task has no span."""
        if event.attempt is None:
            return
        key = event.job, event.attempt
        one = self._open.get(key)
        if one is not None:
            one.event = event
            self._finish(key, one)

    def _start(self, job: JobContext) -> OpenSpan | None:
        """A span processor of the program that raises must not fail the job."""
        try:
            before = read(job.headers)
            origin = trace.get_current_span(before).get_span_context()
            span = self._tracer.start_span(
                f"{names.ATTEMPT_OF} {job.task}",
                before,
                SpanKind.CONSUMER,
                _attributes(job),
                [Link(origin)] if origin.is_valid else None,
            )
            return OpenSpan(span, trace.set_span_in_context(span, before))
        except Exception:
            log.exception("an attempt could not be traced")
            return None

    def _finish(self, key: tuple[str, int], one: OpenSpan) -> None:
        if one.ended_ns is None or one.event is None:
            return
        del self._open[key]
        try:
            if one.span.is_recording():
                _tell(one.span, one.event, one.ended_ns)
            one.span.end(one.ended_ns)
        except Exception:
            log.exception("the span of an attempt could not be ended")


def _attributes(job: JobContext) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        names.SYSTEM: names.HEADGATE,
        names.OPERATION: names.ATTEMPT_OF,
        names.OPERATION_TYPE: "process",
        names.DESTINATION: job.queue,
        names.MESSAGE_ID: job.id,
        names.CLIENT_ID: job.worker,
        names.TASK: job.task,
        names.ATTEMPT: job.attempt,
        names.TRIES: job.tries,
        names.PRIORITY: job.priority,
        names.WAITING: max((job.started_at - job.due).total_seconds(), 0.0),
    }
    if job.tenant is not None:
        found[names.TENANT] = job.tenant
    return found


def _tell(span: Span, event: JobEvent, ended_ns: int) -> None:
    span.set_attribute(names.OUTCOME, event.name)
    if event.duration is not None:
        span.set_attribute(names.DURATION, event.duration)
    if event.retry_in is not None:
        span.set_attribute(names.RETRY_IN, event.retry_in)
    if not event.confirmed:
        span.set_attribute(names.CONFIRMED, False)
    if event.name in ERRORS:
        _tell_error(span, event, ended_ns)


def _tell_error(span: Span, event: JobEvent, ended_ns: int) -> None:
    error, text = event.exception, (event.error or event.name).partition("\n")[0]
    span.set_status(StatusCode.ERROR, text)
    if error is None:
        span.set_attribute(names.ERROR_TYPE, event.name)
    elif isinstance(error, RaisedInProcess):  # the exception itself stayed in the process of the pool
        span.set_attribute(names.ERROR_TYPE, error.error_type)
        told = {
            "exception.type": error.error_type,
            "exception.message": error.error_message,
            "exception.stacktrace": error.traceback,
        }
        span.add_event("exception", told, ended_ns)
    else:
        span.set_attribute(names.ERROR_TYPE, names.error_type(error))
        span.record_exception(error, timestamp=ended_ns)
