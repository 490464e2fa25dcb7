"""What the store says of itself, read when it is asked for, at most every few seconds, however many ask.

It stands on the operations that every program has: `App.queues()` and pages of `App.limits()`. Of a limit only its own
record is read; the keys behind it, of which there may be a million, are stepped over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from headgate.metrics import catalogue
from headgate.metrics.catalogue import Metric

if TYPE_CHECKING:
    from headgate import App, LimitInfo

log = logging.getLogger("headgate.metrics")

EVERY = 5.0
"""Seconds for which a reading is good."""
PATIENCE = 2.0
"""Seconds that one who asks waits for a new reading."""
STALE = 60.0
"""Seconds after which an old reading is no longer shown."""
MOST_LIMITS = 200
"""Names of limits that are read; a program that makes up names has more series than any dashboard can show."""
LIMITS_PER_PAGE = 100
BEHIND_ALL_KEYS = "\U0010ffff"

STATES = ("scheduled", "ready", "waiting", "running")

Sample = tuple[Metric, tuple[str, ...], float]


class Reading(NamedTuple):
    """All readings, made at one moment of this machine's monotonic clock."""

    samples: tuple[Sample, ...]
    at: float


async def read(app: App) -> tuple[Sample, ...]:
    """Ask the store."""
    return (*await _queues(app), *await _limits(app))


async def _queues(app: App) -> list[Sample]:
    found: list[Sample] = []
    queues, now = await app.queues(), await app.now()
    for queue in queues:
        found += [(catalogue.QUEUE_JOBS, (queue.name, state), getattr(queue, state)) for state in STATES]
        age = 0.0 if queue.oldest is None else max((now - queue.oldest).total_seconds(), 0.0)
        found.append((catalogue.QUEUE_OLDEST, (queue.name,), age))
        found.append((catalogue.QUEUE_PAUSED, (queue.name,), float(queue.paused)))
    return found


async def _limits(app: App) -> list[Sample]:
    found: list[Sample] = []
    for limit in await limit_heads(app):
        if limit.max is not None:
            found.append((catalogue.LIMIT_MAX, (limit.name,), limit.max))
        if limit.kind != "rate":
            found.append((catalogue.LIMIT_USED, (limit.name,), limit.held))
        found.append((catalogue.LIMIT_WAITING, (limit.name,), limit.waiting))
    return found


async def limit_heads(app: App, most: int = MOST_LIMITS) -> list[LimitInfo]:
    """The record of each limit as such; it stands before those of its keys. A page that ends among these is
    followed by the next name."""
    heads: dict[str, LimitInfo] = {}
    after: tuple[str, str, str] | None = None
    while len(heads) < most:
        page = await app.limits(size=LIMITS_PER_PAGE, after=after)
        for limit in page:
            heads.setdefault(limit.name, limit)
        if len(page) < LIMITS_PER_PAGE:
            break
        after = page[-1].name, page[-1].name + BEHIND_ALL_KEYS, ""
    return list(heads.values())[:most]


class StoreReader:
    """Keeps the last reading of one app's store. Used from any thread.

    A new one is made in a thread of its own, which outlives no program. Code that stands on a running event loop must
    not wait: it gets the last one, and the next that asks gets what came of this.
    """

    def __init__(self, app: App, *, every: float = EVERY, patience: float = PATIENCE) -> None:
        self._app = app
        self._every = every
        self._patience = patience
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self._last: Reading | None = None
        self._failed = False

    def samples(self) -> Iterator[Sample]:
        """What the store says; without it, that it cannot be read."""
        self._refresh()
        with self._lock:
            last, failed = self._last, self._failed
        if last is not None and time.monotonic() - last.at < STALE:
            yield from last.samples
        if last is not None or failed:
            yield catalogue.STORE_UP, (), float(not failed)

    def _refresh(self) -> None:
        with self._lock:
            if self._last is not None and time.monotonic() - self._last.at < self._every:
                return
            under_way = self._under_way
            if under_way is None:
                under_way = self._under_way = Future()
                name = "headgate-metrics-reading"
                threading.Thread(target=self._read, args=(under_way,), name=name, daemon=True).start()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._wait(under_way)

    def _wait(self, under_way: Future[None]) -> None:
        try:
            under_way.result(self._patience)
        except TimeoutError:
            with self._lock:
                self._failed = True

    def _read(self, done: Future[None]) -> None:
        reading, error = None, None
        try:
            reading = Reading(self._app.sync_loop.run(read(self._app)), time.monotonic())
        except Exception as raised:
            error = raised
        with self._lock:
            said, self._failed = self._failed, error is not None
            self._last = reading or self._last
            self._under_way = None
        if error is not None and not said:
            log.warning("the store could not be read for metrics: %r", error)
        done.set_result(None)
