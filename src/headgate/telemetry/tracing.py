"""Hanging the spans into an app, and the context of an attempt's span into the process of the pool that runs it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import context, trace

from headgate import __version__
from headgate.telemetry.attempt_spans import ENDS, AttemptSpans
from headgate.telemetry.enqueue_spans import EnqueueSpans
from headgate.telemetry.propagation import read, written

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from headgate import App


def instrument(app: App, provider: TracerProvider | None) -> None:
    """Make spans of what the app enqueues and runs from now on."""
    tracer = trace.get_tracer("headgate", __version__, provider)
    enqueues, attempts = EnqueueSpans(tracer), AttemptSpans(tracer)
    app.around_enqueue(enqueues.around)
    app.enqueue_middleware(enqueues.headers)
    app.middleware(attempts.around)
    app.on(*ENDS)(attempts.ended)
    app.carry("opentelemetry", give=written, take=_inside)


@contextmanager
def _inside(texts: Mapping[str, str]) -> Generator[None]:
    token = context.attach(read(texts))
    try:
        yield
    finally:
        context.detach(token)
