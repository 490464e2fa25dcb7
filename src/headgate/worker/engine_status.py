"""Whether the engine can be reached: how long to wait while it cannot, and one log line when that changes."""

from __future__ import annotations

import logging
import random

from headgate.errors import EngineUnavailable
from headgate.worker.events import Events

log = logging.getLogger("headgate.worker")

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 5.0


class Backoff:
    """0.1 s, doubled up to 5 s, with jitter so that workers which failed together do not come back together."""

    __slots__ = ("_longest", "_next")

    def __init__(self, longest: float = LONGEST_BACKOFF) -> None:
        self._longest = longest
        self._next = FIRST_BACKOFF

    def wait(self) -> float:
        """Seconds to wait after one more failure."""
        wait, self._next = self._next, min(self._next * 2, self._longest)
        return min(wait, self._longest) * random.uniform(0.5, 1)

    def reset(self) -> None:
        """It worked."""
        self._next = FIRST_BACKOFF


class EngineStatus:
    """Whether a part of the engine answers, as far as this worker can tell. Shared by everything that calls it.

    Trouble may be partial: a full disk refuses outcomes and still renews leases. So only what failed first can say that
    it is over; otherwise the two would write line after line.
    """

    def __init__(self, events: Events, what: str = "the engine") -> None:
        self.down = False
        self._first = ""
        self._events = events
        self._what = what

    def failed(self, error: EngineUnavailable, caller: str) -> None:
        """A call did not get through; the first of a row is logged."""
        if not self.down:
            self.down, self._first = True, caller
            log.warning("%s cannot be reached, trying again: %s", self._what, error)
            self._events.emit("unavailable", error=str(error))

    def worked(self, caller: str) -> None:
        """A call got through."""
        if self.down and caller == self._first:
            self.down = False
            log.warning("%s can be reached again", self._what)
            self._events.emit("recovered")
