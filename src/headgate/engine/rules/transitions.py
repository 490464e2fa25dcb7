"""The transitions of a job: how enqueue, reports, cancel, restart, import and limit changes alter what is stored.

Engines whose transactions are in Python inherit these and add the storage: a handful of primitives at the end of the
page. Every move goes through admission (rule 10).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, assert_never

import msgspec

from headgate.engine.contract import (
    Enqueued,
    ImportedJob,
    ImportResult,
    KeyNumbers,
    Known,
    Limit,
    Lost,
    LostJob,
    NewArguments,
    Outcome,
    Override,
    Released,
    Settings,
    Snoozed,
    Throttled,
)
from headgate.engine.rules.admission import Admission, Cap
from headgate.engine.rules.blame import blame, died_by
from headgate.engine.rules.in_force import RuleBook, Scope, declared_anew, gives_room
from headgate.engine.rules.lifecycle import (
    BACK_AS_THEY_WERE,
    Again,
    End,
    Existing,
    Taken,
    expires_at,
    lose,
    settle,
    take_import,
)
from headgate.engine.rules.sharing import Sharing
from headgate.engine.rules.stored import Stored, latest_start
from headgate.engine.rules.throttling import Throttling
from headgate.errors import HeadgateError, JobExists
from headgate.job import PENDING, JobState, NewJob, PastAttempt
from headgate.keys import Key, Use, is_rate

INNOCENT = {"suspicion": 0, "lost": 0, "lost_after": 0}
"""An attempt that came to an end of its own clears its job."""


class Transitions(Sharing, Throttling):
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
        admission.full.leave = self.cancel_pending
        admission.full.stop = self.ask_to_stop

    # ── a job comes ──────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue(self, jobs: Sequence[NewJob], *, entering: bool = True) -> list[Enqueued]:
        """Store new jobs, all or none (what is raised undoes the transaction). Only those that are `entering` can be
        refused for a full backlog: what time brings has nobody to be told."""
        taken = self.existing([spec.id for spec in jobs])
        for spec in jobs:
            if spec.id in taken:
                raise JobExists(f"a job with id {spec.id!r} exists already; nothing was enqueued", spec.id)
            taken.add(spec.id)
            if spec.uses:
                self.book.check_uses(spec.uses)
        return [self._enqueue(spec, entering) for spec in jobs]

    def _enqueue(self, spec: NewJob, entering: bool) -> Enqueued:
        if spec.unique is not None and (rival := self._rival(spec)) is not None:
            return Enqueued(rival.id, rival.state, False)
        job = self.add(spec, self.now, self._due(spec))
        if spec.uses:
            self._bring(spec.uses)
        self.come(job, entering=entering)
        return Enqueued(job.id, job.state, True)

    def _due(self, spec: NewJob) -> int:
        return spec.at if spec.at is not None else self.now + spec.delay

    def _rival(self, spec: NewJob) -> Stored | None:
        rival = self._taken_by(spec)
        if rival is None or spec.on_conflict == "return":
            return rival
        if spec.on_conflict == "raise" or rival.state not in PENDING:
            raise JobExists(f"job {rival.id!r} with unique key {spec.unique!r} is {rival.state}", rival.id)
        if spec.on_conflict == "update":
            self._update(rival, spec)
            return rival
        self.cancel_pending(rival)
        return None

    def _taken_by(self, spec: NewJob) -> Stored | None:
        """The job that has the unique key; the key of one that has ended may have become free by time."""
        rival = self.rival(spec.tenant, spec.unique) if spec.unique is not None else None
        if (
            rival is None
            or rival.unique_until is None
            or not rival.state.ended
            or rival.unique_until > self.now
        ):
            return rival
        self.change(rival, unique_until=None)
        return None

    def _update(self, job: Stored, spec: NewJob) -> None:
        """A job that has not started takes over what the newcomer brings, and its due time within a bound."""
        if job.attempt or job.task != spec.task:
            what = "has started already" if job.attempt else f"is of task {job.task!r}"
            raise JobExists(f"job {job.id!r} with unique key {spec.unique!r} {what}", job.id)
        due = self._due(spec)
        if spec.at_most is not None:
            due = min(due, job.enqueued_at + spec.at_most)
        self.admission.give_back([job])
        new = msgspec.structs.replace(
            job.spec,
            args=spec.args,
            uses=spec.uses,
            metadata=spec.metadata,
            headers=spec.headers,
            share=_share(job.spec, spec.share if spec.queue == job.queue else None),
            on_conflict="update",
        )
        self.change(
            job, spec=new, uses=new.uses, state=JobState.SCHEDULED, due=due, waiting_on=None, offered_by=None, units=0,
            refusals=None, set_aside=0, start_by=latest_start(spec, self.now),
        )  # fmt: skip
        self._bring(spec.uses)
        self.come(job)

    def come(self, job: Stored, *, entering: bool = False, returning: bool = False) -> None:
        """A scheduled job arrives if it is due; else a worker must learn when it will be. One that is `returning` takes
        its old place."""
        if job.due > self.now:
            self.call_workers = True
            return
        if job.uses:
            self._bring(job.uses, again=True)
        if job.spec.share is not None and not returning:
            self.tag(job, job.spec.share)
        self.admission.arrive(job, entering=entering, returning=returning)

    def _bring(self, uses: Iterable[Use], *, again: bool = False) -> None:
        """The newest job's number for a key is in force from now on. A job that comes `again` is not the newest: it
        brings its number only where the key's was forgotten meanwhile."""
        for use in uses:
            if use.number is None or not self.book.limits[Key.of(use.key).name].per_key:
                continue
            before = self.book.numbers_of(use.key)
            known = None if before is None else before.brought
            if known == use.number or (again and known is not None):
                continue
            differs = known if self._in_use(use.key) else None
            brought = {"at": self.now, "brought": use.number, "brought_before": differs}
            self.put_numbers(use.key, msgspec.structs.replace(before or KeyNumbers(self.now), **brought))
            self.book.changed()
            self.admission.touch(use.key)

    def _in_use(self, key: str) -> bool:
        ledger = self.admission.ledger
        return (not is_rate(key) and ledger.held(key) > 0) or ledger.count_waiting(key, 1) > 0

    # ── an attempt ends ──────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, job: Stored, outcome: Outcome) -> None:
        """A worker's report ends the attempt."""
        if isinstance(outcome, Throttled) and not self.throttle(job, outcome):
            outcome = Snoozed(job.id, job.attempt, outcome.delay)
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
        if job.spent:
            self.change(job, spent={})
        if job.spec.share is not None and job.spec.charge == "time":
            self.learn_time(job, job.spec.share)
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
            **({} if verdict.outcome in BACK_AS_THEY_WERE else INNOCENT),
        )  # fmt: skip
        self.come(job, returning=verdict.outcome in BACK_AS_THEY_WERE)

    def end(self, job: Stored, state: JobState, **fields: object) -> None:
        """The job ends; what it held was given back before. It is kept while its unique key is."""
        expiry = expires_at(state, job.spec.retention, self.settings, self.now)
        if job.unique_until is not None:
            fields["unique_until"] = job.unique_until if job.unique_until > self.now else None
            expiry = max(expiry, job.unique_until)
        self.change(
            job, state=state, ended_at=self.now, expires_at=expiry, waiting_on=None, offered_by=None, units=0,
            set_aside=0, **fields,
        )  # fmt: skip
        self.ended = True

    # ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self, job: Stored) -> None:
        """A running job is asked to stop, any other ends now."""
        if job.state is JobState.RUNNING:
            self.ask_to_stop(job)
        else:
            self.cancel_pending(job)

    def ask_to_stop(self, job: Stored, reason: str | None = None) -> None:
        """A running job is cancelled; its worker learns of it."""
        del reason  # the attempt says how it ended
        self.change(job, cancel_requested=True)
        self.call_workers = True

    def cancel_pending(self, job: Stored, reason: str | None = None) -> None:
        """A scheduled, ready or waiting job ends as cancelled; its place in line passes on."""
        self.admission.give_back([job])
        why = {} if reason is None else {"error": reason}
        self.end(job, JobState.CANCELLED, outcome=None, **why)

    def restart(self, job: Stored, arguments: NewArguments | None = None) -> None:
        """An ended job arrives anew, with fresh retries, without suspicion, and with other arguments, and what follows
        from them, where some are given."""
        if arguments is not None:
            share = _share(job.spec, arguments.share)
            spec = msgspec.structs.replace(job.spec, args=arguments.args, uses=arguments.uses, share=share)
            self.change(job, spec=spec, uses=spec.uses)
        self.change(
            job, state=JobState.SCHEDULED, due=self.now, attempts=job.history(), tries=0, worker=None, started_at=None,
            ended_at=None, outcome=None, error=None, result=None, expires_at=None, cancel_requested=False,
            refusals=None, **INNOCENT,
        )  # fmt: skip
        if job.start_by is not None or job.unique_until is not None:
            self.change(job, start_by=None, unique_until=None)
        if arguments is not None:
            self._bring(arguments.uses)
        self.come(job)

    def may_restart(self, job: Stored) -> bool:
        """A restart must not make a second unfinished job of one unique key."""
        rival = self._taken_by(job.spec)
        return rival is None or rival is job or rival.id == job.id

    def expedite(self, job: Stored) -> None:
        """A scheduled job is due now."""
        self.change(job, due=self.now)
        self.come(job)

    # ── limits change ────────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, limits: Sequence[Limit]) -> None:
        """Write what differs; waiters of the name may have room now."""
        for limit in limits:
            self.book.check_kind(limit)
            known = self.book.limits.get(limit.name)
            if (anew := declared_anew(known, limit)) != known:
                scope = (limit.name, None, None)
                before = self.book.cap_of(scope)
                self.put_limit(anew)
                self._rules_changed(scope, before)

    def set_override(self, scope: Scope, override: Override | None) -> None:
        """An operator's word comes into force, or is taken back."""
        before = self.book.cap_of(scope)
        self.put_override(scope, override)
        self._rules_changed(scope, before)

    def learn(self, key: str, number: int, seen: int | None, reason: str) -> bool:
        """An adaptive limit's number for one key; False where the number is not as it was seen."""
        if self.book.number_without_override(Key.of(key)) != seen:
            return False
        self.compute(key, number, reason)
        return True

    def compute(self, key: str, number: int, reason: str | None = None) -> None:
        """A floating limit's number for one key."""
        before = self.book.numbers_of(key) or KeyNumbers(self.now)
        after = {"at": self.now, "computed": number, "computed_at": self.now, "reason": reason}
        self.put_numbers(key, msgspec.structs.replace(before, **after))
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
            rival = self._taken_by(msgspec.structs.replace(record.job, tenant=tenant, unique=unique))
            if rival is not None and not taken.state.ended and rival is not job:
                return f"job {rival.id!r} with unique key {unique!r} is {rival.state}"
        if job is None:
            enqueued_at = record.enqueued_at if record.enqueued_at is not None else self.now
            job = self.add(record.job, enqueued_at, taken.due)
            self._bring(record.job.uses)
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
    def put_numbers(self, key: str, numbers: KeyNumbers) -> None:
        """Write what is special about the number of one key, in the store and in the book."""


def _share(spec: NewJob, new: str | None) -> str | None:
    """The share of a job that gets other arguments: one with a share stays one."""
    return spec.share if spec.share is None or new is None else new
