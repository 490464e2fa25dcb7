"""Headgate's metrics in a Prometheus registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headgate.errors import ConfigError
from headgate.metrics.catalogue import READINGS, RECORDED, Metric
from headgate.metrics.counting import Counting, Take
from headgate.metrics.reading import StoreReader

if TYPE_CHECKING:
    from headgate import App


class PrometheusRecorder:
    """Records in counters, gauges and histograms of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        try:
            self._made: dict[str, Any] = {metric.name: _make(metric, registry) for metric in RECORDED}
        except ValueError as error:
            raise ConfigError(
                f"this registry has Headgate's metrics already, give each app a registry of its own: {error}"
            ) from error

    def __call__(self, metric: Metric, labels: tuple[str, ...]) -> Take:
        made = self._made[metric.name]
        series = made.labels(*labels) if labels else made
        return series.observe if metric.kind == "histogram" else series.inc


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    match metric.kind:
        case "counter":
            return Counter(metric.name, metric.help, metric.labels, registry=registry)
        case "histogram":
            return Histogram(
                metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
            )
        case _:  # of several processes the sum over those that live
            return Gauge(
                metric.name, metric.help, metric.labels, registry=registry, multiprocess_mode="livesum"
            )


class StoreCollector(Collector):
    """The readings of a store, made when the registry is scraped."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names, without asking the store."""
        return (_family(metric) for metric in READINGS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the store says now."""
        families = {metric.name: _family(metric) for metric in READINGS}
        for metric, labels, value in self._reader.samples():
            families[metric.name].add_metric(labels, value)
        return (family for family in families.values() if family.samples)


def _family(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def instrument(app: App, registry: CollectorRegistry, reader: StoreReader | None) -> None:
    """Count in `registry` what an app does from now on, and let it read the store with `reader`."""
    Counting(PrometheusRecorder(registry)).listen_to(app)
    if reader is not None:
        registry.register(StoreCollector(reader))
