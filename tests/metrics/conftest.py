"""One app per store, and a registry of its own that counts what the app does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headgate import App
from headgate.metrics import instrument
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from tests.support.stores import STORES, fresh_url


class Numbers:
    """A registry as a test reads it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of one series, None if there is no such."""
        return self.registry.get_sample_value(name, labels)

    def labels(self, name: str) -> set[tuple[str, ...]]:
        """The label values of all series of one name."""
        found = [sample for family in self.registry.collect() for sample in family.samples]
        return {tuple(sample.labels.values()) for sample in found if sample.name == name}


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture(params=["memory", *STORES])
def app(
    request: pytest.FixtureRequest, tmp_path: Path, headgate_app: AppFactory, clock: Clock
) -> Iterator[App]:
    if request.param == "memory":
        yield headgate_app(clock=clock)
        return
    with fresh_url(request.param, tmp_path) as url:
        app = headgate_app(url=url, clock=clock)
        yield app
        app.close_sync()


@pytest.fixture
def numbers(app: App) -> Numbers:
    registry = CollectorRegistry()
    instrument(app, registry)
    return Numbers(registry)
