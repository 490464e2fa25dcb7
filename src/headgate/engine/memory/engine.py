"""The memory engine's verbs. Each is one transaction under one lock; a transaction that raises is rolled back whole."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec

from headgate.clock import SECOND, now_us
from headgate.engine.contract import (
    HISTORY_MINUTE,
    Attempt,
    Beat,
    Done,
    Engine,
    Enqueued,
    Exchanged,
    Facts,
    Filter,
    ImportedJob,
    ImportResult,
    KeyInUse,
    KeyStatus,
    Known,
    Limit,
    LimitPlace,
    LimitStatus,
    Lost,
    NewArguments,
    Override,
    Progress,
    QueueStatus,
    Rechecked,
    Report,
    Resumed,
    Rows,
    Settings,
    ShareStatus,
    ShareWeight,
    Snapshot,
    Spent,
    Swept,
    Totals,
    Verdict,
    Wake,
    Worker,
    WorkerStatus,
)
from headgate.engine.memory import overview, reading
from headgate.engine.memory.claiming import ReadyJobs
from headgate.engine.memory.rechecking import recheck
from headgate.engine.memory.store import MemoryStore, Registered
from headgate.engine.memory.sweeping import sweep
from headgate.engine.memory.transaction import Transaction
from headgate.engine.rules import steering
from headgate.engine.rules.refused import lapsed, stale
from headgate.engine.rules.status import bounded, limits_page
from headgate.engine.rules.steering import CANCEL, DELETE, EXPEDITE, Steering, steer
from headgate.engine.rules.stored import Stored
from headgate.engine.sleepers import Sleepers, also_on_moves
from headgate.engine.tables import VerbSource, ask
from headgate.job import Job, JobState, NewJob
from headgate.keys import keys_of

VERSION = 1


class MemoryEngine(Engine):
    """Jobs in this process's memory. `clock` gives the store's now in microseconds."""

    cheap_steps = True

    def __init__(self, settings: Settings | None = None, clock: Callable[[], int] | None = None) -> None:
        self.settings = settings or Settings()
        self._clock = clock or now_us
        self._store = MemoryStore()
        self._lock = threading.RLock()
        self._sleepers = Sleepers()

    @contextmanager
    def _transaction(self, now: int | None) -> Generator[Transaction]:
        with self._lock:
            transaction = Transaction(self._store, self.settings, self._clock() if now is None else now)
            try:
                yield transaction
                transaction.admission.offer()
            except BaseException:
                self._store.roll_back()
                raise
            self._store.undo.clear()
        self._signal(transaction)

    def _signal(self, transaction: Transaction) -> None:
        self._sleepers.work(None if transaction.call_workers else {*transaction.ledger.readied.values()})
        if transaction.ended:
            self._sleepers.ended()

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
        with self._transaction(now) as transaction:
            transaction.declare(limits)
            return transaction.enqueue(jobs)

    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        with self._transaction(now) as transaction:
            transaction.declare(limits)
            return [transaction.take_over(record) for record in records]

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        with self._transaction(now) as transaction:
            return steering.tick(transaction, name, seen, at, jobs)

    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        with self._lock:
            return {name: self._store.ticks[name] for name in names if name in self._store.ticks}

    async def pause_schedule(self, name: str, *, now: int | None = None) -> bool:
        with self._transaction(now) as transaction:
            return steering.pause_schedule(transaction, name)

    async def resume_schedule(self, name: str, *, now: int | None = None) -> bool:
        with self._transaction(now) as transaction:
            return steering.resume_schedule(transaction, name)

    async def paused_schedules(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._store.paused_schedules)

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        with self._transaction(now) as transaction:
            transaction.lose_worker(worker.id)
            self._store.put(self._store.workers, worker.id, Registered(worker, transaction.now))
            return transaction.now

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        with self._transaction(now) as transaction:
            entry = self._leased(worker, transaction.now)
            entry.lease_until = transaction.now + entry.worker.lease
            for one in done:
                transaction.add_done(one)
            return Beat(self._cancelling(worker), transaction.now)

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
        with self._transaction(now) as transaction:
            for job in self._store.running_of(worker):
                transaction.release(job)
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
        threads: int | None = None,
        now: int | None = None,
    ) -> Exchanged:
        with self._transaction(now) as transaction:
            claimer = self._in_turn(worker, number, transaction.now).worker
            known = claimer.tasks
            refused = [
                (report.job, report.attempt)
                for report in reports
                if not self._report(transaction, worker, report)
            ]
            transaction.admission.offer()
            transaction.ledger.claimer = worker
            ready = ReadyJobs(self._store, queues, claimer, transaction.now, suspects=suspects)
            more = transaction.admission.claim_many(want, known, ready, known & claimer.threaded, threads)
            return Exchanged(
                attempts=tuple(_attempt(job) for job in transaction.ledger.started),
                refused=tuple(refused),
                cancelling=self._cancelling(worker),
                next_due=reading.next_due(self._store),
                more=more,
                now=transaction.now,
                set_aside=tuple(transaction.admission.unknown),
                parked=transaction.admission.parked(),
            )

    def _report(self, transaction: Transaction, worker: str, report: Report) -> bool:
        """The fence: a report counts only for a running attempt of this worker."""
        job = self._store.running.get(worker, {}).get(report.job)
        if job is None or job.attempt != report.attempt:
            return False
        if isinstance(report, Progress):
            self._store.change(job, progress=report.value)
            transaction.ended = True
        elif isinstance(report, Spent):
            transaction.correct(job, report)
        else:
            transaction.settle(job, report)
        return True

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        with self._transaction(now) as transaction:
            self._in_turn(worker, number, transaction.now)
            named = set(known)
            taken_back = transaction.take_back(self._store.running_of(worker), named)
            alive = {(job.id, job.attempt) for job in self._store.running_of(worker)}
            return Resumed(
                tuple(pair for pair in known if pair in alive),
                taken_back,
                self._cancelling(worker),
                transaction.now,
            )

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        with self._transaction(now) as transaction:
            lost = [transaction.lose_worker(worker) for worker in workers if worker in self._store.workers]
            failed = tuple(job for one in lost for job in one.failed)
            return Lost(sum(one.attempts for one in lost), failed)

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        with self._transaction(now) as transaction:
            return recheck(transaction, after, most)

    async def sweep(self, *, now: int | None = None) -> Swept:
        with self._transaction(now) as transaction:
            return sweep(transaction)

    # ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._steer(CANCEL, ids, now)

    async def restart(
        self, ids: Sequence[str], *, arguments: NewArguments | None = None, now: int | None = None
    ) -> list[Verdict]:
        with self._transaction(now) as transaction:
            return steering.restart(transaction, ids, arguments)

    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._steer(EXPEDITE, ids, now)

    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return self._steer(DELETE, ids, now)

    def _steer(self, verb: Steering, ids: Sequence[str], now: int | None) -> list[Verdict]:
        with self._transaction(now) as transaction:
            return steer(transaction, verb, ids)

    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        with self._transaction(now):
            before = len(self._store.paused)
            self._store.paused.add(queue)
            return len(self._store.paused) > before

    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        with self._transaction(now) as transaction:
            transaction.call_workers = True
            was = queue in self._store.paused
            self._store.paused.discard(queue)
            return was

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        with self._transaction(now) as transaction:
            transaction.declare(limits)

    async def override(self, override: Override, *, now: int | None = None) -> None:
        with self._transaction(now) as transaction:
            steering.override(transaction, override)

    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        with self._transaction(now) as transaction:
            return steering.clear_override(transaction, (name, value, tenant))

    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        with self._transaction(now) as transaction:
            transaction.compute(key, max)

    async def learn(
        self, key: str, max: int, *, seen: int | None, reason: str, now: int | None = None
    ) -> bool:
        with self._transaction(now) as transaction:
            return transaction.learn(key, max, seen, reason)

    async def declare_shares(self, weights: Sequence[ShareWeight], *, now: int | None = None) -> None:
        with self._transaction(now) as transaction:
            transaction.declare_shares(weights)

    async def set_share(self, weight: ShareWeight, *, now: int | None = None) -> None:
        with self._transaction(now) as transaction:
            transaction.set_share(weight.share, weight)

    async def clear_share(self, share: str, *, now: int | None = None) -> bool:
        with self._transaction(now) as transaction:
            there = share in self._store.book.weights
            transaction.set_share(share, None)
            return there

    async def shares(self, *, after: str | None = None, limit: int = 1000) -> list[ShareStatus]:
        with self._lock:
            return overview.shares(self._store, after)[:limit]

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
            page = limits_page(reading.limits(self._store, name), after, limit)
            page = page if limit is None else [bounded(row) for row in page]
            return [overview.tokens(self._store, row, self._clock() if now is None else now) for row in page]

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

    async def queues(self, *, most: int | None = None) -> list[QueueStatus]:
        with self._lock:
            return reading.queues(self._store)

    async def totals(self, *, most: int | None = None) -> Totals:
        with self._lock:
            return overview.totals(self._store)

    async def tightest(self, *, limit: int = 10, now: int | None = None) -> list[LimitStatus]:
        with self._lock:
            return overview.tightest(self._store, limit)

    async def keys(
        self, idents: Sequence[str], *, holders: int = 10, waiters: int = 0, now: int | None = None
    ) -> list[KeyStatus | None]:
        with self._transaction(now) as transaction:
            return [overview.key(transaction, ident, holders, waiters) for ident in idents]

    async def history(
        self,
        since: int,
        *,
        step: int = HISTORY_MINUTE,
        queue: str | None = None,
        task: str | None = None,
        each: bool = False,
        now: int | None = None,
    ) -> list[Done]:
        with self._lock:
            return overview.history(self._store, since, step, queue, task, each=each)

    async def select(self, sql: str, *, limit: int = 1000, timeout: int = 10 * SECOND) -> Rows:
        return await ask(VerbSource(self, page=sys.maxsize), sql, limit, timeout)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        with self._lock:
            return reading.workers(self._store)

    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        with self._transaction(now) as transaction:
            job = self._store.jobs.get(id)
            return (
                None
                if job is None
                else reading.explain(self._store, job, transaction.ledger, transaction.now)
            )

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        with self._transaction(now) as transaction:
            return reading.snapshot(self._store, transaction.ledger, transaction.admission, transaction.now)

    # ── waking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        return also_on_moves(self._clock, wake, self._sleepers.on_work(wake, queues))

    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        return self._sleepers.on_ended(wake)


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
        due=job.due, headers=job.spec.headers, keys=keys_of(job.spec.uses),
    )  # fmt: skip
