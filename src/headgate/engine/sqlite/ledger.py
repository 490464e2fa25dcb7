"""The SQLite engine's ledger: admission's questions answered from indexes, its decisions written in batches.

Counts are read once per key and transaction and kept in accord with the decisions; changes of jobs are collected and
written together by `flush`, before anything reads the lines that they alter. Offers are written last: a waiter that is
claimed in the very transaction that offers it (the usual way of a slot) is never written as ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from headgate.engine.contract import Attempt, Settings
from headgate.engine.rules.admission import fewest_refusals
from headgate.engine.rules.full import Policy
from headgate.engine.rules.stored import Stored
from headgate.engine.sqlite.connection import Connection, Values
from headgate.engine.sqlite.crowd import FileCrowd
from headgate.engine.sqlite.metering import Metering
from headgate.engine.sqlite.rows import (
    AT_START,
    GARBLED,
    Candidate,
    EndedAttempt,
    FileJob,
    extras,
    inserted,
    inserted_with_extras,
    saved,
    to_json,
)
from headgate.engine.sqlite.rule_book import FileBook
from headgate.engine.sqlite.sharing import FileShares, Slice
from headgate.engine.sqlite.statements import listed, of_rows, sql
from headgate.job import JobState
from headgate.keys import Use, is_rate
from headgate.rates import Meter, Pace, Spending

Row = Stored | Candidate | EndedAttempt

FEW = 24
"""Up to so many rows are quicker written one by one; beyond, one statement with a JSON parameter is, which also lets go
of the GIL once instead of once per row."""

TOGETHER = 10
"""Rows of one statement, which share its cost per execution. The statement cache keeps two sizes: this and one."""


class Claim(NamedTuple):
    """What a process remembers of a job that it claimed: its number, its keys, under which rules these were all, and
    its extras."""

    seq: int
    uses: Sequence[Use]
    terms: int | None
    extras: int


class Counts(dict[str, int]):
    """How many units of each key are held: read from the file when first asked for. Asked several times per job: for a
    key that is known no function of ours is called."""

    def __init__(self, read: Callable[[list[str]], None]) -> None:
        self._read = read

    def __missing__(self, key: str) -> int:
        self._read([key])
        return self[key]


class SqliteLedger:
    """One transaction's view of the file; `claimer` is the worker that claims in it, `suspected` says whether a suspect
    has become ready. `mend` ends the job with this number, whose row cannot be read; `readable` reads one.

    What few transactions need (crowd, shares, meters) is made when it is first asked for.
    """

    mend: Callable[[int], object]
    readable: Callable[[int], FileJob | None]

    def __init__(self, connection: Connection, book: FileBook, settings: Settings, now: int) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.book = book
        self.rule = book.rule
        self.settings = settings
        self.now = now
        self.claimer: str | None = None
        self.started: list[Attempt] = []
        self.claimed: dict[str, Claim] = {}
        self.readied: dict[str, str] = {}
        self.filled: set[str] = set()
        self.suspected = False
        self._held = Counts(self.count_held)
        self.held: Callable[[str], int] = self._held.__getitem__
        self._offered: dict[tuple[str | None, str], int] = {}
        self._queues: dict[str, list[str]] = {}
        self._heads: dict[tuple[str, str], Candidate] = {}
        self._waited: dict[tuple[str, str], bool] = {}
        self._crowd: FileCrowd | None = None
        self._shares: FileShares | None = None
        self._meters: Metering | None = None
        self.policy: Callable[[str], Policy | None] = book.policy
        self._plain = True
        self._new: list[FileJob] = []
        self._changed: dict[int, FileJob] = {}
        self._starts: list[int] = []
        self._starts_with_extras: list[int] = []
        self._spendings: dict[int, dict[str, Spending]] = {}
        self._takes: list[tuple[str, int, int]] = []
        self._sized: list[tuple[str, int, int, int, int]] = []
        self._offers: dict[int, Candidate] = {}
        self._parked: list[tuple[int, str, int, int]] = []
        self._aside: list[int] = []
        self._kept: list[int] = []
        self._stale: set[str] = set()
        self._pending = False
        self.reserving = fewest_refusals(settings.patience)

    @property
    def crowd(self) -> FileCrowd:
        """Those that wait already."""
        if self._crowd is None:
            self._crowd = FileCrowd(self.connection, self.flush, self.readable)
        return self._crowd

    @property
    def shares(self) -> FileShares:
        """Fair shares."""
        if self._shares is None:
            self._shares = FileShares(self.connection, self.flush)
        return self._shares

    @property
    def metering(self) -> Metering:
        """What was spent of rate keys."""
        if self._meters is None:
            self._meters = Metering(self.connection, self.rule, self.now)
        return self._meters

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────

    def uses(self, job: Row) -> Sequence[Use]:
        return job.uses if isinstance(job, Candidate) else self.book.uses(job.task, job.queue, job.uses)

    def claimable(self, row: Values) -> Candidate:
        """A ready job, as `claimable` finds it."""
        return Candidate(row, self.book.uses, None, row[16])

    def _waiter(self, row: Values) -> Candidate:
        """A waiting job, as `waiters` finds it."""
        return Candidate(row, self.book.uses, row[16], None)

    def _waiters(self, read: Callable[[], Iterable[Values]]) -> list[Candidate]:
        """The waiters that `read` finds. A job whose row cannot be read is ended, and the line is read again."""
        while True:
            found: list[Candidate] = []
            garbled: list[int] = []
            for row in read():
                try:
                    found.append(self._waiter(row))
                except GARBLED:
                    garbled.append(row[0])
            if not garbled:
                return found
            for seq in garbled:
                self.mend(seq)

    def count_held(self, keys: Iterable[str]) -> None:
        """Read the counts of keys that are about to be asked for, in one go."""
        unknown = [key for key in keys if key not in self._held and not is_rate(key)]
        if unknown:
            self.write_decided()
            self._held.update(self.execute(sql("held"), (to_json(unknown),)))

    def adopt(self, key: str, task: str | None, queue: str | None) -> None:
        """Running jobs of a task or queue become holders of its new cap."""
        self.flush()
        self.execute(sql("adopt"), (key, self.now, task, queue))
        self._recount([key])

    def holds(self, key: str, job: Row) -> int:
        return self._reservations(job).get(key, 0) if self._may_reserve(job) else 0

    def meter(self, key: str, /) -> Meter:
        return self.metering.meter(key)

    def offered(self, key: str, queue: str) -> int:
        if (key, queue) not in self._offered:
            self.count_offered([(key, queue)])
        return self._offered[key, queue]

    def count_offered(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Read the offers of keys that are about to be asked for, in one go."""
        unknown = [pair for pair in pairs if pair not in self._offered]
        if unknown:
            self.flush()
            for key, queue, units in self.execute(sql("offered"), (to_json(unknown),)):
                self._offered[key, queue] = units

    def has_waiters(self, key: str, queue: str) -> bool:
        if (key, queue) not in self._waited:
            self._waited[key, queue] = bool(self.waiters(key, queue, 1))
        return self._waited[key, queue]

    def expect(self, keys: Collection[str]) -> None:
        self.flush()
        bindings = (to_json(list(keys)),)
        counts: dict[tuple[str, str], tuple[int, int]] = {}

        def read() -> Iterable[Values]:
            for found in self.execute(sql("waited_for"), bindings).fetchall():
                row = type(found)(found[2:])  # a GarbledRow stays one
                counts[row[16], row[3]] = found[0], found[1]
                yield row

        heads = self._waiters(read)
        self._queues = {key: [] for key in keys}
        self._heads.clear()
        for head in heads:
            key, place = head.row[16], (head.row[16], head.queue)
            self._queues[key].append(head.queue)
            self._heads[place] = head
            self._offered[place], self._held[key] = counts[place]

    def queues_waiting(self, key: str) -> Sequence[str]:
        return self._queues[key]

    def waiters(self, key: str, queue: str, most: int) -> Sequence[Candidate]:
        if key in self._stale or self._new or self._changed:
            self.flush()
        elif most == 1 and (key, queue) in self._heads:
            return [self._heads[key, queue]]
        return self._waiters(lambda: self.execute(sql("waiters"), (key, queue, most)).fetchall())

    # ── those that wait already ──────────────────────────────────────────────────────────────────────────────────

    def count_waiting(self, key: str, most: int) -> int:
        return self.crowd.waiting.up_to(key, most)

    def count_pending(self, queue: str, most: int) -> int:
        return self.crowd.backlog.up_to(queue, most)

    def all_waiting(self, key: str, most: int) -> Sequence[FileJob]:
        return self.crowd.all_waiting(key, most)

    def last_in_line(self, key: str) -> FileJob | None:
        return self.crowd.first("last_in_line", key)

    def last_pending(self, queue: str) -> FileJob | None:
        return self.crowd.first("last_in_backlog", queue)

    def longest_running(self, key: str) -> FileJob | None:
        return self.crowd.first("longest_running", key)

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, key: str, job: Row, units: int, *, reserved: bool) -> None:
        if job.refusals is None or not self.holds(key, job):
            self._held[key] += units
        if units == 1:
            self._takes.append((key, job.seq, int(reserved)))
        else:
            self._sized.append((key, job.seq, int(reserved), units, self.now))
        self._pending = True

    def spend(self, key: str, pace: Pace, units: int, job: Row) -> None:
        meter = self.metering.spend(key, pace, units)
        if pace.estimated:
            spending = Spending(units, self.now, meter.mark(self.now))
            self._spendings.setdefault(job.seq, {})[key] = spending
        self._pending = True

    def correct(self, key: str, pace: Pace, spent: Spending, units: int) -> None:
        self.metering.change(key, pace, lambda meter: meter.correct(pace, spent, units, self.now))
        self._pending = True

    def close(self, key: str, pace: Pace, until: int) -> None:
        self.metering.change(key, pace, lambda meter: meter.close(pace, until, self.now))
        self._pending = True

    def drop(self, jobs: Sequence[Row]) -> Iterable[str]:
        self.flush()
        rows = [
            (key, job.seq)
            for job in jobs
            for key in (job.keys if isinstance(job, EndedAttempt) else self._may_hold(job))
        ]
        if len(rows) > FEW:
            self.execute(sql("drop"), (to_json(rows),))
        elif rows:
            self.executemany(sql("drop_one"), rows)
        keys = {key: None for key, _ in rows}
        self._recount(keys)
        return keys

    def drop_except(self, job: Row, keep: Sequence[str]) -> Iterable[str]:
        if not self._may_reserve(job):
            return ()
        gone = [key for key in self._reservations(job) if key not in keep]
        for key in gone:
            self.drop_reservation(key, job.seq)
        return gone

    def drop_reservation(self, key: str, seq: int) -> None:
        """One reservation ends."""
        self.execute(sql("drop_one"), (key, seq))
        self._recount([key])

    def start(self, job: Row) -> None:
        assert isinstance(job, Candidate)
        if job.offered_by is not None:
            self.take_offer_back(job)
        if self._offers:
            self._offers.pop(job.seq, None)
        if job.extras & AT_START:
            self._start_with_extras(job)
        else:
            self._starts.append(job.seq)
        self.claimed[job.id] = Claim(job.seq, job.uses, self.book.terms, job.extras)
        self._pending = True
        self.started.append(job.attempt(self.now))
        self.readied.pop(job.id, None)

    def make_ready(self, job: Row, offered_by: str | None, units: int) -> None:
        waited_on = job.waiting_on
        if (offered_by, job.queue) in self._offered:
            self._offered[offered_by, job.queue] += units
        self.readied[job.id] = job.queue
        self.suspected |= job.suspicion > 0
        if job.refusals is not None:
            self._limit_reservations(job, self.now + self.settings.reservation_ttl)
        if isinstance(job, FileJob):
            job.state, job.waiting_on, job.offered_by, job.units = JobState.READY, None, offered_by, units
            if job.queue in self.book.bounded:
                self._join_backlog(job)
            if job.seq:
                self.save(job)
            self.filled.add(job.queue)
        else:
            assert isinstance(job, Candidate)
            job.waiting_on, job.offered_by, job.units = None, offered_by, units
            self._offers[job.seq] = job
        if waited_on is not None:
            self.leave_line(waited_on, job.queue)

    def park(self, job: Row, on: Use, refusals: int) -> None:
        self.take_offer_back(job)
        self._limit_reservations(job, None)
        if isinstance(job, FileJob):
            job.state, job.waiting_on, job.offered_by = JobState.WAITING, on.key, None
            job.units, job.refusals, job.set_aside = on.units, refusals, 0
            if job.queue in self.book.bounded:
                self._join_backlog(job)
            self.save(job)
        else:
            self._offers.pop(job.seq, None)
            self._parked.append((job.seq, on.key, on.units, refusals))
            self._pending = True
        if self._crowd is not None:
            self._crowd.waiting.one_more(on.key)
        self._stale.add(on.key)
        self._heads.pop((on.key, job.queue), None)
        self._waited[on.key, job.queue] = True

    def _join_backlog(self, job: FileJob) -> None:
        """A job has arrived in a queue whose backlog is bounded."""
        job.extras |= AT_START
        self._plain = False
        self.crowd.backlog.one_more(job.queue)

    def leave_backlog(self, queue: str) -> None:
        """A job may be ready or waiting no longer."""
        if self._crowd is not None:
            self._crowd.backlog.forget(queue)

    def _start_with_extras(self, job: Candidate) -> None:
        self._starts_with_extras.append(job.seq)
        self.leave_backlog(job.queue)
        if job.tag:
            self.shares.advance(job.queue, job.priority, job.tag)

    def forget(self, queue: str, keys: Iterable[str]) -> None:
        """Jobs of these keys were changed past the ledger."""
        for key in keys:
            self._offered.pop((key, queue), None)
            self._held.pop(key, None)
            self.leave_line(key, queue)

    def leave_line(self, key: str, queue: str) -> None:
        """A job stops waiting on a key."""
        if self._crowd is not None:
            self._crowd.waiting.forget(key)
        self._stale.add(key)
        self._heads.pop((key, queue), None)
        self._waited.pop((key, queue), None)

    def set_aside(self, job: Row) -> None:
        self.flush()
        self.take_offer_back(job)
        self._aside.append(job.seq)
        self._pending = True

    def keep_for_thread(self, job: Row) -> None:
        assert isinstance(job, Candidate)
        if not job.set_aside:
            if job.seq in self._offers:
                self.flush()
            self._kept.append(job.seq)
            self._pending = True

    def arm(self, key: str, at: int | None) -> None:
        if at is None:
            self.execute(sql("disarm"), (key,))
        else:
            self.execute(sql("arm"), (key, at))

    # ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def retag(self, queue: str, share: str, old: int, new: int) -> bool:
        """A share's ready and waiting jobs are tagged anew; returns whether some are left for sweeps."""
        left = self.shares.retag(queue, share, old, new)
        self._heads.clear()
        return left

    def go_on_tagging(self, slice: Slice) -> None:
        """The next of those that were left."""
        self.shares.go_on(slice)
        self._heads.clear()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, job: FileJob) -> None:
        """A new job: inserted in whatever state it has when the transaction writes."""
        self._new.append(job)
        if job.extras:
            self._plain = False
        self._pending = True

    def add_changed(self) -> None:
        """New jobs are written now, since one of them changes in a way that only `save` writes."""
        self._plain = False
        self.flush()

    def save(self, job: FileJob) -> None:
        """A job whose fields have changed."""
        if job.seq:
            self._changed[job.seq] = job
            self._pending = True

    def offered_now(self) -> Iterable[tuple[str, list[Candidate]]]:
        """The jobs that this transaction has offered and not yet written, by queue."""
        queues: dict[str, list[Candidate]] = {}
        for job in self._offers.values():
            queues.setdefault(job.queue, []).append(job)
        return queues.items()

    def flush(self) -> None:
        """Write everything."""
        self.write_decided()
        if self._offers:
            rows = [(job.seq, job.offered_by, job.units) for job in self._offers.values()]
            self.execute(sql("make_ready"), (to_json(rows),))
            self.filled.update(job.queue for job in self._offers.values())
            self._offers.clear()
        self._stale.clear()

    def write_decided(self) -> None:
        """Write everything but the offers of this transaction."""
        if not self._pending:
            return
        self._pending = False
        if self._changed:  # before the new ones: a replaced job frees its unique key
            self.executemany(sql("save_job"), [saved(job) for job in self._changed.values()])
            for job in self._changed.values():
                if job.extras:
                    self.execute(sql("save_extras"), (*extras(job, self.book.bounded), job.seq))
            self._changed.clear()
        if self._new:
            self._insert()
        if 0 < len(self._starts) <= FEW:
            self.execute(listed("start_few", len(self._starts)), (self.claimer, self.now, *self._starts))
            self._starts.clear()
        if 0 < len(self._takes) <= FEW:
            self.executemany(sql("take_few"), [(*take, self.now) for take in self._takes])
            self._takes.clear()
        self._write_many("start", self._starts, self.claimer, self.now)
        self._write_extras()
        self._write_many("take", self._takes, self.now)
        self._write_many("park", self._parked)
        self._write_many("set_aside", self._aside)
        self._write_many("keep_for_thread", self._kept)
        if self._meters is not None:
            self._meters.write()

    def _write_extras(self) -> None:
        """What few of the started jobs have; rarely any."""
        if self._starts_with_extras:
            self._write_many("start_with_extras", self._starts_with_extras, self.claimer, self.now)
            if self._shares is not None:
                self._shares.write()
        if self._sized:
            self.executemany(sql("take_sized"), self._sized)
            self._sized.clear()
        if self._spendings:
            rows = [(seq, to_json(spent)) for seq, spent in self._spendings.items()]
            self.executemany(sql("put_spent"), rows)
            self._spendings.clear()

    def _insert(self) -> None:
        """New jobs get consecutive numbers: no other connection inserts within the transaction."""
        if self._plain:
            self.write_rows("insert_job", [inserted(job) for job in self._new])
        else:
            bounded = self.book.bounded
            rows = [inserted_with_extras(job, bounded) for job in self._new]
            self.write_rows("insert_with_extras", rows)
            self._plain = True
        first = self.connection.last_insert_rowid() - len(self._new) + 1
        for seq, job in enumerate(self._new, first):
            job.seq = seq
        self._new.clear()

    def write_rows(
        self, statement: str, rows: Sequence[Values], common: Values = (), *, one: str | None = None
    ) -> None:
        """Run a statement with `VALUES` over rows, TOGETHER at a time; `common` are the parameters before these. What
        is left is written row by row, by `one` if that is quicker."""
        whole = len(rows) - len(rows) % TOGETHER
        for at in range(0, whole, TOGETHER):
            bindings = (*common, *chain.from_iterable(rows[at : at + TOGETHER]))
            self.execute(of_rows(statement, TOGETHER), bindings)
        if whole < len(rows):
            self.executemany(sql(one or statement), [(*common, *row) for row in rows[whole:]])

    def _write_many(self, statement: str, rows: list[Any], *more: object) -> None:
        if rows:
            self.execute(sql(statement), (to_json(rows), *more))
            rows.clear()

    # ── keeping the counts in accord ──────────────────────────────────────────────────────────────────────────────────

    def _recount(self, keys: Iterable[str]) -> None:
        """Holders of keys were written past the counts."""
        for key in keys:
            self._held.pop(key, None)

    def take_offer_back(self, job: Row) -> None:
        """A ready job leaves: what its key promised it is free again."""
        if job.offered_by is not None and (job.offered_by, job.queue) in self._offered:
            self._offered[job.offered_by, job.queue] -= job.units

    # ── reservations (rule 7) ──────────────────────────────────────────────────────────────────────────

    def _may_hold(self, job: Row) -> Sequence[str]:
        return self.book.may_hold(job.task, job.queue, job.uses)

    def _may_reserve(self, job: Row) -> bool:
        """Only jobs that were refused often enough can hold anything while they wait."""
        return job.refusals is not None and job.refusals >= self.reserving

    def _reservations(self, job: Row) -> dict[str, int]:
        if self._takes or self._sized:
            self.flush()
        return dict(self.execute(sql("reservations"), (job.seq, to_json(self._may_hold(job)))).fetchall())

    def _limit_reservations(self, job: Row, expires_at: int | None) -> None:
        if job.seq and self._may_reserve(job):
            if self._takes or self._sized:
                self.flush()
            self.execute(sql("limit_reservations"), (job.seq, to_json(self._may_hold(job)), expires_at))
