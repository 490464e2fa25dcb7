"""One atomic step of the memory engine: the moves that change jobs, each through admission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from headgate.engine.admission import Admission
from headgate.engine.contract import ImportedJob, Limit, Outcome, Override, Released, Settings
from headgate.engine.lifecycle import Again, End, Existing, Taken, expires_at, lose, settle, take_import
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import Store, Stored
from headgate.engine.rulebook import Scope
from headgate.errors import JobExists
from headgate.job import JobState, NewJob, PastAttempt
from headgate.keys import Key


class Step:
    """Lives between a verb's first look and its commit; nobody else sees the store meanwhile."""

    def __init__(self, store: Store, settings: Settings, now: int) -> None:
        self.store = store
        self.settings = settings
        self.now = now
        self.ledger = MemoryLedger(store, now, settings.reservation_ttl)
        self.admission = Admission[Stored](self.ledger, now, settings.patience)
        self.ended = False
        self.call_workers = False

    # ── a job comes ──────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(self, spec: NewJob) -> tuple[Stored, bool]:
        """Store a new job, unless its unique key is taken; says whether it is new."""
        if spec.id in self.store.jobs:
            raise JobExists(f"a job with id {spec.id!r} exists already; nothing was enqueued", spec.id)
        if (rival := self._rival(spec)) is not None:
            return rival, False
        due = spec.at if spec.at is not None else self.now + spec.delay
        job = self._add(spec, self.now, due)
        self.come(job)
        return job, True

    def _rival(self, spec: NewJob) -> Stored | None:
        rival = self.store.unique.get((spec.tenant, spec.unique)) if spec.unique is not None else None
        if rival is None or spec.on_conflict == "return":
            return rival
        if spec.on_conflict == "raise" or rival.state is JobState.RUNNING:
            raise JobExists(f"job {rival.id!r} with unique key {spec.unique!r} is {rival.state}", rival.id)
        self.cancel_pending(rival)
        return None

    def _add(self, spec: NewJob, enqueued_at: int, due: int) -> Stored:
        self.store.arrivals += 1
        job = Stored(spec, self.store.arrivals, enqueued_at, due)
        self.store.add(job)
        return job

    def come(self, job: Stored) -> None:
        """A scheduled job arrives if it is due; else somebody should know when it will be."""
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

    def lose(self, job: Stored) -> None:
        """The worker's lapsed lease ends the attempt."""
        self._close(job, lose(job, self.now))

    def _close(self, job: Stored, verdict: End | Again) -> None:
        self.admission.give_back(job)
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
        self.store.change(
            job, state=JobState.SCHEDULED, due=verdict.due, attempts=(*job.attempts, past), worker=None,
            started_at=None, error=verdict.error, tries=job.tries - (not verdict.counts), refusals=None,
        )  # fmt: skip
        self.come(job)

    def end(self, job: Stored, state: JobState, **fields: object) -> None:
        """The job ends; what it held was given back before."""
        expiry = expires_at(state, job.spec.retention, self.settings, self.now)
        self.store.change(
            job, state=state, ended_at=self.now, expires_at=expiry, waiting_on=None, offered_by=None, units=0,
            set_aside=False, **fields,
        )  # fmt: skip
        self.ended = True

    # ── somebody steers ──────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self, job: Stored) -> None:
        """A running job is asked to stop, any other ends now."""
        if job.state is JobState.RUNNING:
            self.store.change(job, cancel_requested=True)
            self.call_workers = True
        else:
            self.cancel_pending(job)

    def cancel_pending(self, job: Stored) -> None:
        """A scheduled, ready or waiting job ends as cancelled; its place in line passes on."""
        self.admission.give_back(job)
        self.end(job, JobState.CANCELLED, outcome=None)

    def restart(self, job: Stored) -> None:
        """An ended job arrives anew."""
        self.store.change(
            job, state=JobState.SCHEDULED, due=self.now, attempts=job.history(), tries=0, worker=None, started_at=None,
            ended_at=None, outcome=None, error=None, result=None, expires_at=None, cancel_requested=False,
            refusals=None,
        )  # fmt: skip
        self.come(job)

    def expedite(self, job: Stored) -> None:
        """A scheduled job is due now."""
        self.store.change(job, due=self.now)
        self.come(job)

    # ── limits change ────────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, limits: Sequence[Limit]) -> None:
        """Write what differs; waiters of the name may have room now."""
        for limit in limits:
            if self.store.book.limits.get(limit.name) != limit:
                self.store.put(self.store.book.limits, limit.name, limit)
                self.rules_changed(limit.name)

    def set_override(self, scope: Scope, override: Override | None) -> None:
        """An operator's word comes into force, or is taken back."""
        self.store.put(self.store.book.overrides, scope, override)
        self.rules_changed(scope[0])

    def compute(self, key: str, number: int) -> None:
        """A floating limit's number for one key."""
        self.store.put(self.store.book.computed, key, (number, self.now))
        self.rules_changed(Key.of(key).name)

    def rules_changed(self, name: str) -> None:
        """A limit's numbers changed: look at all keys of it that are waited for."""
        self.store.book.changed()
        self.store.undo.append(self.store.book.changed)
        for key in self.store.waiting:
            if Key.of(key).name == name:
                self.admission.touch(key)

    # ── a job is taken over ──────────────────────────────────────────────────────────────────────────────────────

    def take_over(self, record: ImportedJob) -> Stored | str:
        """Import or re-import one record; a text says why not."""
        job = self.store.jobs.get(record.job.id)
        existing = None if job is None else Existing(job.state, job.history(), job.due)
        taken = take_import(record, existing, self.now)
        if isinstance(taken, str):
            return taken
        if job is None or job.state.ended:
            rival = self.store.unique.get((record.job.tenant, record.job.unique or ""))
            if rival is not None and not taken.state.ended:
                return f"job {rival.id!r} with unique key {record.job.unique!r} is {rival.state}"
        if job is None:
            enqueued_at = record.enqueued_at if record.enqueued_at is not None else self.now
            job = self._add(record.job, enqueued_at, taken.due)
        elif not job.state.ended:
            self.admission.give_back(job)
        self._write_import(job, record, taken)
        return job

    def _write_import(self, job: Stored, record: ImportedJob, taken: Taken) -> None:
        last = taken.attempts[-1] if taken.attempts else None
        fields = {
            "retry": record.job.retry, "tries": taken.tries, "attempt": len(taken.attempts), "waiting_on": None,
            "offered_by": None, "units": 0, "set_aside": False, "refusals": None, "cancel_requested": False,
            "error": last and last.error, "result": None,
        }  # fmt: skip
        if taken.state.ended and last is not None:
            expiry = expires_at(taken.state, job.spec.retention, self.settings, self.now)
            self.store.change(
                job, state=taken.state, attempts=taken.attempts[:-1], worker=last.worker, started_at=last.started_at,
                ended_at=last.ended_at, outcome=last.outcome, expires_at=expiry, **fields,
            )  # fmt: skip
            self.ended = True
            return
        self.store.change(
            job, state=JobState.SCHEDULED, due=taken.due, attempts=taken.attempts, worker=None, started_at=None,
            ended_at=None, outcome=None, expires_at=None, **fields,
        )  # fmt: skip
        self.come(job)
