"""Metrics: what an app and its workers do, as numbers, and how its store stands (`headgate[prometheus]`).

    from headgate.metrics import instrument

    instrument(app)                      # into prometheus_client's own registry
    instrument(app, my_registry)

`headgate worker --metrics PORT` does this by itself. Nothing here is imported or paid for until it is asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headgate import App

__all__ = ["check_installed", "instrument"]

_instrumented: WeakKeyDictionary[CollectorRegistry, ref[App]] = WeakKeyDictionary()


def instrument(app: App, registry: CollectorRegistry | None = None, *, store: bool = True) -> None:
    """Count what `app` and the workers that it makes from now on do, in `registry` (default: prometheus_client's own).

    With `store` each scrape also shows its queues and limits, read at most every five seconds; one process of a
    deployment that does so is enough. Called again for the same app and registry it changes nothing.
    """
    check_installed()
    from prometheus_client import REGISTRY

    from headgate.metrics import prometheus
    from headgate.metrics.reading import StoreReader

    into = REGISTRY if registry is None else registry
    before = _instrumented.get(into)
    if before is None or before() is not app:
        prometheus.instrument(app, into, StoreReader(app) if store else None)
        _instrumented[into] = ref(app)


def check_installed() -> None:
    """Refuse where the client library is missing."""
    if find_spec("prometheus_client") is None:
        raise ConfigError("metrics for Prometheus need its client: pip install 'headgate[prometheus]'")
