from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

import headgate.metrics
import headgate.telemetry
from headgate import App, ConcurrencyLimit, Retry, current_job
from headgate.metrics.catalogue import METRICS, RECORDED, Metric
from headgate.telemetry.instruments import name_of
from headgate.testing import Clock
from tests.telemetry.conftest import Measured

Series = dict[frozenset[tuple[str, str]], float]


def of_prometheus(families: Sequence[Family], metric: Metric) -> Series:
    """The values of a metric by labels; of a histogram how many there are."""
    name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {frozenset(sample.labels.items()): sample.value for sample in samples}


def of_opentelemetry(measured: Measured, metric: Metric) -> Series:
    return {
        frozenset(point.attributes.items()): point.count if metric.kind == "histogram" else point.value
        for point in measured.points(name_of(metric))
    }


async def test_the_same_numbers_come_out_as_for_prometheus(app: App, measured: Measured):
    registry = CollectorRegistry()
    headgate.metrics.instrument(app, registry, store=False)

    @app.task(queue="email", max_concurrent=2, retry=Retry(attempts=2, delay=0, jitter=0))
    async def work(number: int) -> None:
        if number == 3 and current_job().attempt == 1:
            raise ValueError

    await app.enqueue_many([work.job(number) for number in range(7)])
    await app.run_until_idle()
    families = list(registry.collect())
    for metric in RECORDED:
        told, same = of_prometheus(families, metric), of_opentelemetry(measured, metric)
        assert same == {labels: value for labels, value in told.items() if value or labels in same}, (
            metric.name
        )
    ended = measured("headgate.attempts_ended", task="work", queue="email", outcome="retried")
    assert ended.value == 1


async def test_histograms_have_the_buckets_of_the_list(app: App, measured: Measured):
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    await app.run_until_idle()
    for metric in METRICS:
        for point in measured.points(name_of(metric)) if metric.kind == "histogram" else []:
            assert tuple(point.explicit_bounds) == metric.buckets
    assert measured("headgate.attempt_duration", task="work", queue="default").count == 1


def test_readings_show_how_the_store_stands(app: App, measured: Measured, clock: Clock):
    @app.task(queue="email", limits=[ConcurrencyLimit("to", max_concurrent=1, scope="customer")])
    async def work(to: int) -> None: ...

    for _ in range(3):
        work.options(delay=0).enqueue_sync(1)
    clock.advance(5)
    assert measured("headgate.queue_jobs", queue="email", state="ready").value == 1
    assert measured("headgate.queue_jobs", queue="email", state="waiting").value == 2
    assert measured("headgate.queue_oldest_ready", queue="email").value == pytest.approx(5, abs=0.5)
    assert measured("headgate.limit_max", limit="customer").value == 1
    assert measured("headgate.limit_waiting", limit="customer").value == 2
    assert measured("headgate.store_up").value == 1


def test_without_the_store_no_reading_is_made(plain: App):
    measured = Measured()
    headgate.telemetry.instrument(plain, meter_provider=measured.provider, store=False)
    assert measured.points("headgate.store_up") == []
    assert measured("headgate.worker_running") is None


def test_names_become_those_of_prometheus_when_they_are_exported_there():
    """Its exporters write dots as underscores, and add `_total` to counters and the unit, but none in braces."""
    for metric in METRICS:
        unit = {"s": "_seconds"}.get(metric.unit, "")
        ending = "_total" if metric.kind == "counter" else ""
        assert metric.unit == "s" or (metric.unit[0], metric.unit[-1]) == ("{", "}")
        assert name_of(metric).replace(".", "_") + unit + ending == metric.name


def test_metrics_alone_put_nothing_around_attempts(plain: App):
    provider = MeterProvider()
    headgate.telemetry.instrument(plain, meter_provider=provider, traces=False)
    hooks = plain._client.hooks
    assert not hooks.middleware
    assert hooks.enqueueing.idle
