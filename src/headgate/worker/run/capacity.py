"""The places of a worker: how many jobs it can run at once, shared by the parts of the store that it works for.

Any part may use all of them. Where several want some, what is free is divided between them, those first that have
waited longest. A claim that is under way keeps the places that it asked for; one that gets no answer within a moment
keeps no more than the part's even share, so that a silent part does not hold up the others. Should its answer bring
more jobs after all than there is room for, the rest is given back.

Jobs that need a thread, or a process of the pool, are asked for only as far as one is free: no job holds slots while it
waits for one. A part whose jobs all need a process asks for no more than are free; one of whose jobs some need a thread
says with each claim how many of those it can start, so that jobs on the event loop do not wait for threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

PROMPT_ANSWER = 0.1
"""Seconds after which a claim without an answer keeps only its even share."""


class Scarce(Protocol):
    """What each job of a part needs one of: threads, processes."""

    @property
    def free(self) -> int: ...


class Capacity:
    """`concurrency` places; with `most`, no more than so many jobs are begun at all."""

    def __init__(self, concurrency: int, most: int | None = None) -> None:
        self.taken = 0
        self.begun = 0
        self._concurrency = concurrency
        self._most = most
        self._shares: list[PartCapacity] = []
        self._line: dict[PartCapacity, None] = {}
        self.spent: Callable[[], None] | None = None
        """Called when `most` jobs have been begun."""

    def share(
        self, wake: Callable[[], None], needs: Scarce | None = None, threads: Scarce | None = None
    ) -> PartCapacity:
        """A part's access to the places; `wake` is called when there may be some for it. Its jobs `need` one of these
        each, or those that are synchronous one of `threads`."""
        share = PartCapacity(self, wake, needs, threads)
        self._shares.append(share)
        return share

    def take(self) -> None:
        """An attempt starts."""
        self.taken += 1
        self.begun += 1
        if self.begun == self._most and self.spent is not None:
            self.spent()

    def give(self) -> None:
        """An attempt has ended."""
        self.taken -= 1
        if self._line:
            self.pass_on()

    def free(self, share: PartCapacity) -> int:
        """Places that are neither taken nor asked for by others, and for which there is what each job needs."""
        free = self._concurrency - self.taken
        if self._most is not None:
            free = min(free, self._most - self.begun)
        if len(self._shares) == 1:
            return free if share.needs is None else min(free, share.needs.free)
        free -= self._asked_by_others(share)
        return free if share.needs is None else min(free, share.needs.free - self._needed_by_others(share))

    def free_threads(self, share: PartCapacity, threads: Scarce) -> int:
        """Threads that are neither busy nor asked for by others."""
        return max(0, threads.free - sum(other.asked_threads for other in self._shares if other is not share))

    def divide(self, share: PartCapacity, free: int) -> int:
        """How many of the free places this part may ask for; it stands in line from now on."""
        if len(self._shares) == 1:
            return max(free, 0)
        self._line.setdefault(share)
        line = [each for each in self._line if each is share or each.useful]
        every, rest = divmod(max(free, 0), len(line))
        return every + (line.index(share) < rest)

    def leave(self, share: PartCapacity) -> None:
        """The part is served, or cannot be."""
        self._line.pop(share, None)

    def pass_on(self) -> None:
        """There may be room: wake the part that has waited longest and could use it."""
        if self._line and (first := next((each for each in self._line if each.useful), None)) is not None:
            first.wake()

    def _asked_by_others(self, share: PartCapacity) -> int:
        even = max(1, self._concurrency // len(self._shares))
        late = time.monotonic() - PROMPT_ANSWER
        others = (other for other in self._shares if other is not share and other.asked)
        return sum(min(other.asked, even) if other.since < late else other.asked for other in others)

    def _needed_by_others(self, share: PartCapacity) -> int:
        return sum(other.asked for other in self._shares if other is not share and other.needs is share.needs)


class PartCapacity:
    """One part's access to the places."""

    __slots__ = ("_capacity", "_short", "_threads", "asked", "asked_threads", "needs", "since", "wake")

    def __init__(
        self, capacity: Capacity, wake: Callable[[], None], needs: Scarce | None, threads: Scarce | None
    ) -> None:
        self.wake = wake
        self.needs = needs
        self.asked = 0
        self.asked_threads = 0
        self.since = 0.0
        self._capacity = capacity
        self._threads = threads
        self._short: Scarce | None = None
        """What it waits for, if not for places alone."""

    @property
    def useful(self) -> bool:
        """Whether it could use places now."""
        return all(scarce is None or scarce.free > 0 for scarce in (self.needs, self._short))

    def want(self, unsent: int) -> int:
        """How many jobs to ask for. Outcomes that are not sent yet count as work: they must not pile up."""
        return self._capacity.divide(self, self._capacity.free(self) - unsent)

    def threads_for(self, want: int) -> int | None:
        """How many of so many jobs may need a thread; None if there is one for each of them."""
        if self._threads is None:
            return None
        free = self._capacity.free_threads(self, self._threads)
        return None if free >= want else free

    def ask(self, want: int, threads: int | None) -> None:
        """A claim goes out."""
        self.asked, self.since = want, time.monotonic()
        if self._threads is not None:
            self.asked_threads = want if threads is None else threads
        if want:
            self._capacity.leave(self)

    def room(self, claimed: int) -> int:
        """How many of the claimed jobs can start."""
        return claimed if claimed == 0 else min(claimed, max(0, self._capacity.free(self)))

    def end(self, *, hungry: bool, short: bool = False) -> None:
        """The claim is over; `hungry` says that there was more to be had, `short` that there may be, for threads."""
        self.asked = self.asked_threads = 0
        self._short = self._threads if short and not hungry else None
        if hungry or short:
            self._capacity.divide(self, 0)
        self._capacity.pass_on()

    def leave(self) -> None:
        """The part cannot use any places for now."""
        self.asked = self.asked_threads = 0
        self._capacity.leave(self)
        self._capacity.pass_on()
