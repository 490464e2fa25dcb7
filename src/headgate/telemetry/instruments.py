"""Headgate's metrics as instruments of OpenTelemetry: the same list, and the same listener, as for Prometheus.

A name is that of Prometheus without the endings that its exporters add themselves (`_total`, the unit), so that a
dashboard finds both. Attributes are the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from headgate import __version__
from headgate.metrics.catalogue import READINGS, RECORDED, Metric
from headgate.metrics.counting import Counting, Take
from headgate.metrics.reading import StoreReader

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from headgate import App


def instrument(app: App, provider: MeterProvider | None, *, store: bool) -> None:
    """Count what an app does from now on, and let readings of the metrics read its store."""
    meter = metrics.get_meter("headgate", __version__, provider)
    Counting(OpenTelemetryRecorder(meter)).listen_to(app)
    if store:
        _show_store(meter, StoreReader(app))


def name_of(metric: Metric) -> str:
    """`headgate_attempt_duration_seconds` is `headgate.attempt_duration`, in seconds."""
    name = metric.name.removesuffix("_total")
    return (name.removesuffix("_seconds") if metric.unit == "s" else name).replace("_", ".", 1)


class OpenTelemetryRecorder:
    """Records in instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        self._made: dict[str, Callable[..., Any]] = {metric.name: _make(metric, meter) for metric in RECORDED}

    def __call__(self, metric: Metric, labels: tuple[str, ...]) -> Take:
        return partial(self._made[metric.name], attributes=dict(zip(metric.labels, labels, strict=True)))


def _make(metric: Metric, meter: Meter) -> Callable[..., Any]:
    name = name_of(metric)
    match metric.kind:
        case "counter":
            return meter.create_counter(name, metric.unit, metric.help).add
        case "histogram":
            return meter.create_histogram(
                name, metric.unit, metric.help, explicit_bucket_boundaries_advisory=metric.buckets
            ).record
        case _:
            return meter.create_up_down_counter(name, metric.unit, metric.help).add


def _show_store(meter: Meter, reader: StoreReader) -> None:
    """One gauge for each reading; all of them of one collection look at the same reading."""
    for metric in READINGS:
        observe = partial(_observations, reader, metric)
        meter.create_observable_gauge(name_of(metric), [observe], metric.unit, metric.help)


def _observations(reader: StoreReader, metric: Metric, options: CallbackOptions) -> Iterable[Observation]:
    for sample, labels, value in reader.samples():
        if sample is metric:
            yield Observation(value, dict(zip(metric.labels, labels, strict=True)))
