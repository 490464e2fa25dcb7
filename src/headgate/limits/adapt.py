"""Limits that learn: how many at once a service really bears, found out from how attempts end.

While all goes well at the limit, the number rises: by one, or faster where a level that was too much is borne now. When
the service refuses, when attempts run out of time, or when they take much longer than usual, it falls. A level that was
too much is remembered, and tried again only now and then, so that few calls are spent on finding out what was known.
Pure: a learner is told what happens and says what it would change; stores and clocks are elsewhere.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec

from headgate.errors import ConfigError

Ended = Literal["good", "throttled", "timed out"]
PROBE, PROBE_CALLS = 4, 96
"""Rounds, and calls, that must go well before a number is tried that was too much before: a round is as many attempts
as run at once."""
ROUGHLY = 0.9
"""What is left of a number where little went wrong with it."""
FAST, DOWN, UP = 8, 8, 256
"""How fast the recent time of attempts follows, and how fast the usual one follows it down and up."""


class Adapt(msgspec.Struct, frozen=True):
    """How a limit learns. `min` and `max` bound the number (`max` None: the limit's own). `decrease` is the least part
    of a number that is left when it was far too much. `slow` is how many times longer than usual attempts may take; 0
    leaves their time alone."""

    min: int = 1
    max: int | None = None
    decrease: float = 0.5
    slow: float = 2.0

    def __post_init__(self) -> None:
        if self.min < 1 or (self.max is not None and self.max < self.min):
            raise ConfigError(f"Adapt(min={self.min}, max={self.max}): from 1 up, and max not below min")
        if not 0 < self.decrease < 1:
            raise ConfigError(f"Adapt(decrease={self.decrease}): a part between 0 and 1 is needed")
        if self.slow and self.slow <= 1:
            raise ConfigError(f"Adapt(slow={self.slow}): more than 1, or 0 to leave time alone")


class Adaptive(NamedTuple):
    """How one key of a job learns, and the number that it begins with."""

    adapt: Adapt
    number: int


class Change(msgspec.Struct, frozen=True):
    """The number that a learner would put in the place of the one it knows, and why. `only_if_full`: it says nothing
    unless the key is used as far as it can be. `ran` is how many attempts of the worker have run at once: where fewer
    than the number run in all (a throttled key opens slowly), that many are borne, and no more."""

    number: int
    seen: int
    reason: str
    only_if_full: bool = False
    ran: int | None = None


class Learner:
    """What one worker knows of one key. Times are seconds of any clock that only goes forth."""

    def __init__(self, adapt: Adapt, number: int, most: int, now: float) -> None:
        self.adapt = adapt
        self.number = number
        self.most = most if adapt.max is None else adapt.max
        self.since = now
        self.good = 0
        self.asked = 0
        """How many had ended well when a rise was last asked for."""
        self.bad = 0
        self.running = 0
        self.peak = 1
        self.too_much: int | None = None
        self.borne: int | None = None
        """The number from which it rose to this one: all went well with that."""
        self.stride = 1
        self.usual: float | None = None
        self.recent: float | None = None

    def see(self, number: int, now: float) -> None:
        """The number in force is another one now, by this worker's word or another's: what began before says nothing
        about it."""
        if number == self.number:
            return
        if number < self.number:
            self.too_much, self.stride = self.number, 1
        else:
            self.stride *= 2 if self.stride > 1 else 1
            if self.too_much is not None and number > self.too_much:
                self.too_much = None
        self.borne = self.number if number > self.number else None
        self.number, self.since, self.good, self.asked, self.bad = number, now, 0, 0, 0
        self.peak = max(self.running, 1)

    def began(self) -> None:
        """An attempt of the key starts on this worker."""
        self.running += 1
        self.peak = max(self.peak, self.running)

    def ended(self, how: Ended, took: float, now: float) -> Change | None:
        """An attempt has ended; answers with the change that this calls for, if any."""
        self.running -= 1
        if now - took < self.since:
            return None
        if how != "good":
            self.bad += 1
            change = self._fall(self._left(), how)
            if change is None or how != "throttled":
                return change
            return msgspec.structs.replace(change, ran=self.peak)
        self.good += 1
        self._learn_time(took)
        if self._is_slow():
            return self._fall(ROUGHLY, "attempts take longer than usual")
        return self._rise()

    def _left(self) -> float:
        """Where many were refused at once, as much as was not."""
        went_well = self.good / (self.good + self.bad)
        return max(self.adapt.decrease, min(ROUGHLY, went_well))

    def _fall(self, left: float, reason: str) -> Change | None:
        fallen = max(int(self.number * left), self.borne or 0)
        number = max(self.adapt.min, min(fallen, self.number - 1))
        if number >= self.number:
            return None
        return Change(number, self.number, reason)

    def _rise(self) -> Change | None:
        if self.number >= self.most:
            return None
        if self.good - self.asked < self.peak * (self._rounds() if self._is_below_too_much() else 1):
            return None
        if self.too_much == self.number:  # it is borne now, and more may be
            self.stride = 2
        number = min(self.number + self.stride, self.most)
        return Change(number, self.number, "all goes well at the limit", only_if_full=True)

    def _is_below_too_much(self) -> bool:
        return self.too_much is not None and self.number < self.too_much <= self.number + 1

    def _rounds(self) -> int:
        return max(PROBE, -(-PROBE_CALLS // self.number))

    def bounded(self, change: Change, held: int) -> int:
        """The number of a change, where so many slots are held over all workers."""
        if change.ran is None:
            return change.number
        borne = math.ceil(max(change.ran, held) * ROUGHLY)  # some of these are being refused, too
        return max(self.adapt.min, min(change.number, borne))

    def not_full(self) -> None:
        """A rise was not wanted: it is asked for again after another round."""
        self.asked = self.good

    def _learn_time(self, took: float) -> None:
        self.recent = took if self.recent is None else self.recent + (took - self.recent) / FAST
        if self.usual is None:
            self.usual = took
        else:
            self.usual += (took - self.usual) / (DOWN if took < self.usual else UP)

    def _is_slow(self) -> bool:
        if not self.adapt.slow or self.usual is None or self.recent is None or self.good < self.number:
            return False
        return self.recent > self.usual * self.adapt.slow
