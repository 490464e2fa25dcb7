"""When each attempt was alive, from the notes alone.

An attempt lives from its start to its end. It ends earlier where its process was killed, lost its lease, or was frozen
for so long that the lease lapsed meanwhile: from then on the store may give its slots to others, and whatever it still
does counts for nothing.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tests.chaos import rules
from tests.chaos.notes import Note, of

LONG = 0.5
"""The part of a lease after which a frozen process may have lost it: it renews three times in its length."""


SLACK = 300_000_000
"""Nanoseconds by which a process on a busy machine may notice late that its lease is over."""


class Life(NamedTuple):
    """One attempt. Times are nanoseconds; `claimed` is when it was claimed at the earliest, `end` when it was no longer
    alive, which may be earlier than when it said `how` it ended."""

    job: str
    attempt: int
    task: str
    queue: str
    keys: tuple[str, ...]
    pid: int
    claimed: int
    start: int
    end: int
    how: str


def lives(notes: Sequence[Note]) -> list[Life]:
    """All attempts that started, by the time of their start."""
    ends = {(each["job"], each["attempt"], each["pid"]): each for each in of(notes, "end")}
    deaths = _deaths(notes)
    last = notes[-1]["t"] if notes else 0
    made: list[Life] = []
    for each in of(notes, "start"):
        end = ends.get((each["job"], each["attempt"], each["pid"]))
        over = deaths.after(each["pid"], each["t"])
        until, how = (end["t"], end["how"]) if end else (last, "unknown")
        if over is not None:
            until = min(until, over)
        earliest = max(min(each["claimed"], each["t"]), each["t"] - int(rules.LEASE * 1e9))
        who = (each["job"], each["attempt"], each["task"], each["queue"], tuple(each["keys"]), each["pid"])
        made.append(Life(*who, earliest, each["t"], until, how))
    return made


class _Deaths:
    """For each process, the moments from which what it ran before is no longer its own.

    A kill is noted before it is done, and a process may start attempts between the two: nothing says for how long
    these were alive, so that they count as ended where they began.
    """

    def __init__(self) -> None:
        self.moments: defaultdict[int, list[int]] = defaultdict(list)
        self.ended: dict[int, int] = {}
        """By process, since when it may be gone for good."""

    def after(self, pid: int, moment: int) -> int | None:
        if moment >= self.ended.get(pid, moment + 1):
            return moment
        known = self.moments[pid]
        at = bisect.bisect_left(known, moment)
        return known[at] if at < len(known) else None


def _deaths(notes: Sequence[Note]) -> _Deaths:
    deaths = _Deaths()
    frozen: dict[int, int] = {}
    woken: dict[int, tuple[int, int]] = {}
    for each in notes:
        pid, moment = int(each["pid"]), int(each["t"])
        match each["kind"]:
            case "killed" | "gone":
                deaths.moments[pid].append(frozen.get(pid, moment))
                deaths.ended.setdefault(pid, moment)
            case "frozen":
                frozen.setdefault(pid, moment)  # one that is frozen again stays frozen since the first time
            case "thawed":
                since = frozen.pop(pid)
                woken[pid] = since, moment
                if moment - since > LONG * rules.LEASE * 1e9:
                    deaths.moments[pid].append(since)
            case "fenced":
                since, until = woken.get(pid, (0, 0))
                late = since if moment - until < SLACK else moment - SLACK
                deaths.moments[pid].append(late)
            case _:
                pass
    for moments in deaths.moments.values():
        moments.sort()
    return deaths
