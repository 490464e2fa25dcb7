"""The callbacks that an engine calls in its process: workers wait for jobs, callers wait for results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from headgate.engine.contract import Wake

log = logging.getLogger("headgate.engine")

End = Callable[[], None]
"""Ends a registration; calling it twice does no harm."""


@runtime_checkable
class MovingClock(Protocol):
    """A clock that tests move, and that tells when it was moved."""

    def __call__(self) -> int: ...

    def watch(self, wake: Wake) -> End: ...


def also_on_moves(clock: Callable[[], int] | None, wake: Wake, end: End) -> End:
    """Wake also whenever the clock is moved: a worker that sleeps until the next due time must look again."""
    if not isinstance(clock, MovingClock):
        return end
    ends = end, clock.watch(wake)

    def end_both() -> None:
        for one in ends:
            one()

    return end_both


class ForWork(NamedTuple):
    """A callback for jobs of some queues (None: all), in one partition of the store or in all of them."""

    wake: Wake
    queues: Sequence[str] | None
    partition: int | None


class Sleepers:
    """Registered and called from any thread."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.for_work: dict[int, ForWork] = {}
        self.for_ended: dict[int, Wake] = {}

    def __bool__(self) -> bool:
        return bool(self.for_work or self.for_ended)

    def on_work(self, wake: Wake, queues: Sequence[str] | None = None, partition: int | None = None) -> End:
        """Wake for ready jobs."""
        number = next(self._numbers)
        self.for_work[number] = ForWork(wake, queues, partition)
        return lambda: self.for_work.pop(number, None) and None

    def on_ended(self, wake: Wake) -> End:
        """Wake for ended jobs."""
        number = next(self._numbers)
        self.for_ended[number] = wake
        return lambda: self.for_ended.pop(number, None) and None

    def work(self, queues: AbstractSet[str] | None = None, partition: int | None = None) -> None:
        """Jobs of these queues may be ready; None means any."""
        if queues is not None and not queues:
            return
        for wake, served, own in list(self.for_work.values()):
            concerned = queues is None or served is None or not queues.isdisjoint(served)
            if concerned and (own is None or partition is None or own == partition):
                _call(wake)

    def ended(self) -> None:
        """Jobs have ended."""
        for wake in list(self.for_ended.values()):
            _call(wake)


def _call(wake: Wake) -> None:
    """One callback that raises must not keep the others from being called."""
    try:
        wake()
    except Exception:
        log.exception("a sleeper could not be woken")
