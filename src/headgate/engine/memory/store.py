"""What the memory engine remembers. A job's fields say everything; the lines and indexes are derived from them.

Every change of a job goes through `MemoryStore.change`, which takes it out of its lines, changes the fields and puts it
where it now belongs, and notes how to undo that. A transaction that fails is rolled back whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.engine.contract import Done, Worker
from headgate.engine.memory.lines import SortedLine
from headgate.engine.rules.history import Pair
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.lifecycle import keeps_unique
from headgate.engine.rules.shares import Mean, Place
from headgate.engine.rules.stored import Stored
from headgate.job import PENDING, JobState
from headgate.rates import Meter

JobLine = SortedLine[Any, Stored]
PENDING_SHARES = (JobState.READY, JobState.WAITING)
"""The states in which a job's tag counts for the next of its share."""
Aside = tuple[str, str, int]
"""Queue and task of jobs that were set aside, and why."""


class Holding:
    """One holder record. `expires_at` is set while a reservation's job is ready (rule 7)."""

    __slots__ = ("expires_at", "job", "reserved", "since", "units")

    def __init__(self, job: Stored, since: int, units: int, reserved: bool) -> None:
        self.job = job
        self.since = since
        self.units = units
        self.reserved = reserved
        self.expires_at: int | None = None


class Registered:
    """A worker with its lease."""

    __slots__ = ("lease_until", "number", "registered_at", "worker")

    def __init__(self, worker: Worker, now: int) -> None:
        self.worker = worker
        self.registered_at = now
        self.lease_until = now + worker.lease
        self.number = 0

    @property
    def seen(self) -> int:
        """When it last proved to be alive."""
        return self.lease_until - self.worker.lease


class MemoryStore:
    """All tables of the memory engine."""

    def __init__(self) -> None:
        self.book = RuleBook()
        self.jobs: dict[str, Stored] = {}
        self.arrivals = 0
        self.scheduled: JobLine = SortedLine()
        self.ended: JobLine = SortedLine()
        self.ready: dict[str, JobLine] = {}
        self.aside: dict[Aside, JobLine] = {}
        self.suspects: dict[str, JobLine] = {}
        self.suspects_aside: dict[Aside, JobLine] = {}
        self.waiting: dict[str, dict[str, JobLine]] = {}
        self.offered: dict[tuple[str, str], dict[str, int]] = {}
        self.running: dict[str, dict[str, Stored]] = {}
        self.unique: dict[tuple[str, str], Stored] = {}
        self.holders: dict[str, dict[str, Holding]] = {}
        self.held_by: dict[str, dict[str, Holding]] = {}
        self.meters: dict[str, Meter] = {}
        self.timers: dict[str, int] = {}
        self.workers: dict[str, Registered] = {}
        self.paused: set[str] = set()
        self.ticks: dict[str, int] = {}
        self.paused_schedules: dict[str, bool] = {}
        self.history: dict[int, dict[Pair, Done]] = {}
        self.starting: JobLine = SortedLine()
        self.shares: dict[Place, dict[str, JobLine]] = {}
        self.virtual: dict[Place, int] = {}
        self.means: dict[tuple[str, str], Mean] = {}
        self.undo: list[Callable[[], object]] = []

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def running_of(self, worker: str) -> list[Stored]:
        """What a worker runs, in the order in which it arrived."""
        return sorted(self.running.get(worker, {}).values(), key=lambda job: job.seq)

    def add(self, job: Stored) -> None:
        """A new job."""
        self.jobs[job.id] = job
        self._enter(job)
        self.undo.append(lambda: self._erase(job))

    def remove(self, job: Stored) -> None:
        """An ended job is gone."""
        self._erase(job)
        self.undo.append(lambda: (self.jobs.__setitem__(job.id, job), self._enter(job)))

    def change(self, job: Stored, **fields: Any) -> None:
        """Set fields and move the job to where they put it."""
        before = {name: getattr(job, name) for name in fields}
        self._set(job, fields)
        self.undo.append(lambda: self._set(job, before))

    def _set(self, job: Stored, fields: dict[str, Any]) -> None:
        self._leave(job)
        for name, value in fields.items():
            setattr(job, name, value)
        self._enter(job)

    def _erase(self, job: Stored) -> None:
        self._leave(job)
        del self.jobs[job.id]

    def _enter(self, job: Stored) -> None:
        if job.spec.share is not None and job.state in PENDING_SHARES:
            shares = self.shares.setdefault((job.queue, job.priority), {})
            shares.setdefault(job.spec.share, SortedLine()).add(job.order, job)
        if job.start_by is not None and job.state in PENDING:
            self.starting.add((job.start_by, job.seq), job)
        match job.state:
            case JobState.SCHEDULED:
                self.scheduled.add((job.due, job.seq), job)
            case JobState.READY:
                lines, at, rank = self._ready_line(job)
                lines.setdefault(at, SortedLine()).add(rank, job)
            case JobState.WAITING:
                assert job.waiting_on is not None
                self.waiting.setdefault(job.waiting_on, {}).setdefault(job.queue, SortedLine()).add(
                    job.order, job
                )
            case JobState.RUNNING:
                assert job.worker is not None
                self.running.setdefault(job.worker, {})[job.id] = job
            case _:
                self.ended.add((job.expires_at, job.seq), job)
        if job.offered_by is not None:
            self.offered.setdefault((job.offered_by, job.queue), {})[job.id] = job.units
        if job.spec.unique is not None and keeps_unique(job):
            self.unique.setdefault((job.tenant, job.spec.unique), job)

    def _leave(self, job: Stored) -> None:
        if job.spec.share is not None and job.state in PENDING_SHARES:
            shares = self.shares[(job.queue, job.priority)]
            _discard(shares, job.spec.share, job.order)
            if not shares:
                del self.shares[(job.queue, job.priority)]
        if job.start_by is not None and job.state in PENDING:
            self.starting.remove((job.start_by, job.seq))
        match job.state:
            case JobState.SCHEDULED:
                self.scheduled.remove((job.due, job.seq))
            case JobState.READY:
                _discard(*self._ready_line(job))
            case JobState.WAITING:
                assert job.waiting_on is not None
                _discard(self.waiting[job.waiting_on], job.queue, job.order)
                if not self.waiting[job.waiting_on]:
                    del self.waiting[job.waiting_on]
            case JobState.RUNNING:
                assert job.worker is not None
                del self.running[job.worker][job.id]
            case _:
                self.ended.remove((job.expires_at, job.seq))
        if job.offered_by is not None:
            offers = self.offered[(job.offered_by, job.queue)]
            del offers[job.id]
            if not offers:
                del self.offered[(job.offered_by, job.queue)]
        if job.spec.unique is not None and self.unique.get((job.tenant, job.spec.unique)) is job:
            del self.unique[(job.tenant, job.spec.unique)]

    def _ready_line(self, job: Stored) -> tuple[dict[Any, JobLine], Any, tuple[int, ...]]:
        """Where a ready job stands: suspects apart from the others, and what was set aside apart by task and reason."""
        rank = job.suspect_order if job.suspicion else job.order
        if job.set_aside:
            return (
                self.suspects_aside if job.suspicion else self.aside,
                (job.queue, job.task, job.set_aside),
                rank,
            )
        return self.suspects if job.suspicion else self.ready, job.queue, rank

    def advance(self, queue: str, priority: int, tag: int) -> None:
        """A job has started: the virtual time of its line is not behind it."""
        if tag > self.virtual.get((queue, priority), 0):
            self.put(self.virtual, (queue, priority), tag)

    # ── holders ──────────────────────────────────────────────────────────────────────────────────────────────────

    def held(self, key: str) -> int:
        """The sum of the units of a key's holders."""
        return sum(holding.units for holding in self.holders.get(key, {}).values())

    def hold(self, key: str, holding: Holding) -> None:
        """Add or replace a holder record."""
        before = self.holders.get(key, {}).get(holding.job.id)
        self._put_holder(key, holding)
        undo = (
            (lambda: self._put_holder(key, before)) if before else (lambda: self._drop_holder(key, holding))
        )
        self.undo.append(undo)

    def let_go(self, key: str, holding: Holding) -> None:
        """Delete a holder record."""
        self._drop_holder(key, holding)
        self.undo.append(lambda: self._put_holder(key, holding))

    def _put_holder(self, key: str, holding: Holding) -> None:
        self.holders.setdefault(key, {})[holding.job.id] = holding
        self.held_by.setdefault(holding.job.id, {})[key] = holding

    def _drop_holder(self, key: str, holding: Holding) -> None:
        for table, outer, inner in ((self.holders, key, holding.job.id), (self.held_by, holding.job.id, key)):
            del table[outer][inner]
            if not table[outer]:
                del table[outer]

    # ── undoing a transaction ─────────────────────────────────────────────────────────────────────────────────────────

    def roll_back(self) -> None:
        """Undo everything since the last commit, newest first."""
        while self.undo:
            self.undo.pop()()

    def put(self, table: dict[Any, Any], name: Any, value: Any) -> None:
        """Set an entry of a plain table, or delete it with None."""
        before = table.get(name)
        _assign(table, name, value)
        self.undo.append(lambda: _assign(table, name, before))


def _assign(table: dict[Any, Any], name: Any, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def _discard(lines: dict[Any, JobLine], at: Any, rank: tuple[int, ...]) -> None:
    lines[at].remove(rank)
    if not lines[at]:
        del lines[at]
