"""When each attempt was alive, from the notes alone.

An attempt is alive from its start until it ends, its process is killed, or the lease of its worker is no longer
certain: from then on the store may give its slots to others, and whatever it still does counts for nothing. A lease is
certain for its length from when a renewal was *sent* that was answered. So it does not matter when a process that is
frozen, or that gets no processor, notices that its lease is over.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.chaos.notes import Note, of

CERTAIN = 0.95
"""The part of a lease that is certain: a machine's real time may be adjusted a little, against the clock of the notes.
A worker gives up what it runs after this part, too."""


class Life(NamedTuple):
    """One attempt. Times are nanoseconds; `claimed` is when it was claimed at the earliest, `sent` when that was asked
    for, `end` when it was no longer alive, which may be earlier than when it said `how` it ended. `said` is what it
    noted beside that at its start."""

    job: str
    attempt: int
    task: str
    queue: str
    keys: tuple[str, ...]
    pid: int
    sent: int
    claimed: int
    start: int
    end: int
    how: str
    said: dict[str, Any]

    @property
    def alive(self) -> bool:
        """Whether it began while it was its worker's own. One that did not is of a past that the store has closed."""
        return self.end > self.start

    def units(self, key: str) -> int:
        """What it takes of a key."""
        return self.said.get("units", {}).get(key, 1)


def lives(notes: Sequence[Note]) -> list[Life]:
    """All attempts that started, by the time of their start."""
    ends = {(each["job"], each["attempt"], each["pid"]): each for each in of(notes, "end")}
    gone = _gone(notes)
    leases = Leases(notes)
    last = notes[-1]["t"] if notes else 0
    made: list[Life] = []
    for each in of(notes, "start"):
        start = each["t"]
        end = ends.get((each["job"], each["attempt"], each["pid"]))
        until, how = (end["t"], end["how"]) if end else (last + 1, "unknown")
        until = min(
            until, gone.get(each["pid"], until), leases.certain_until(each.get("worker"), start, until)
        )
        sent = each.get("sent", each["claimed"])
        claimed = min(max(each["claimed"], sent), start)
        who = (each["job"], each["attempt"], each["task"], each["queue"], tuple(each["keys"]), each["pid"])
        made.append(Life(*who, min(sent, start), claimed, start, max(start, until), how, each))
    return made


def _gone(notes: Sequence[Note]) -> dict[int, int]:
    """By process, since when it may be gone. A kill is noted before it is done, and attempts may start between the
    two: nothing says for how long these were alive, so that they count as ended where they began."""
    return {each["pid"]: each["t"] for each in reversed(of(notes, "killed", "gone"))}


class Leases:
    """By worker, from when to when its lease was certain."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self._spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for each in sorted(of(notes, "renewed"), key=lambda each: each["sent"]):
            spans = self._spans[each["worker"]]
            since, until = each["sent"], each["sent"] + int(each["seconds"] * CERTAIN * 1e9)
            if spans and since <= spans[-1][1]:
                since, _ = spans.pop()
            spans.append((since, until))

    def certain_until(self, worker: str | None, moment: int, end: int) -> int:
        """Until when what a worker ran at a moment was its own; `end` where nothing is known of it."""
        if worker is None:
            return end
        spans = self._spans[worker]
        at = bisect.bisect_right(spans, moment, key=lambda span: span[0]) - 1
        return max(moment, spans[at][1]) if at >= 0 else moment
