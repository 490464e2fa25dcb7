"""Rate arithmetic, exact and in whole microseconds.

A *pace* says how many starts a period allows. Two ways of keeping it:

- `Bucket` (GCRA): one number per key, the time at which the bucket would be full again. `burst` tokens at most;
  one token every `interval`. `leaky` is the same with burst 1: starts are spread evenly.
- `Window`: the exact sliding window, a list of the starts of the last period. No period, wherever it begins, sees
  more than `limit` starts.

Both answer: how many whole tokens are there, when will there be `units` of them, what if they are spent.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Protocol

import msgspec


class Pace(msgspec.Struct, frozen=True):
    """The numbers of a rate limit, after overrides. `limit` None lifts it, 0 closes it."""

    limit: int | None
    period: int
    burst: int
    exact: bool = False

    @property
    def interval(self) -> int:
        """Microseconds per token, rounded up so that the rate is never exceeded."""
        return -(-self.period // self.limit) if self.limit else self.period

    @property
    def most(self) -> int:
        """The largest number of tokens that can ever be there at once."""
        return 0 if not self.limit else self.limit if self.exact else self.burst


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

    def idle(self, pace: Pace, now: int) -> bool:
        """Whether nothing needs to be remembered any more."""
        ...


class Bucket:
    """GCRA. `full_at` is the theoretical arrival time: from then on the bucket holds `burst` tokens."""

    __slots__ = ("full_at",)

    def __init__(self, full_at: int = 0) -> None:
        self.full_at = full_at

    def free(self, pace: Pace, now: int) -> int:
        behind = max(self.full_at - now, 0)
        return max(pace.burst * pace.interval - behind, 0) // pace.interval

    def when(self, pace: Pace, units: int, now: int) -> int | None:
        if units > pace.most:
            return None
        return max(now, self.full_at - (pace.burst - units) * pace.interval)

    def spend(self, pace: Pace, units: int, now: int) -> None:
        self.full_at = max(self.full_at, now) + units * pace.interval

    def idle(self, pace: Pace, now: int) -> bool:
        return self.full_at <= now


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

    def idle(self, pace: Pace, now: int) -> bool:
        self._forget(pace, now)
        return not self.starts
