"""Spans of enqueues: one for each call, whose context all of its jobs carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import Span, SpanKind, Tracer
from opentelemetry.util.types import AttributeValue

from headgate.hooks import NewJobInfo
from headgate.hooks.enqueueing import CallStore
from headgate.telemetry import attributes as names
from headgate.telemetry.propagation import written


class EnqueueSpans:
    """Stands around the enqueues of one app."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def around(self, jobs: Sequence[NewJobInfo], call_next: CallStore) -> Sequence[Any]:
        """A span from before the first job is looked at until the store has taken all, or has refused."""
        if not jobs:
            return await call_next()
        task = _of_all([job.task for job in jobs])
        name = names.ENQUEUE if task is None else f"{names.ENQUEUE} {task}"
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=_attributes(jobs, task)
        ) as span:
            try:
                handles = await call_next()
            except Exception as error:  # the span itself records it
                span.set_attribute(names.ERROR_TYPE, names.error_type(error))
                raise
            _tell_of_one(span, handles)
            return handles

    def headers(self, job: NewJobInfo) -> dict[str, str]:
        """What a job carries to its attempts."""
        return written(job.headers)


def _attributes(jobs: Sequence[NewJobInfo], task: str | None) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue | None] = {
        names.SYSTEM: names.HEADGATE,
        names.OPERATION: names.ENQUEUE,
        names.OPERATION_TYPE: "send",
        names.DESTINATION: _of_all([job.queue for job in jobs]),
        names.TASK: task,
        names.TENANT: _of_all([job.tenant for job in jobs]),
        names.MESSAGE_COUNT: len(jobs) if len(jobs) > 1 else None,
        names.PRIORITY: jobs[0].priority if len(jobs) == 1 else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_all(values: Sequence[str | None]) -> str | None:
    """What all have in common."""
    first = values[0]
    return first if all(value == first for value in values) else None


def _tell_of_one(span: Span, handles: Sequence[Any]) -> None:
    if len(handles) == 1 and span.is_recording():
        span.set_attribute(names.MESSAGE_ID, handles[0].id)
        if not handles[0].created:
            span.set_attribute(names.CREATED, False)
