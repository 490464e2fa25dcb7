"""The memory engine's verbs. Each is one step under one lock; a step that raises is rolled back whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec

from headgate.clock import now_us
from headgate.engine.contract import (
    Attempt,
    Beat,
    Engine,
    Enqueued,
    Exchanged,
    Facts,
    Filter,
    ImportedJob,
    ImportResult,
    KeyInUse,
    Known,
    Limit,
    LimitPlace,
    LimitStatus,
    Lost,
    Override,
    Progress,
    QueueStatus,
    Rechecked,
    Report,
    Resumed,
    Settings,
    Snapshot,
    Swept,
    Verdict,
    Wake,
    Worker,
    WorkerStatus,
)
from headgate.engine.memory import reading
from headgate.engine.memory.claiming import ReadyJobs
from headgate.engine.memory.rechecking import recheck
from headgate.engine.memory.step import Step
from headgate.engine.memory.store import Registered, Store
from headgate.engine.memory.sweeping import sweep
from headgate.engine.rules.in_force import may_be_overridden
from headgate.engine.rules.refused import lapsed, stale
from headgate.engine.rules.status import limits_page
from headgate.engine.rules.stored import Stored
from headgate.errors import ConfigError
from headgate.job import PENDING, Job, JobState, NewJob

VERSION = 1


class MemoryEngine(Engine):
    """Jobs in this process's memory. `clock` gives the store's now in microseconds."""

    cheap_steps = True

    def __init__(self, settings: Settings | None = None, clock: Callable[[], int] | None = None) -> None:
        self.settings = settings or Settings()
        self._clock = clock or now_us
        self._store = Store()
        self._lock = threading.RLock()
        self._on_work: dict[Wake, Sequence[str] | None] = {}
        self._on_ended: dict[Wake, None] = {}

    @contextmanager
    def _step(self, now: int | None) -> Generator[Step]:
        with self._lock:
            step = Step(self._store, self.settings, self._clock() if now is None else now)
            try:
                yield step
                step.admission.offer()
            except BaseException:
                self._store.roll_back()
                raise
            self._store.undo.clear()
        self._signal(step)

    def _signal(self, step: Step) -> None:
        queues = set(step.ledger.readied.values())
        for wake, served in list(self._on_work.items()):
            if step.call_workers or (queues if served is None else queues.intersection(served)):
                wake()
        if step.ended:
            for wake in list(self._on_ended):
                wake()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def migrate(self) -> tuple[int, int]:
        return VERSION, VERSION

    async def clock(self) -> int:
        return self._clock()

    # ── jobs come ────────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        with self._step(now) as step:
            step.declare(limits)
            return step.enqueue(jobs)

    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        with self._step(now) as step:
            step.declare(limits)
            return [step.take_over(record) for record in records]

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        with self._step(now) as step:
            if self._store.ticks.get(name) != seen:
                return False
            self._store.put(self._store.ticks, name, at)
            step.enqueue([job for job in jobs if job.id not in self._store.jobs])
            return True

    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        with self._lock:
            return {name: self._store.ticks[name] for name in names if name in self._store.ticks}

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        with self._step(now) as step:
            step.lose_worker(worker.id)
            self._store.put(self._store.workers, worker.id, Registered(worker, step.now))
            return step.now

    async def heartbeat(self, worker: str, *, now: int | None = None) -> Beat:
        with self._step(now) as step:
            entry = self._leased(worker, step.now)
            entry.lease_until = step.now + entry.worker.lease
            return Beat(self._cancelling(worker), step.now)

    def _leased(self, worker: str, now: int) -> Registered:
        entry = self._store.workers.get(worker)
        if entry is None or entry.lease_until <= now:
            raise lapsed(worker)
        return entry

    def _in_turn(self, worker: str, number: int | None, now: int) -> Registered:
        """The fence of messages: one that a later one has overtaken changes nothing."""
        entry = self._leased(worker, now)
        if number is not None:
            if number <= entry.number:
                raise stale(worker, number, entry.number)
            before, entry.number = entry.number, number
            self._store.undo.append(lambda: setattr(entry, "number", before))
        return entry

    def _cancelling(self, worker: str) -> tuple[str, ...]:
        return tuple(job.id for job in self._store.running.get(worker, {}).values() if job.cancel_requested)

    async def retire(self, worker: str, *, now: int | None = None) -> None:
        with self._step(now) as step:
            for job in self._store.running_of(worker):
                step.release(job)
            self._store.put(self._store.workers, worker, None)

    async def exchange(
        self,
        worker: str,
        reports: Sequence[Report],
        want: int,
        queues: Sequence[str] | None = None,
        *,
        number: int | None = None,
        suspects: bool = True,
        now: int | None = None,
    ) -> Exchanged:
        with self._step(now) as step:
            claimer = self._in_turn(worker, number, step.now).worker
            known = claimer.tasks
            refused = [
                (report.job, report.attempt) for report in reports if not self._report(step, worker, report)
            ]
            step.admission.offer()
            step.ledger.claimer = worker
            ready = ReadyJobs(self._store, queues, claimer, step.now, suspects=suspects)
            more = step.admission.claim_many(want, known, ready)
            return Exchanged(
                attempts=tuple(_attempt(job) for job in step.ledger.started),
                refused=tuple(refused),
                cancelling=self._cancelling(worker),
                next_due=reading.next_due(self._store),
                more=more,
                now=step.now,
                set_aside=tuple(step.admission.unknown),
            )

    def _report(self, step: Step, worker: str, report: Report) -> bool:
        """The fence: a report counts only for a running attempt of this worker."""
        job = self._store.running.get(worker, {}).get(report.job)
        if job is None or job.attempt != report.attempt:
            return False
        if isinstance(report, Progress):
            self._store.change(job, progress=report.value)
            step.ended = True
        else:
            step.settle(job, report)
        return True

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        with self._step(now) as step:
            self._in_turn(worker, number, step.now)
            named = set(known)
            taken_back = step.take_back(self._store.running_of(worker), named)
            alive = {(job.id, job.attempt) for job in self._store.running_of(worker)}
            return Resumed(
                tuple(pair for pair in known if pair in alive),
                taken_back,
                self._cancelling(worker),
                step.now,
            )

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        with self._step(now) as step:
            lost = [step.lose_worker(worker) for worker in workers if worker in self._store.workers]
            failed = tuple(job for one in lost for job in one.failed)
            return Lost(sum(one.attempts for one in lost), failed)

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        with self._step(now) as step:
            return recheck(step, after, most)

    async def sweep(self, *, now: int | None = None) -> Swept:
        with self._step(now) as step:
            return sweep(step)

    # ── somebody steers ──────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._each(ids, {*PENDING, JobState.RUNNING}, Step.cancel, now)

    async def restart(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._each(ids, {JobState.FAILED, JobState.CANCELLED}, Step.restart, now)

    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._each(ids, {JobState.SCHEDULED}, Step.expedite, now)

    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        ended = {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
        return self._each(ids, ended, lambda step, job: step.store.remove(job), now)

    def _each(
        self,
        ids: Sequence[str],
        allowed: set[JobState],
        move: Callable[[Step, Stored], None],
        now: int | None,
    ) -> list[Verdict]:
        with self._step(now) as step:
            return [self._one(step, id, allowed, move) for id in ids]

    def _one(
        self, step: Step, id: str, allowed: set[JobState], move: Callable[[Step, Stored], None]
    ) -> Verdict:
        job = self._store.jobs.get(id)
        if job is None or job.state not in allowed or self._taken_by_another(step, job, move):
            return Verdict(id, False, job and job.state)
        move(step, job)
        return Verdict(id, True, job.state)

    def _taken_by_another(self, step: Step, job: Stored, move: Callable[[Step, Stored], None]) -> bool:
        """A restart must not make a second unfinished job of one unique key."""
        return move is Step.restart and (job.tenant, job.spec.unique) in self._store.unique

    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        with self._step(now):
            before = len(self._store.paused)
            self._store.paused.add(queue)
            return len(self._store.paused) > before

    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        with self._step(now) as step:
            step.call_workers = True
            was = queue in self._store.paused
            self._store.paused.discard(queue)
            return was

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        with self._step(now) as step:
            step.declare(limits)

    async def override(self, override: Override, *, now: int | None = None) -> None:
        with self._step(now) as step:
            if not may_be_overridden(self._store.book, override.name):
                raise ConfigError(
                    f"no limit is named {override.name!r}; see `headgate limits` for those there are"
                )
            step.set_override((override.name, override.value, override.tenant), override)

    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        with self._step(now) as step:
            scope = (name, value, tenant)
            if scope not in self._store.book.overrides:
                return False
            step.set_override(scope, None)
            return True

    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        with self._step(now) as step:
            step.compute(key, max)

    async def keys_in_use(
        self,
        name: str,
        *,
        computed_before: int | None = None,
        after: str | None = None,
        limit: int = 1000,
        now: int | None = None,
    ) -> list[KeyInUse]:
        with self._lock:
            return reading.keys_in_use(self._store, name, computed_before, after)[:limit]

    async def limits(
        self,
        name: str | None = None,
        *,
        after: LimitPlace | None = None,
        limit: int | None = None,
        now: int | None = None,
    ) -> list[LimitStatus]:
        with self._lock:
            return limits_page(reading.limits(self._store, name), after, limit)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        with self._lock:
            return [job.shown() if (job := self._store.jobs.get(id)) else None for id in ids]

    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        with self._lock:
            return [job.state if (job := self._store.jobs.get(id)) else None for id in ids]

    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        with self._lock:
            found = sorted(
                (job for job in self._store.jobs.values() if reading.matches(job, filter)), key=_newest
            )
            if after is not None and (last := self._store.jobs.get(after)) is not None:
                found = [job for job in found if job.seq < last.seq]
            return [_without_history(job.shown()) for job in found[:limit]]

    async def count(self, filter: Filter) -> int:
        with self._lock:
            return sum(reading.matches(job, filter) for job in self._store.jobs.values())

    async def queues(self) -> list[QueueStatus]:
        with self._lock:
            return reading.queues(self._store)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        with self._lock:
            return reading.workers(self._store)

    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        with self._step(now) as step:
            job = self._store.jobs.get(id)
            return None if job is None else reading.explain(self._store, job, step.ledger, step.now)

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        with self._step(now) as step:
            return reading.snapshot(self._store, step.ledger, step.admission, step.now)

    # ── waking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        self._on_work[wake] = queues

        def end() -> None:
            self._on_work.pop(wake, None)

        return end

    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        self._on_ended[wake] = None
        return lambda: self._on_ended.pop(wake, None)


def _newest(job: Stored) -> int:
    return -job.seq


def _without_history(job: Job) -> Job:
    return msgspec.structs.replace(job, history=())


def _attempt(job: Stored) -> Attempt:
    assert job.started_at is not None
    return Attempt(
        job=job.id, number=job.attempt, task=job.task, queue=job.queue, args=job.spec.args, tenant=job.tenant,
        priority=job.priority, tries=job.tries, retry=job.retry, timeout=job.spec.timeout, metadata=job.spec.metadata,
        enqueued_at=job.enqueued_at, started_at=job.started_at, progress=job.progress, suspicion=job.suspicion,
        due=job.due,
    )  # fmt: skip
