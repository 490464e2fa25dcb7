"""What the jobs wrote down, and what follows from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """One note of a job."""

    at: int
    kind: str
    key: str
    job: str
    attempt: int
    pid: int


class Record:
    """The notes of all processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self, kind: str | None = None, key: str | None = None) -> list[Line]:
        """All notes so far, in the order in which they were written."""
        fields = (line.split() for line in self.path.read_text().splitlines())
        all = [Line(int(at), k, name, job, int(number), int(pid)) for at, k, name, job, number, pid in fields]
        return [line for line in all if kind in (None, line.kind) and key in (None, line.key)]

    def jobs(self, kind: str) -> Counter[str]:
        """How often each job noted something of this kind; two keys of one job count once."""
        return Counter(job for job, _ in {(line.job, line.attempt) for line in self.lines(kind)})

    def overlaps(self, killed: Mapping[int, int] | None = None) -> dict[str, int]:
        """The largest number of attempts that ran at once, per key. An attempt without an end ran until its process
        was killed."""
        ends = {(line.key, line.job, line.attempt): line.at for line in self.lines("end")}
        changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for line in self.lines("start"):
            end = ends.get((line.key, line.job, line.attempt))
            if end is None:
                end = (killed or {})[line.pid]
            changes[line.key] += [(line.at, 1), (end, -1)]
        return {key: _highest(sorted(steps)) for key, steps in changes.items()}


def _highest(steps: list[tuple[int, int]]) -> int:
    running = highest = 0
    for _, change in steps:
        running += change
        highest = max(highest, running)
    return highest
