"""What went wrong, grouped: failed jobs of one task with the same first line of their error, whatever numbers and ids
stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from headgate.app import internal_jobs
from headgate.app.failure import failure
from headgate.app.info import Info
from headgate.clock import from_us
from headgate.engine.contract import Engine, Filter
from headgate.job import Job

PAGE = 500
EXAMPLES = 5
LONGEST = 200
"""Characters of a message that tell groups apart."""

FOLD = "…"
_FOLDED = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), FOLD),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), FOLD),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), FOLD),
    (re.compile(r"(?<!\w)(['\"])(?:(?!\1)[^\\]|\\.){0,200}\1(?!\w)"), rf"\1{FOLD}\1"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), FOLD),
)
"""What differs between two errors of one cause: UUIDs, addresses, hashes, what stands in quotes, numbers."""


class FailureGroup(Info, frozen=True):
    """Failed jobs with one cause. `error` is the first line of the latest error, `pattern` what they have in common in
    it, `error_type` the class of the exception. `common` is the longest text that all of their errors contain: for the
    filter `error=`. `first` and `last` are when the first and the last of them ended, `ids` the newest of them."""

    task: str
    error_type: str
    pattern: str
    common: str
    error: str
    count: int
    first: datetime
    last: datetime
    ids: tuple[str, ...]


class Failures(Info, frozen=True):
    """Groups, the largest first, of the `jobs` failed jobs that were looked at, the newest ones. `more` says that older
    ones were left out."""

    groups: tuple[FailureGroup, ...]
    jobs: int
    more: bool


def pattern_of(error: str | None) -> str:
    """The first line of an error without what differs from job to job."""
    line = (error or "").partition("\n")[0].strip()[:LONGEST]
    for found, instead in _FOLDED:
        line = found.sub(instead, line)
    return line


async def find_failures(engine: Engine, wanted: Filter, most: int) -> Failures:
    """Group the newest failed jobs that match."""
    groups: dict[tuple[str, str], _Group] = {}
    looked, after, page = 0, None, list[Job]()
    while looked < most:
        size = min(PAGE, most - looked)
        page = await internal_jobs.find(engine, wanted, size, after)
        looked += len(page)
        for job in page:
            groups.setdefault((job.task, pattern_of(job.error)), _Group(job)).add(job)
        if len(page) < size:
            break
        after = page[-1].id
    more = bool(page) and looked == most and bool(await internal_jobs.find(engine, wanted, 1, page[-1].id))
    return Failures(groups=_ordered(groups.values()), jobs=looked, more=more)


class _Group:
    """Failed jobs that are counted, newest first."""

    def __init__(self, newest: Job) -> None:
        self.latest = newest
        self.count = 0
        self.first = _ended(newest)
        self.last = _ended(newest)
        self.ids: list[str] = []

    def add(self, job: Job) -> None:
        ended = _ended(job)
        self.count += 1
        self.first = min(self.first, ended)
        if ended > self.last:
            self.latest, self.last = job, ended
        if len(self.ids) < EXAMPLES:
            self.ids.append(job.id)

    def info(self) -> FailureGroup:
        error = self.latest.error
        return FailureGroup(
            task=self.latest.task,
            error_type=failure(error).kind,
            pattern=(pattern := pattern_of(error)),
            common=max(pattern.split(FOLD), key=len),
            error=(error or "").partition("\n")[0].strip(),
            count=self.count,
            first=from_us(self.first),
            last=from_us(self.last),
            ids=tuple(self.ids),
        )


def _ended(job: Job) -> int:
    return job.enqueued_at if job.ended_at is None else job.ended_at


def _ordered(groups: Iterable[_Group]) -> tuple[FailureGroup, ...]:
    ordered = sorted(groups, key=lambda group: (-group.count, -group.last))
    return tuple(group.info() for group in ordered)
