"""Periodic tasks: when they tick, and what becomes of ticks that no worker was there for.

A schedule is a pure function of time: every worker computes the same ticks, the engine lets one of them win each.
`every=` ticks on a fixed grid (whole multiples since 1970, UTC): `every=3600` means each full hour, and neither a
restart nor a second worker moves it.

Ticks missed while no worker ran:

- `catch_up="one"` (default): the latest one is run.
- `catch_up="none"`: none is run. (One that is at most a minute old still counts as in time.)
- `catch_up="all"`: each is run, the latest 1,000 at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import timedelta, tzinfo
from itertools import count, takewhile
from typing import Literal, assert_never, get_args

from headgate.clock import SECOND, duration_us, from_us
from headgate.cron import Cron
from headgate.errors import ConfigError

CatchUp = Literal["one", "none", "all"]
MOST_TICKS = 1000
IN_TIME = 60 * SECOND


class Every:
    """Ticks on the grid of a fixed interval."""

    __slots__ = ("interval",)

    def __init__(self, interval: int) -> None:
        self.interval = interval

    def after(self, t: int) -> Iterator[int]:
        """Every tick later than `t`, in order."""
        return count((t // self.interval + 1) * self.interval, self.interval)

    @property
    def text(self) -> str:
        """As people read it."""
        return f"every {self.interval / SECOND:.15g} s"

    def __repr__(self) -> str:
        return f"Every({self.interval / SECOND:g} s)"


class Schedule:
    """When a periodic task ticks."""

    __slots__ = ("catch_up", "ticks")

    def __init__(self, ticks: Cron | Every, catch_up: CatchUp = "one") -> None:
        self.ticks = ticks
        self.catch_up: CatchUp = catch_up

    @property
    def text(self) -> str:
        """As people read it: `0 2 * * *`, `every 3600 s`."""
        return self.ticks.text

    @property
    def timezone(self) -> str:
        """The zone in which it is read."""
        return str(self.ticks.zone) if isinstance(self.ticks, Cron) else "UTC"

    def next_after(self, t: int) -> int:
        """The first tick later than `t` (microseconds)."""
        return next(self.ticks.after(t))

    def missed(self, last: int, now: int) -> list[int]:
        """The ticks after `last` and up to `now` that should be run, oldest first."""
        match self.catch_up:
            case "all":
                return self._latest(last, now, MOST_TICKS)
            case "one":
                return self._latest(last, now, 1)
            case "none":
                return [t for t in self._latest(last, now, 1) if now - t <= IN_TIME]
            case _:
                assert_never(self.catch_up)

    def _latest(self, last: int, now: int, most: int) -> list[int]:
        """The latest ticks, looking back in doubling steps: a year of silence costs no more than an hour."""
        span = max(self.next_after(now) - now, SECOND) * most
        while True:
            start = max(last, now - span)
            found = deque(takewhile(lambda t: t <= now, self.ticks.after(start)), maxlen=most)
            if len(found) == most or start == last:
                return list(found)
            span *= 2

    def __repr__(self) -> str:
        return f"Schedule({self.ticks!r}, catch_up={self.catch_up!r})"


def schedule(
    *,
    cron: str | None = None,
    every: float | timedelta | None = None,
    timezone: str | tzinfo | None = None,
    catch_up: CatchUp = "one",
) -> Schedule:
    """A schedule from what a task declares: `cron=` (with `timezone=`, default UTC) or `every=` seconds."""
    if catch_up not in get_args(CatchUp):
        raise ConfigError(f"catch_up={catch_up!r}: 'one', 'none' or 'all' is needed")
    if cron is not None and every is None:
        return Schedule(Cron(cron, timezone), catch_up)
    if every is None or cron is not None:
        raise ConfigError("a periodic task needs either cron= or every=, and not both")
    if timezone is not None:
        raise ConfigError("timezone= belongs to cron=; every= counts seconds, which are the same everywhere")
    return Schedule(Every(_interval(every)), catch_up)


def _interval(every: float | timedelta) -> int:
    interval = duration_us(every, "every=")
    if interval < SECOND:
        raise ConfigError(f"every={every!r}: at least one second is needed")
    return interval


def tick_text(t: int) -> str:
    """A tick as it stands in job ids: `2026-11-16T02:00:00Z`."""
    return from_us(t).isoformat().replace("+00:00", "Z")
