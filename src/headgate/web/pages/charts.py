"""From the history of a store to curves: one number for each span of time, also where nothing was done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from headgate.app.store_info import HistoryInfo

QUEUES = 3
"""Queues that have a curve of their own."""
SETTLED = 30
"""Seconds after which the latest span is worth showing: workers report with their heartbeats."""


class Reach(msgspec.Struct, frozen=True):
    """How far back charts reach, in spans of `step` seconds."""

    name: str
    words: str
    since: int
    step: int


RANGES = {
    one.name: one
    for one in (
        Reach("15m", "15 min", 15 * 60, 60),
        Reach("1h", "1 h", 3600, 60),
        Reach("6h", "6 h", 6 * 3600, 300),
        Reach("24h", "24 h", 24 * 3600, 1200),
    )
}


class Curve(msgspec.Struct, frozen=True):
    """One curve. A number is None where there is nothing to say."""

    name: str
    values: list[float | None]


class Charts:
    """The history so far back, laid out on its spans."""

    def __init__(self, history: Iterable[HistoryInfo], reach: Reach, now: datetime) -> None:
        self._reach = reach
        self._now = now.timestamp()
        last = int(self._now // reach.step) * reach.step
        self.times = list(range(last - reach.since, last + 1, reach.step))
        if self._now - last < SETTLED and len(self.times) > 1:
            self.times.pop()
        place = {at: index for index, at in enumerate(self.times)}
        self._spans: list[list[HistoryInfo]] = [[] for _ in self.times]
        for one in history:
            index = place.get(int(one.at.timestamp() // reach.step) * reach.step)
            if index is not None:
                self._spans[index].append(one)

    def sums(self, *names: str) -> list[int]:
        """The sum of these numbers in each span."""
        return [sum(getattr(one, name) for one in span for name in names) for span in self._spans]

    def starts(self) -> list[Curve]:
        """Starts per second: all, and those of the busiest queues."""
        by_queue: dict[str, list[int]] = defaultdict(lambda: [0] * len(self.times))
        for index, span in enumerate(self._spans):
            for one in span:
                if one.queue is not None:
                    by_queue[one.queue][index] += one.started
        busiest = sorted(by_queue, key=lambda name: -sum(by_queue[name]))[:QUEUES]
        all_ = Curve("all queues", self._per_second(self.sums("started")))
        if len(by_queue) < 2:
            return [all_]
        return [all_, *(Curve(name, self._per_second(by_queue[name])) for name in busiest)]

    def waits(self) -> list[Curve]:
        """How long jobs had been due when they started, in seconds."""
        return [
            Curve("longest", [max((one.longest for one in span), default=None) for span in self._spans]),
            Curve("mean", [_mean(span) for span in self._spans]),
        ]

    def _per_second(self, counts: list[int]) -> list[float | None]:
        return [round(count / self._lasted(at), 3) for count, at in zip(counts, self.times, strict=True)]

    def _lasted(self, at: int) -> float:
        """The latest span is not over yet."""
        return min(float(self._reach.step), max(1.0, self._now - at))


def _mean(span: list[HistoryInfo]) -> float | None:
    started = sum(one.started for one in span)
    return round(sum(one.waited for one in span) / started, 3) if started else None


def chart(times: list[int], curves: list[Curve], unit: str) -> dict[str, Any]:
    """A chart as the page's script draws it."""
    return {"times": times, "curves": msgspec.to_builtins(curves), "unit": unit}


def last_of(curve: Curve) -> float | None:
    """The latest number that there is."""
    return next((value for value in reversed(curve.values) if value is not None), None)
