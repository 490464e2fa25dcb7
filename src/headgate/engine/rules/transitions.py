"""The transitions of a job: how enqueue, reports, cancel, restart, import and limit changes alter what is stored.

Engines whose transactions are in Python inherit these and add the storage: a handful of primitives at the end of the
page. Every move goes through admission (rule 10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, assert_never

import msgspec

from headgate.engine.contract import (
    Enqueued,
    ImportedJob,
    ImportResult,
    Known,
    Limit,
    Lost,
    LostJob,
    NewArguments,
    Outcome,
    Override,
    Released,
    Settings,
)
from headgate.engine.rules.admission import Admission, Cap
from headgate.engine.rules.blame import blame, died_by
from headgate.engine.rules.in_force import RuleBook, Scope, gives_room
from headgate.engine.rules.lifecycle import Again, End, Existing, Taken, expires_at, lose, settle, take_import
from headgate.engine.rules.stored import Stored
from headgate.errors import HeadgateError, JobExists
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Key

INNOCENT = {"suspicion": 0, "lost": 0, "lost_after": 0}
"""An attempt that came to an end of its own clears its job."""


class Transitions(ABC):
    """One transaction. Lives between a verb's first look and its commit; nothing else changes the store meanwhile.

    `ended` and `call_workers` say afterwards what to wake: waiters for results, sleeping workers.
    """

    def __init__(self, admission: Admission[Any], book: RuleBook, settings: Settings, now: int) -> None:
        self.admission = admission
        self.book = book
        self.settings = settings
        self.now = now
        self.ended = False
        self.call_workers = False

    # ── a job comes ──────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store new jobs, all or none (what is raised undoes the transaction)."""
        taken = self.existing([spec.id for spec in jobs])
        for spec in jobs:
            if spec.id in taken:
                raise JobExists(f"a job with id {spec.id!r} exists already; nothing was enqueued", spec.id)
            taken.add(spec.id)
            self.book.check_uses(spec.uses)
        return [self._enqueue(spec) for spec in jobs]

    def _enqueue(self, spec: NewJob) -> Enqueued:
        if (rival := self._rival(spec)) is not None:
            return Enqueued(rival.id, rival.state, False)
        due = spec.at if spec.at is not None else self.now + spec.delay
        job = self.add(spec, self.now, due)
        self.come(job)
        return Enqueued(job.id, job.state, True)

    def _rival(self, spec: NewJob) -> Stored | None:
        rival = self.rival(spec.tenant, spec.unique) if spec.unique is not None else None
        if rival is None or spec.on_conflict == "return":
            return rival
        if spec.on_conflict == "raise" or rival.state is JobState.RUNNING:
            raise JobExists(f"job {rival.id!r} with unique key {spec.unique!r} is {rival.state}", rival.id)
        self.cancel_pending(rival)
        return None

    def come(self, job: Stored) -> None:
        """A scheduled job arrives if it is due; else a worker must learn when it will be."""
        if job.due <= self.now:
            self.admission.arrive(job)
        else:
            self.call_workers = True

    # ── an attempt ends ──────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, job: Stored, outcome: Outcome) -> None:
        """A worker's report ends the attempt."""
        self._close(job, settle(job, outcome, self.now))

    def release(self, job: Stored) -> None:
        """The worker retires and gives the job back."""
        self.settle(job, Released(job.id, job.attempt))

    def lose(self, jobs: Sequence[Stored], seen: int, lease: int) -> Lost:
        """A lost worker's attempts end: all of them together, since blame compares them. The worker was last `seen`
        alive when it renewed its lease."""
        failed: list[LostJob] = []
        for job, blamed in zip(jobs, blame(jobs, seen, died_by(seen, lease, self.now)), strict=True):
            verdict = lose(job, blamed, self.now)
            if isinstance(verdict, End) and verdict.state is JobState.FAILED:
                failed.append(LostJob(job.id, job.task, verdict.error or ""))
            self.change(job, suspicion=blamed.suspicion, lost=blamed.lost, lost_after=blamed.lost_after)
            self._close(job, verdict)
        return Lost(len(jobs), tuple(failed))

    def take_back(self, jobs: Sequence[Stored], known: Collection[Known]) -> int:
        """Release what a worker does not know that it runs; returns how many that were."""
        unknown = [job for job in jobs if (job.id, job.attempt) not in known]
        for job in unknown:
            self.release(job)
        return len(unknown)

    def _close(self, job: Stored, verdict: End | Again) -> None:
        self.admission.give_back([job])
        match verdict:
            case End():
                self.end(
                    job, verdict.state, outcome=verdict.outcome, error=verdict.error, result=verdict.result
                )
            case Again():
                self._return(job, verdict)
            case _:
                assert_never(verdict)

    def _return(self, job: Stored, verdict: Again) -> None:
        assert job.started_at is not None
        past = PastAttempt(
            job.attempt, verdict.outcome, job.started_at, self.now, job.worker or "", verdict.error
        )
        self.change(
            job, state=JobState.SCHEDULED, due=verdict.due, attempts=(*job.attempts, past), worker=None,
            started_at=None, error=verdict.error, tries=job.tries - (not verdict.counts), refusals=None,
            **({} if verdict.outcome in ("lost", "released") else INNOCENT),
        )  # fmt: skip
        self.come(job)

    def end(self, job: Stored, state: JobState, **fields: object) -> None:
        """The job ends; what it held was given back before."""
        expiry = expires_at(state, job.spec.retention, self.settings, self.now)
        self.change(
            job, state=state, ended_at=self.now, expires_at=expiry, waiting_on=None, offered_by=None, units=0,
            set_aside=0, **fields,
        )  # fmt: skip
        self.ended = True

    # ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self, job: Stored) -> None:
        """A running job is asked to stop, any other ends now."""
        if job.state is JobState.RUNNING:
            self.change(job, cancel_requested=True)
            self.call_workers = True
        else:
            self.cancel_pending(job)

    def cancel_pending(self, job: Stored) -> None:
        """A scheduled, ready or waiting job ends as cancelled; its place in line passes on."""
        self.admission.give_back([job])
        self.end(job, JobState.CANCELLED, outcome=None)

    def restart(self, job: Stored, arguments: NewArguments | None = None) -> None:
        """An ended job arrives anew, with fresh retries, without suspicion, and with other arguments where some are
        given."""
        if arguments is not None:
            spec = msgspec.structs.replace(job.spec, args=arguments.args, uses=arguments.uses)
            self.change(job, spec=spec, uses=spec.uses)
        self.change(
            job, state=JobState.SCHEDULED, due=self.now, attempts=job.history(), tries=0, worker=None, started_at=None,
            ended_at=None, outcome=None, error=None, result=None, expires_at=None, cancel_requested=False,
            refusals=None, **INNOCENT,
        )  # fmt: skip
        self.come(job)

    def may_restart(self, job: Stored) -> bool:
        """A restart must not make a second unfinished job of one unique key."""
        return job.spec.unique is None or self.rival(job.tenant, job.spec.unique) is None

    def expedite(self, job: Stored) -> None:
        """A scheduled job is due now."""
        self.change(job, due=self.now)
        self.come(job)

    # ── limits change ────────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, limits: Sequence[Limit]) -> None:
        """Write what differs; waiters of the name may have room now."""
        for limit in limits:
            self.book.check_kind(limit)
            if self.book.limits.get(limit.name) != limit:
                scope = (limit.name, None, None)
                before = self.book.cap_of(scope)
                self.put_limit(limit)
                self._rules_changed(scope, before)

    def set_override(self, scope: Scope, override: Override | None) -> None:
        """An operator's word comes into force, or is taken back."""
        before = self.book.cap_of(scope)
        self.put_override(scope, override)
        self._rules_changed(scope, before)

    def compute(self, key: str, number: int) -> None:
        """A floating limit's number for one key."""
        self.put_computed(key, number)
        self.book.changed()
        self.admission.touch(key)

    def _rules_changed(self, scope: Scope, before: Cap | None) -> None:
        """A limit's numbers changed: look at the keys in scope that are waited for, unless none of them can have gained
        room. A cap counts what runs already."""
        self.book.changed()
        name = scope[0]
        kind, _, what = name.partition(":")
        if kind in ("task", "queue") and self.book.is_cap(Key(name)):
            self.adopt(Key(name).ident, **{kind: what})
        if gives_room(before, self.book.cap_of(scope)):
            for key in self.keys_waiting(scope):
                self.admission.touch(key)

    # ── a job is taken over ──────────────────────────────────────────────────────────────────────────────────────

    def take_over(self, record: ImportedJob) -> ImportResult:
        """Import or re-import one record; a refusal changes nothing and says why."""
        try:
            self.book.check_uses(record.job.uses)
        except HeadgateError as error:
            return ImportResult(record.job.id, None, str(error))
        job = self._take_over(record)
        if isinstance(job, str):
            existing = self.job(record.job.id)
            return ImportResult(record.job.id, existing and existing.state, job)
        return ImportResult(job.id, job.state)

    def _take_over(self, record: ImportedJob) -> Stored | str:
        job = self.job(record.job.id)
        existing = None if job is None else Existing(job.state, job.history(), job.due)
        taken = take_import(record, existing, self.now)
        if isinstance(taken, str):
            return taken
        if job is None or job.state.ended:
            unique = record.job.unique if job is None else job.spec.unique
            tenant = record.job.tenant if job is None else job.tenant
            rival = self.rival(tenant, unique) if unique is not None else None
            if rival is not None and not taken.state.ended:
                return f"job {rival.id!r} with unique key {unique!r} is {rival.state}"
        if job is None:
            enqueued_at = record.enqueued_at if record.enqueued_at is not None else self.now
            job = self.add(record.job, enqueued_at, taken.due)
        elif not job.state.ended:
            self.admission.give_back([job])
        self._write_import(job, record, taken)
        return job

    def _write_import(self, job: Stored, record: ImportedJob, taken: Taken) -> None:
        last = taken.attempts[-1] if taken.attempts else None
        fields = {
            "retry": record.job.retry, "tries": taken.tries, "attempt": len(taken.attempts), "waiting_on": None,
            "offered_by": None, "units": 0, "set_aside": 0, "refusals": None, "cancel_requested": False,
            "error": last and last.error, "result": None,
        }  # fmt: skip
        if taken.state.ended and last is not None:
            expiry = expires_at(taken.state, job.spec.retention, self.settings, self.now)
            self.change(
                job, state=taken.state, attempts=taken.attempts[:-1], worker=last.worker, started_at=last.started_at,
                ended_at=last.ended_at, outcome=last.outcome, expires_at=expiry, **fields,
            )  # fmt: skip
            self.ended = True
            return
        self.change(
            job, state=JobState.SCHEDULED, due=taken.due, attempts=taken.attempts, worker=None, started_at=None,
            ended_at=None, outcome=None, expires_at=None, **fields,
        )  # fmt: skip
        self.come(job)

    # ── what a store provides ────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def job(self, id: str) -> Stored | None:
        """The job with this id."""

    @abstractmethod
    def existing(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are taken."""

    @abstractmethod
    def rival(self, tenant: str, unique: str) -> Stored | None:
        """The unfinished job with this unique key."""

    @abstractmethod
    def add(self, spec: NewJob, enqueued_at: int, due: int) -> Stored:
        """Store a new job, scheduled."""

    @abstractmethod
    def change(self, job: Stored, **fields: Any) -> None:
        """Set fields of a stored job."""

    @abstractmethod
    def remove(self, job: Stored) -> None:
        """An ended job is gone."""

    @abstractmethod
    def last_tick(self, name: str) -> int | None:
        """When a periodic task last ticked."""

    @abstractmethod
    def put_tick(self, name: str, at: int) -> None:
        """Write that it ticked."""

    @abstractmethod
    def schedule_paused(self, name: str) -> bool:
        """Whether a periodic task is paused."""

    @abstractmethod
    def put_schedule_paused(self, name: str, *, paused: bool) -> None:
        """Write whether it is."""

    @abstractmethod
    def adopt(self, key: str, *, task: str | None = None, queue: str | None = None) -> None:
        """Record the running jobs of a task or queue as holders of its cap, where they are not yet."""

    @abstractmethod
    def keys_waiting(self, scope: Scope) -> Iterable[str]:
        """The keys in a scope that have waiters, a first part of them if there are too many for one transaction."""

    @abstractmethod
    def put_limit(self, limit: Limit) -> None:
        """Write a declared limit, in the store and in the book."""

    @abstractmethod
    def put_override(self, scope: Scope, override: Override | None) -> None:
        """Write or delete an override, in the store and in the book."""

    @abstractmethod
    def put_computed(self, key: str, number: int) -> None:
        """Write a floating limit's number for one key, in the store and in the book."""
