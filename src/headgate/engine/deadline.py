"""How long a verb may take. Callers have the app's timeout; a worker's verbs end well before its lease does.

An engine asks `seconds(settings)` in the one place where it calls its driver. Nested deadlines only shorten.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from headgate.clock import SECOND
from headgate.engine.contract import Settings

_until: ContextVar[float | None] = ContextVar("headgate_deadline", default=None)
"""A time of the monotonic clock."""


class within:
    """`with within(seconds):` everything that is asked of an engine inside must be answered in so many seconds."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        until, before = time.monotonic() + self._seconds, _until.get()
        self._token = _until.set(until if before is None else min(before, until))

    def __exit__(self, *_: object) -> None:
        _until.reset(self._token)


def seconds(settings: Settings) -> float:
    """How long a call that begins now may take: what is left of the deadline around it, else the app's timeout."""
    until = _until.get()
    return settings.timeout / SECOND if until is None else max(until - time.monotonic(), 0.001)
