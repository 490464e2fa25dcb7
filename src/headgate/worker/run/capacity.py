"""The places of a worker: how many jobs it can run at once, shared by the parts of the store that it works for.

Any part may use all of them. Where several want some, what is free is divided between them, those first that have
waited longest. A claim that is under way keeps the places that it asked for; one that gets no answer within a moment
keeps no more than the part's even share, so that a silent part does not hold up the others. Should its answer bring
more jobs after all than there is room for, the rest is given back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headgate.worker.run.threads import Threads

PROMPT_ANSWER = 0.1
"""Seconds after which a claim without an answer keeps only its even share."""


class Capacity:
    """`concurrency` places; where tasks need threads, never more than there are threads for them."""

    def __init__(self, concurrency: int, threads: Threads, *, uses_threads: bool) -> None:
        self.taken = 0
        self._concurrency = concurrency
        self._threads = threads
        self._uses_threads = uses_threads
        self._shares: list[PartCapacity] = []
        self._line: dict[PartCapacity, None] = {}

    def share(self, wake: Callable[[], None]) -> PartCapacity:
        """A part's access to the places; `wake` is called when there may be some for it."""
        share = PartCapacity(self, wake)
        self._shares.append(share)
        return share

    def take(self) -> None:
        """An attempt starts."""
        self.taken += 1

    def give(self) -> None:
        """An attempt has ended."""
        self.taken -= 1
        self.pass_on()

    def free(self, share: PartCapacity) -> int:
        """Places that are neither taken nor asked for by others. No job holds slots while it waits for a thread."""
        free = self._concurrency - self.taken
        free = min(free, self._threads.free) if self._uses_threads else free
        return free if len(self._shares) == 1 else free - self._asked_by_others(share)

    def divide(self, share: PartCapacity, free: int) -> int:
        """How many of the free places this part may ask for; it stands in line from now on."""
        if len(self._shares) == 1:
            return max(free, 0)
        self._line.setdefault(share)
        every, rest = divmod(max(free, 0), len(self._line))
        return every + (list(self._line).index(share) < rest)

    def leave(self, share: PartCapacity) -> None:
        """The part is served, or cannot be."""
        self._line.pop(share, None)

    def pass_on(self) -> None:
        """There may be room: wake the part that has waited longest."""
        if self._line:
            next(iter(self._line)).wake()

    def _asked_by_others(self, share: PartCapacity) -> int:
        even = max(1, self._concurrency // len(self._shares))
        late = time.monotonic() - PROMPT_ANSWER
        others = (other for other in self._shares if other is not share and other.asked)
        return sum(min(other.asked, even) if other.since < late else other.asked for other in others)


class PartCapacity:
    """One part's access to the places."""

    __slots__ = ("_capacity", "asked", "since", "wake")

    def __init__(self, capacity: Capacity, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.asked = 0
        self.since = 0.0
        self._capacity = capacity

    def want(self, unsent: int) -> int:
        """How many jobs to ask for. Outcomes that are not sent yet count as work: they must not pile up."""
        return self._capacity.divide(self, self._capacity.free(self) - unsent)

    def ask(self, want: int) -> None:
        """A claim goes out."""
        self.asked, self.since = want, time.monotonic()
        if want:
            self._capacity.leave(self)

    def room(self, claimed: int) -> int:
        """How many of the claimed jobs can start."""
        return claimed if claimed == 0 else min(claimed, max(0, self._capacity.free(self)))

    def end(self, *, hungry: bool) -> None:
        """The claim is over; `hungry` says that there was more to be had."""
        self.asked = 0
        if hungry:
            self._capacity.divide(self, 0)
        self._capacity.pass_on()

    def leave(self) -> None:
        """The part cannot use any places for now."""
        self.asked = 0
        self._capacity.leave(self)
        self._capacity.pass_on()
