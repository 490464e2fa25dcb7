"""An app whose spans and metrics stay in memory. What is traced is the same on every store: two of them are enough."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from headgate import App
from headgate.telemetry import instrument
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory


class Spans:
    """The spans that have ended."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("the program's own")

    def all(self, name: str) -> list[ReadableSpan]:
        """Those of one name, in the order of their ends."""
        return [span for span in self._kept.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of its name."""
        (span,) = self.all(name)
        return span

    @property
    def names(self) -> list[str]:
        return [span.name for span in self._kept.get_finished_spans()]


class Measured:
    """The metrics that are there when they are read."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def points(self, name: str) -> list[Any]:
        """The data points of one instrument."""
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def __call__(self, name: str, **attributes: str) -> Any:
        """The point with these attributes; None if there is none."""
        found = [point for point in self.points(name) if dict(point.attributes) == attributes]
        return found[0] if found else None


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """What a span says of itself."""
    return span.attributes or {}


def trace_of(span: ReadableSpan) -> str:
    """The id of its trace."""
    assert span.context is not None
    return format_trace_id(span.context.trace_id)


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether it stands directly below another span."""
    assert parent.context is not None
    return span.parent is not None and format_span_id(span.parent.span_id) == format_span_id(
        parent.context.span_id
    )


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture(params=["memory", "sqlite"])
def plain(request: pytest.FixtureRequest, tmp_path: Path, headgate_app: AppFactory, clock: Clock) -> App:
    """An app on an empty store that nothing traces yet."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    return headgate_app(App(url, clock=clock), url=url, clock=clock)


@pytest.fixture
def app(plain: App, spans: Spans, measured: Measured) -> App:
    instrument(plain, tracer_provider=spans.provider, meter_provider=measured.provider)
    return plain
