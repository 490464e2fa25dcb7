"""Rate arithmetic, exact and in whole microseconds.

A *pace* says how many starts a period allows. Two ways of keeping it:

- `Bucket` (GCRA): one number per key, the time at which the bucket would be full again. `burst` tokens at most;
  one token every `interval`. `leaky` is the same with burst 1: starts are spread evenly.
- `Window`: the exact sliding window, a list of the starts of the last period. No period, wherever it begins, sees
  more than `limit` starts.

Both answer: how many whole tokens are there, when will there be `units` of them, what if they are spent.

What a start spent may have been an estimate. It leaves a *mark*, with which it is corrected later: what was not needed
is given back as far as time has not given it back already, so that no correction lets more start than the pace allows;
what was spent beyond it is a debt that later starts wait for. A meter can also be *closed* until a time, after which it
fills as if everything had been spent.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from typing import Protocol

import msgspec


class Pace(msgspec.Struct, frozen=True):
    """The numbers of a rate limit, after overrides. `limit` None lifts it, 0 closes it. `estimated`: attempts say
    afterwards what they really spent."""

    limit: int | None
    period: int
    burst: int
    exact: bool = False
    estimated: bool = False

    @property
    def interval(self) -> int:
        """Microseconds per token, rounded up so that the rate is never exceeded."""
        return -(-self.period // self.limit) if self.limit else self.period

    @property
    def most(self) -> int:
        """The largest number of tokens that can ever be there at once."""
        return 0 if not self.limit else self.limit if self.exact else self.burst


class Spending(msgspec.Struct, frozen=True, array_like=True):
    """What a start spent of one rate key: how much, when, and the mark that it left."""

    units: int
    at: int
    mark: int


CLOSING_STEPS = 20
"""In how many parts a window opens again after it was closed."""


class Meter(Protocol):
    """What has been spent of one rate key."""

    def free(self, pace: Pace, now: int) -> int:
        """Whole tokens at `now`."""
        ...

    def when(self, pace: Pace, units: int, now: int) -> int | None:
        """The earliest time from `now` at which `units` tokens are there; None if never at this pace."""
        ...

    def spend(self, pace: Pace, units: int, now: int) -> None:
        """Take `units` tokens at `now`."""
        ...

    def mark(self, now: int) -> int:
        """Where the spending of just `now` stands, for a correction of it."""
        ...

    def correct(self, pace: Pace, spent: Spending, units: int, now: int) -> None:
        """What was spent at a start was really so many `units`."""
        ...

    def close(self, pace: Pace, until: int, now: int) -> None:
        """Nothing is there before `until`; from then on it fills at its pace."""
        ...

    def debt(self, pace: Pace, now: int) -> int:
        """How many tokens are missing before there are none."""
        ...

    def idle(self, pace: Pace, now: int) -> bool:
        """Whether nothing needs to be remembered any more."""
        ...


class Bucket:
    """GCRA. `full_at` is the theoretical arrival time: from then on the bucket holds `burst` tokens.

    A *busy period* begins with a spending that finds the bucket full, at `since`. `refunded` is the time that
    corrections gave back in it: what was spent at a mark stands so much earlier now. A spending of an earlier busy
    period was given back by time, all of it.
    """

    __slots__ = ("full_at", "refunded", "since")

    def __init__(self, full_at: int = 0, since: int = 0, refunded: int = 0) -> None:
        self.full_at = full_at
        self.since = since
        self.refunded = refunded

    def free(self, pace: Pace, now: int) -> int:
        behind = max(self.full_at - now, 0)
        return max(pace.burst * pace.interval - behind, 0) // pace.interval

    def when(self, pace: Pace, units: int, now: int) -> int | None:
        if units > pace.most:
            return None
        return max(now, self.full_at - (pace.burst - units) * pace.interval)

    def spend(self, pace: Pace, units: int, now: int) -> None:
        if self.full_at <= now:
            self.full_at, self.since, self.refunded = now, now, 0
        self.full_at += units * pace.interval

    def mark(self, now: int) -> int:
        return self.full_at + self.refunded

    def correct(self, pace: Pace, spent: Spending, units: int, now: int) -> None:
        difference = (units - spent.units) * pace.interval
        if difference > 0:
            self.full_at = max(self.full_at, now) + difference
        elif self.since <= spent.at:
            back = max(min(-difference, spent.mark - self.refunded - now, self.full_at - now), 0)
            self.full_at -= back
            self.refunded += back

    def close(self, pace: Pace, until: int, now: int) -> None:
        empty = until + (pace.burst - 1) * pace.interval
        if empty > self.full_at:
            self.full_at, self.since, self.refunded = empty, now + 1, 0

    def debt(self, pace: Pace, now: int) -> int:
        return max(-(-(self.full_at - now - pace.burst * pace.interval) // pace.interval), 0)

    def idle(self, pace: Pace, now: int) -> bool:
        return self.full_at <= now


def _opening(pace: Pace, until: int) -> Iterable[tuple[int, int]]:
    """What a window has spent that opens in parts from a time on."""
    parts = min(CLOSING_STEPS, pace.most)
    for part in range(parts):
        units = pace.most * (part + 1) // parts - pace.most * part // parts
        yield until - pace.period + pace.period * part // parts, units


def _larger(
    starts: Iterable[tuple[int, int]], opening: Iterable[tuple[int, int]]
) -> Iterable[tuple[int, int]]:
    """Of what two windows have spent, at every time the larger: what leaves of both leaves once. A start leaves a
    microsecond later, so that a correction does not take what is left of it for the start itself."""
    entries = sorted([(at, 0, units) for at, units in starts] + [(at, 1, units) for at, units in opening])
    left = [sum(units for _, side, units in entries if side == which) for which in (0, 1)]
    most = max(left)
    for at, side, units in entries:
        left[side] -= units
        if max(left) < most:
            yield at + (side == 0), most - max(left)
            most = max(left)


class Window:
    """Exact sliding window: the starts of the last period, oldest first."""

    __slots__ = ("spent", "starts")

    def __init__(self, starts: deque[tuple[int, int]] | None = None) -> None:
        self.starts: deque[tuple[int, int]] = deque() if starts is None else starts
        self.spent = sum(units for _, units in self.starts)

    def _forget(self, pace: Pace, now: int) -> None:
        while self.starts and self.starts[0][0] <= now - pace.period:
            self.spent -= self.starts.popleft()[1]

    def free(self, pace: Pace, now: int) -> int:
        self._forget(pace, now)
        return max((pace.limit or 0) - self.spent, 0)

    def when(self, pace: Pace, units: int, now: int) -> int | None:
        if units > pace.most:
            return None
        self._forget(pace, now)
        missing = self.spent + units - pace.most
        for at, freed in self.starts:
            if missing <= 0:
                break
            missing -= freed
            now = at + pace.period
        return now

    def spend(self, pace: Pace, units: int, now: int) -> None:
        insort(self.starts, (now, units))  # a clock may go back
        self.spent += units

    def mark(self, now: int) -> int:
        return now

    def correct(self, pace: Pace, spent: Spending, units: int, now: int) -> None:
        entry = (spent.at, spent.units)
        if entry not in self.starts:
            if (
                spent.at > now - pace.period and units > spent.units
            ):  # closed since: a debt counts nevertheless
                self.spend(pace, units - spent.units, spent.at)
            return
        self.starts.remove(entry)
        self.spent -= spent.units
        if units > 0:
            self.spend(pace, units, spent.at)

    def close(self, pace: Pace, until: int, now: int) -> None:
        if not pace.limit:
            return
        self._forget(pace, now)
        self.starts = deque(_larger(self.starts, _opening(pace, until)))
        self.spent = sum(units for _, units in self.starts)

    def debt(self, pace: Pace, now: int) -> int:
        self._forget(pace, now)
        return max(self.spent - pace.most, 0)

    def idle(self, pace: Pace, now: int) -> bool:
        self._forget(pace, now)
        return not self.starts
