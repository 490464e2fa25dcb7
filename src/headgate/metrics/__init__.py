"""Metrics: what an app and its workers do, as numbers, and how its store stands (`headgate[prometheus]`).

    from headgate.metrics import instrument

    instrument(app)                      # into prometheus_client's own registry
    instrument(app, my_registry)

`headgate worker --metrics PORT` does this by itself. Nothing here is imported or paid for until it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headgate import App

__all__ = ["instrument"]


def instrument(app: App, registry: CollectorRegistry | None = None, *, store: bool = True) -> None:
    """Count what `app` and the workers that it makes from now on do, in `registry` (default: prometheus_client's own).

    With `store` each scrape also shows its queues and limits, read at most every five seconds; one process of a
    deployment that does so is enough.
    """
    try:
        from prometheus_client import REGISTRY

        from headgate.metrics import prometheus
    except ModuleNotFoundError as error:
        raise missing(error) from None
    from headgate.metrics.reading import StoreReader

    prometheus.instrument(app, registry or REGISTRY, StoreReader(app) if store else None)


def missing(error: ModuleNotFoundError) -> Exception:
    """What to say where the client library is not installed."""
    if (error.name or "").partition(".")[0] != "prometheus_client":
        return error
    return ConfigError("metrics for Prometheus need its client: pip install 'headgate[prometheus]'")
