"""OpenTelemetry: spans of enqueues and attempts, linked across processes, and metrics (`headgate[otel]`).

    from headgate.telemetry import instrument

    instrument(app)                      # with the providers that the program has set
    instrument(app, tracer_provider=my_tracers, meter_provider=my_meters)

It stands on the hooks that every program has, needs the API of OpenTelemetry only, and is silent without its SDK.
Nothing here is imported or paid for until it is asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from headgate import App

__all__ = ["check_installed", "instrument"]

Providers = tuple["TracerProvider | None", "MeterProvider | None"]

_instrumented: WeakKeyDictionary[App, Providers] = WeakKeyDictionary()


def instrument(
    app: App,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    traces: bool = True,
    metrics: bool = True,
    store: bool = True,
) -> None:
    """Trace and measure what `app` and the workers that it makes from now on do.

    Without providers those that the program sets with OpenTelemetry's API are used, also if it sets them later. With
    `store` each reading of the metrics also shows queues and limits, read at most every five seconds; one process of a
    deployment that does so is enough. Called again for the same app and providers it changes nothing.
    """
    check_installed()
    from headgate.telemetry import instruments, tracing

    providers = tracer_provider, meter_provider
    before = _instrumented.setdefault(app, providers)
    if before is not providers:
        if before != providers:
            raise ConfigError("this app has been instrumented already, with other providers")
        return
    if traces:
        tracing.instrument(app, tracer_provider)
    if metrics:
        instruments.instrument(app, meter_provider, store=store)


def check_installed() -> None:
    """Refuse where the API is missing."""
    try:
        found = find_spec("opentelemetry.trace")
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise ConfigError("traces and metrics need the API of OpenTelemetry: pip install 'headgate[otel]'")
