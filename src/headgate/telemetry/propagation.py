"""The context of a trace in the headers of a job: W3C's `traceparent`, `tracestate` and `baggage`, or what else the
program's propagators write.

Headers are bounded (headers.py), and baggage is not the job's business: what does not fit is left out, since telemetry
must not refuse a job. `traceparent` is the shortest and goes first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from opentelemetry import propagate
from opentelemetry.context import Context

from headgate.errors import ConfigError
from headgate.headers import headers_text

log = logging.getLogger("headgate.telemetry")


def written(besides: Mapping[str, str] | None = None) -> dict[str, str]:
    """The current context as headers that fit beside those that a job has."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return carrier
    return carrier if _fit({**carrier, **(besides or {})}) else _what_fits(carrier, besides or {})


def read(headers: Mapping[str, str]) -> Context:
    """The context that headers carry; an empty one for none. The reader's own context has no part in it."""
    return propagate.extract(headers, context=Context())


def _what_fits(carrier: Mapping[str, str], besides: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in sorted(carrier.items(), key=lambda item: len(item[1])):
        if _fit({**kept, name: value, **besides}):
            kept[name] = value
        else:
            log.debug("the header %s does not fit into those of a job and is left out", name)
    return kept


def _fit(headers: Mapping[str, str]) -> bool:
    try:
        headers_text(headers)
    except ConfigError:
        return False
    return True
