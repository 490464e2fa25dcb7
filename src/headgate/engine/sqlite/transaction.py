"""One atomic transaction of the SQLite engine: the transitions over its tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headgate.engine.contract import (
    Done,
    Enqueued,
    ImportedJob,
    ImportResult,
    KeyNumbers,
    Limit,
    Lost,
    Override,
    Settings,
    ShareWeight,
)
from headgate.engine.rules.admission import Admission, Gate
from headgate.engine.rules.history import Pair, minute_of, numbers_of, row_for
from headgate.engine.rules.in_force import Scope
from headgate.engine.rules.lifecycle import expires_at
from headgate.engine.rules.shares import Mean
from headgate.engine.rules.stored import Stored
from headgate.engine.rules.transitions import Transitions
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.garbled import shown_row
from headgate.engine.sqlite.key_ranges import keys_of, parsed
from headgate.engine.sqlite.ledger import Claim, Row, SqliteLedger
from headgate.engine.sqlite.rows import Candidate, FileJob, Unreadable, stored, to_json
from headgate.engine.sqlite.rule_book import FileBook
from headgate.engine.sqlite.sharing import Slice
from headgate.engine.sqlite.statements import sql
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Key

log = logging.getLogger("headgate.engine")

SLICE = 200
"""Waited-for keys of a changed limit that one transaction looks at; other transactions run in between."""
MARKED = 10_000
"""Rows of jobs among which one transaction looks for the backlog of a queue."""
EXTRAS = frozenset({"spec", "start_by"})
"""Fields that say whether a job has extras."""
Claims = dict[str, Claim]
"""The jobs that a worker has claimed, by id."""


class Transaction(Transitions):
    """The transitions, stored in a file. Runs inside a transaction that its caller commits."""

    book: FileBook

    def __init__(self, connection: Connection, book: FileBook, settings: Settings, now: int) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.ledger = SqliteLedger(connection, book, settings, now)
        self.ledger.mend = self.end_garbled
        self.ledger.readable = self._readable_job
        self.garbled_keys: list[bytes] = []
        # Not Admission[Row](…): calling through the alias takes a microsecond, of each enqueue and exchange.
        admission: Admission[Row] = Admission(self.ledger, now, settings.patience)
        super().__init__(admission, book, settings, now)

    def finish(self) -> int:
        """The last thing in a transaction: waiters of touched keys are offered their room, and all is written."""
        offered = 0
        while self.admission.touched:
            offered += self.admission.offer()
        self.ledger.flush()
        return offered

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(self, jobs: Sequence[NewJob], *, entering: bool = True) -> list[Enqueued]:
        self.count_for(jobs)
        return super().enqueue(jobs, entering=entering)

    def count_for(self, jobs: Sequence[NewJob | Stored]) -> None:
        """Read what the arrival of these jobs will ask for, in three statements."""
        kinds = {(job.task, job.queue, job.uses) for job in jobs}
        used = {(use.key, queue) for task, queue, own in kinds for use in self.book.uses(task, queue, own)}
        if used:
            self.ledger.count_held({key for key, _ in used})
            self.ledger.count_offered(used)
        if len(jobs) > 1:
            self._expect_tags(jobs)

    def _expect_tags(self, jobs: Iterable[NewJob | Stored]) -> None:
        specs = [job if isinstance(job, NewJob) else job.spec for job in jobs]
        lines = {(spec.queue, spec.priority, spec.share) for spec in specs if spec.share is not None}
        if lines:
            self.ledger.shares.expect(lines)

    def come(self, job: Stored, *, entering: bool = False, returning: bool = False) -> None:
        """A newcomer stands behind those that wait already, also where these have not been looked at yet since their
        limit was changed."""
        if self.book.unsettled:
            for use in self.ledger.uses(job):
                if Key.of(use.key).name in self.book.unsettled:
                    self.admission.touch(use.key)
        Transitions.come(self, job, entering=entering, returning=returning)

    def job(self, id: str) -> FileJob | None:
        self.ledger.flush()
        return self._readable(self.look("job_by_id", id))

    def jobs_by_seq(self, rows: Iterable[tuple[Any, ...]]) -> list[FileJob]:
        """Jobs by number, without those that cannot be read: these have ended now."""
        found = [self._readable_job(row[0]) for row in rows]
        return [job for job in found if job is not None]

    def _readable_job(self, seq: int) -> FileJob | None:
        job = self._readable(self.look("job_by_seq", seq))
        return None if isinstance(job, Unreadable) else job

    def existing(self, ids: Sequence[str]) -> set[str]:
        self.ledger.flush()
        if len(ids) == 1:
            return set() if self.execute(sql("seq_of"), ids).get is None else set(ids)
        return {id for (id,) in self.execute(sql("existing"), (to_json(ids),))}

    def rival(self, tenant: str, unique: str) -> FileJob | None:
        self.ledger.flush()
        found = self._readable(self.look("rival", tenant, unique))
        return None if isinstance(found, Unreadable) else found

    def look(self, statement: str, *bindings: object) -> FileJob | None:
        """A job as it is stored; changes nothing."""
        rows = self.execute(sql(statement), bindings).fetchall()
        return stored(rows[0], self.attempts_of(rows[0][0])) if rows else None

    # ── rows that cannot be read ─────────────────────────────────────────────────────────────────────────────────

    def _readable(self, job: FileJob | None) -> FileJob | None:
        """End the job now if its row makes no sense, before anything is decided about it."""
        if isinstance(job, Unreadable) and job.unfinished:
            self._end_unreadable(job)
        return job

    def end_garbled(self, seq: int) -> None:
        """The row with this number was found not to be readable."""
        self._readable(self.look("job_by_seq", seq))

    def _end_unreadable(self, job: Unreadable) -> None:
        """As failed. What it holds is found by looking at every holder record, since its keys are not known."""
        self.ledger.flush()
        held = [key for (key,) in self.execute(sql("drop_all"), (job.seq,)).fetchall()]
        keys = [key for key in (*held, job.offered_by, job.waiting_on) if key is not None and parsed(key)]
        self.ledger.forget(job.queue, keys)
        for key in keys:
            self.admission.touch(key)
        expiry = expires_at(JobState.FAILED, None, self.settings, self.now)
        self.execute(sql("end_unreadable"), (job.seq, job.why, self.now, expiry, job.new_id))
        job.id = job.new_id or job.id
        job.unfinished, job.ended_at, job.expires_at = False, self.now, expiry
        job.waiting_on = job.offered_by = job.worker = None
        self.ended = True
        log.error("job %r has failed: %s", job.id, job.why)

    def attempts_of(self, seq: int) -> tuple[PastAttempt, ...]:
        """The attempts that did not end their job."""
        return tuple(PastAttempt(*shown_row(row)) for row in self.execute(sql("attempts"), (seq,)))

    def add(self, spec: NewJob, enqueued_at: int, due: int) -> FileJob:
        job = FileJob(spec, 0, enqueued_at, due)
        job.extras = job.wanted()
        self.ledger.add(job)
        return job

    def cancel_pending(self, job: Stored | Candidate, reason: str | None = None) -> None:
        """Also of a job that a claim has met, of which less is known."""
        if isinstance(job, Candidate):
            self.ledger.flush()
            found = self._readable_job(job.seq)
            if found is None:
                return
            job = found
        super().cancel_pending(job, reason)

    def change(self, job: Stored, **fields: Any) -> None:
        assert isinstance(job, FileJob)
        if "offered_by" in fields:
            self.ledger.take_offer_back(job)
        if job.waiting_on is not None and "waiting_on" in fields:
            self.ledger.leave_line(job.waiting_on, job.queue)
        ended = fields.get("attempts", ())[len(job.attempts) :]
        if (spec := fields.get("spec")) is not None:
            uses = to_json(spec.uses) if spec.uses else None
            given = (job.seq, spec.args, uses, spec.metadata, spec.headers, spec.share)
            self.execute(sql("save_arguments"), given)
        if "state" in fields:
            self._leaves_lines(job)
        for name, value in fields.items():
            setattr(job, name, value)
        if not EXTRAS.isdisjoint(fields):
            job.extras |= (
                job.wanted()
            )  # what it asked for once is not taken back: it costs a statement, no more
        if not job.seq:  # inserted first, in its new state, without the fields that only `save` writes
            self.ledger.add_changed()
        if "spent" in fields:
            self.execute(sql("put_spent"), (job.seq, to_json(job.spent) if job.spent else None))
        for attempt in ended:
            self._remember(job, attempt)
        self.ledger.save(job)

    def put_tag(self, job: Stored, share: str, tag: int) -> None:
        assert isinstance(job, FileJob)
        job.tag = tag
        self.ledger.shares.tagged(job.queue, job.priority, share, tag)
        self.ledger.save(job)

    def _leaves_lines(self, job: FileJob) -> None:
        if job.spec.share is not None:
            self.ledger.shares.forget_last(job.queue, job.priority, job.spec.share)
        self.ledger.leave_backlog(job.queue)

    def _remember(self, job: Stored, attempt: PastAttempt) -> None:
        row = (
            attempt.number,
            attempt.outcome,
            attempt.started_at,
            attempt.ended_at,
            attempt.worker,
            attempt.error,
        )
        self.execute(sql("add_attempt"), (job.seq, *row))

    def remove(self, job: Stored) -> None:
        """An ended job is gone."""
        self.ledger.flush()
        self.remove_seq(job.seq)

    def may_restart(self, job: Stored) -> bool:
        """Not a job whose limits cannot be read."""
        return not isinstance(job, Unreadable) and super().may_restart(job)

    def last_tick(self, name: str) -> int | None:
        return self.execute(sql("tick"), (name,)).get

    def put_tick(self, name: str, at: int) -> None:
        self.execute(sql("put_tick"), (name, at))

    def schedule_paused(self, name: str) -> bool:
        return self.execute(sql("schedule_paused"), (name,)).get is not None

    def put_schedule_paused(self, name: str, *, paused: bool) -> None:
        self.execute(sql("pause_schedule" if paused else "resume_schedule"), (name,))

    def add_done(self, all: Sequence[Done]) -> None:
        """Add to the history."""
        pairs: dict[int, set[Pair]] = {}
        for done in all:
            at = minute_of(done.at)
            there = pairs.get(at)
            if there is None:
                there = pairs[at] = {
                    (queue, task) for queue, task in self.execute(sql("history_pairs"), (at,)).fetchall()
                }
            pair = row_for(done, there)
            there.add(pair)
            self.execute(sql("add_done"), (at, *pair, *numbers_of(done)))

    def remove_seq(self, seq: int) -> None:
        """The same by arrival number."""
        self.execute(sql("delete_attempts"), (seq,))
        self.execute(sql("delete_job"), (seq,))

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    def adopt(self, key: str, *, task: str | None = None, queue: str | None = None) -> None:
        self.ledger.adopt(key, task, queue)

    def keys_waiting(self, scope: Scope) -> Iterable[str]:
        """The first slice; where to go on is written down, and sweeps do: a change of a limit with very many keys
        keeps neither other transactions waiting nor its caller."""
        self.ledger.flush()
        page = keys_of(self.waiting, *scope, most=SLICE)
        if page.rest is not None:
            self.execute(sql("put_unsettled"), (scope[0], page.rest))
            self.book.unsettled |= {scope[0]}
            self.call_workers = True
        return page.keys

    def settle_slice(self) -> bool:
        """Look at the next slice of a changed limit's keys; returns whether more are left."""
        rows = self.execute(sql("unsettled")).fetchall()
        if not rows:
            return False
        name, start = rows[0]
        page = keys_of(self.waiting, name, start=start, most=SLICE)
        for key in page.keys:
            self.admission.touch(key)
        if page.rest is not None:
            self.execute(sql("move_unsettled"), (name, page.rest))
            return True
        self.execute(sql("settled"), (name,))
        self.execute(sql("rules_changed"))
        return len(rows) > 1

    def waiting(self, first: str, below: str | None, most: int) -> list[str]:
        """Keys with waiters, in order."""
        return self._texts("keys_waiting", first, below, most)

    def holding(self, first: str, below: str | None, most: int) -> list[str]:
        """Keys with holders, in order."""
        return self._texts("keys_held", first, below, most)

    def with_number(self, first: str, below: str | None, most: int) -> list[str]:
        """Keys with a number of their own, in order."""
        return self._texts("keys_numbered", first, below, most)

    def _texts(self, statement: str, first: str, below: str | None, most: int) -> list[str]:
        """Keys as a statement finds them; those that are no text are left to a recheck."""
        found: list[str] = []
        start: str | bytes = first
        while len(found) < most or most < 0:
            rows = self.execute(
                sql(statement), (start, below, most - len(found) if most > 0 else most)
            ).fetchall()
            found += [key for (key,) in rows if isinstance(key, str)]
            self.garbled_keys += [key for (key,) in rows if isinstance(key, bytes)]
            if len(found) >= most or not rows or isinstance(rows[-1][0], str):
                break
            start = rows[-1][0] + b"\0"
        return found

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def lose_worker(self, worker: str) -> Lost:
        """A worker is gone: so are its registration and its attempts."""
        self.ledger.flush()
        known = self.execute(sql("seen"), (worker,)).fetchall()
        seen, lease = known[0] if known else (0, 0)
        running = self.jobs_by_seq(self.execute(sql("running_of"), (worker,)).fetchall())
        lost = self.lose(running, seen, lease)
        self.ledger.flush()
        self.execute(sql("forget_worker"), (worker,))
        return lost

    def take_over(self, record: ImportedJob) -> ImportResult:
        job = self.job(record.job.id)
        if isinstance(job, Unreadable):
            return ImportResult(job.id, job.state, f"{job.why}; delete it first")
        return super().take_over(record)

    def put_limit(self, limit: Limit) -> None:
        *kept, _by_job = msgspec.structs.astuple(limit)
        self.execute(sql("put_limit"), kept)
        self.execute(sql("rules_changed"))
        self.book.limits[limit.name] = limit
        before = self.book.bounded
        self.book.find_bounded()
        for queue in self.book.bounded - before:
            self._mark_backlog(queue)

    def _mark_backlog(self, queue: str) -> None:
        """What is ready or waiting in a queue counts from now on. It is looked for in slices of all jobs: the next
        newcomers may find fewer counted than there are."""
        self.ledger.flush()
        end = (self.execute(sql("last_seq")).get or 0) + 1
        self._mark_slice(Slice(0, "mark", queue, 0, "", 0, 0, 0, end, 0))

    def _mark_slice(self, slice: Slice) -> None:
        assert slice.tag is not None
        end = min(slice.seq + MARKED, slice.tag)
        self.execute(sql("mark_backlog"), (slice.queue, slice.seq, end))
        self.ledger.leave_backlog(slice.queue)
        if slice.id and end < slice.tag:
            self.execute(sql("move_slice"), (slice.id, slice.tag, end))
        elif slice.id:
            self.execute(sql("forget_slice"), (slice.id,))
        elif end < slice.tag:
            self.execute(sql("add_slice"), (*slice[1:-1], end))
            self.call_workers = True

    def next_slice(self) -> bool:
        """Go on with what earlier transactions have begun; returns whether more is left."""
        self.ledger.flush()
        rows = self.execute(sql("next_slice")).fetchall()
        if not rows:
            return False
        slice = Slice(*rows[0])
        if slice.kind == "mark":
            self._mark_slice(slice)
        else:
            self.ledger.go_on_tagging(slice)
        return self.execute(sql("next_slice")).get is not None

    def put_override(self, scope: Scope, override: Override | None) -> None:
        self.execute(sql("delete_override"), scope)
        self.book.overrides.pop(scope, None)
        if override is not None:
            o = override
            self.execute(sql("put_override"), (o.name, o.max, o.value, o.tenant, o.by, o.at, o.why, o.until))
            self.book.overrides[scope] = override
        self.execute(sql("rules_changed"))

    def put_numbers(self, key: str, numbers: KeyNumbers) -> None:
        self.execute(sql("put_numbers"), (key, *msgspec.structs.astuple(numbers)))
        self.execute(sql("numbers_changed"))

    def forget_numbers(self, key: str) -> None:
        """The numbers of an idle key."""
        self.execute(sql("forget_numbers"), (key,))
        self.execute(sql("numbers_changed"))
        self.book.changed()

    def put_gate(self, key: str, gate: Gate | None) -> None:
        self.book.gates.pop(key, None)
        if gate is None:
            self.execute(sql("forget_gate"), (key,))
        else:
            self.execute(sql("put_gate"), (key, gate.opens_at, gate.step))
            self.book.gates[key] = gate
        self.execute(sql("numbers_changed"))

    # ── shares ───────────────────────────────────────────────────────────────────────────────────────────────────

    def virtual_time(self, queue: str, priority: int) -> int:
        return self.ledger.shares.virtual_time(queue, priority)

    def last_tag(self, queue: str, priority: int, share: str) -> int:
        return self.ledger.shares.last_tag(queue, priority, share)

    def mean(self, queue: str, share: str) -> Mean | None:
        return self.ledger.shares.mean(queue, share)

    def put_mean(self, queue: str, share: str, mean: Mean) -> None:
        self.ledger.shares.put_mean(queue, share, mean)

    def queues_of_share(self, share: str) -> Iterable[str]:
        return self.ledger.shares.queues_of(share)

    def retag(self, queue: str, share: str, old: int, new: int) -> None:
        self.call_workers |= self.ledger.retag(queue, share, old, new)

    def put_declared_weight(self, weight: ShareWeight) -> None:
        self.execute(sql("declare_weight"), (weight.share, weight.weight))
        self.execute(sql("numbers_changed"))
        self.book.declared_weights[weight.share] = weight

    def put_weight(self, share: str, weight: ShareWeight | None) -> None:
        self.book.weights.pop(share, None)
        if weight is None:
            self.execute(sql("forget_weight"), (share,))
        else:
            self.execute(sql("put_weight"), msgspec.structs.astuple(weight))
            self.book.weights[share] = weight
        self.execute(sql("numbers_changed"))
        self.book.changed()
