"""The SQLite engine's verbs: each is one operation on the writer's or the reader's thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from headgate.clock import SECOND, now_us
from headgate.engine.contract import (
    HISTORY_MINUTE,
    LOOKS,
    Beat,
    Done,
    Engine,
    Enqueued,
    Exchanged,
    Facts,
    Filter,
    ImportedJob,
    ImportResult,
    JobPage,
    KeyInUse,
    KeyStatus,
    Known,
    Limit,
    LimitPlace,
    LimitStatus,
    Lost,
    NewArguments,
    Override,
    QueueStatus,
    Rechecked,
    Report,
    Resumed,
    Rows,
    Settings,
    ShareStatus,
    ShareWeight,
    Snapshot,
    Swept,
    Totals,
    Verdict,
    Wake,
    Worker,
    WorkerStatus,
)
from headgate.engine.rules import steering
from headgate.engine.rules.in_force import declared_anew
from headgate.engine.rules.refused import lapsed
from headgate.engine.rules.steering import CANCEL, DELETE, EXPEDITE, steer
from headgate.engine.sleepers import also_on_moves
from headgate.engine.sqlite import listing, overview, reading
from headgate.engine.sqlite.asking import ask
from headgate.engine.sqlite.claim_context import Opening, Own, end_exchange
from headgate.engine.sqlite.claiming import ReadyJobs
from headgate.engine.sqlite.connection import Synchronous, connect, translated
from headgate.engine.sqlite.file import File, Work
from headgate.engine.sqlite.garbled import shown
from headgate.engine.sqlite.migrate import migrate
from headgate.engine.sqlite.rechecking import healthy, recheck
from headgate.engine.sqlite.reporting import settle_reports
from headgate.engine.sqlite.rows import to_json
from headgate.engine.sqlite.session import Session
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.sweeping import nothing_due, sweep
from headgate.engine.sqlite.transaction import Transaction
from headgate.errors import ConfigError, LeaseLost
from headgate.forks import renew_after_fork
from headgate.job import Job, JobState, NewJob

T = TypeVar("T")

INLINE_JOBS = 4
"""Jobs whose enqueueing takes less time than two hops between threads."""


class SqliteEngine(Engine):
    """Jobs in a SQLite file. `synchronous` FULL survives a power cut; NORMAL survives every crash of a process."""

    def __init__(
        self,
        path: str | Path,
        settings: Settings | None = None,
        *,
        clock: Callable[[], int] | None = None,
        synchronous: str = "NORMAL",
    ) -> None:
        if synchronous.upper() not in ("NORMAL", "FULL"):
            raise ConfigError(f"synchronous={synchronous!r}: NORMAL or FULL is needed")
        self.path = os.path.abspath(path)  # the process may change its folder while the file is open
        self.settings = settings or Settings()
        self._clock = clock or now_us
        self._synchronous: Synchronous = "FULL" if synchronous.upper() == "FULL" else "NORMAL"
        self.cheap_steps = self._synchronous == "NORMAL"
        self._file: File | None = None
        self._own: dict[str, Own] = {}
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """In a new process no thread is opening the file."""
        self._opening = threading.Lock()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        await asyncio.to_thread(self._opened)

    def _opened(self) -> File:
        """The file of this process. Threads and connections do not survive a fork: the child opens its own."""
        file = self._file
        if file is None or file.process != os.getpid():
            with self._opening:
                file = self._file
                if file is None or file.process != os.getpid():
                    file = self._file = File(self.path, self.settings, self._synchronous, self._clock)
        return file

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._opening:
            file, self._file = self._file, None
        if file is not None and file.process == os.getpid():
            file.close()

    async def migrate(self) -> tuple[int, int]:
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> tuple[int, int]:
        session = Session(
            self.path, lambda: connect(self.path, self._synchronous, self.settings.busy_timeout)
        )
        try:
            with translated(self.path), session as connection:
                return migrate(connection, self.path, self.settings.busy_timeout)
        finally:
            session.close()

    async def clock(self) -> int:
        return self._clock()

    async def _write(self, work: Work[T], now: int | None, glance: Work[T | None] | None = None) -> T:
        return await self._opened().write(work, now, glance)

    async def _read(self, work: Work[T], now: int | None = None) -> T:
        return await self._opened().read(work, now)

    # ── jobs come ────────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        def work(transaction: Transaction) -> list[Enqueued]:
            transaction.declare(limits)
            return transaction.enqueue(jobs)

        inline = self.cheap_steps and len(jobs) <= INLINE_JOBS and not limits
        return await self._opened().write(work, now, inline=inline)

    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        def work(transaction: Transaction) -> list[ImportResult]:
            transaction.declare(limits)
            return [transaction.take_over(record) for record in records]

        return await self._write(work, now)

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        return await self._write(lambda t: steering.tick(t, name, seen, at, jobs), now)

    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        def work(transaction: Transaction) -> dict[str, int]:
            found = {name: transaction.last_tick(name) for name in names}
            return {name: at for name, at in found.items() if at is not None}

        return await self._read(work)

    async def pause_schedule(self, name: str, *, now: int | None = None) -> bool:
        return await self._write(lambda t: steering.pause_schedule(t, name), now)

    async def resume_schedule(self, name: str, *, now: int | None = None) -> bool:
        return await self._write(lambda t: steering.resume_schedule(t, name), now)

    async def paused_schedules(self) -> frozenset[str]:
        def work(transaction: Transaction) -> frozenset[str]:
            return frozenset(
                shown(name) for (name,) in transaction.execute(sql("paused_schedules")).fetchall()
            )

        return await self._read(work)

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        def work(transaction: Transaction) -> int:
            transaction.lose_worker(worker.id)
            tasks, threaded = to_json(sorted(worker.tasks)), to_json(sorted(worker.threaded))
            queues = None if worker.queues is None else to_json(worker.queues)
            self._forget_own(transaction)
            row = (
                worker.id,
                tasks,
                queues,
                worker.lease,
                worker.host,
                worker.pid,
                worker.concurrency,
                threaded,
            )
            transaction.execute(sql("register"), (*row, transaction.now, transaction.now + worker.lease))
            return transaction.now

        return await self._write(work, now)

    def _forget_own(self, transaction: Transaction) -> None:
        """Forget workers whose lease is over, the one that is about to begin among them."""
        live = {id for (id,) in transaction.execute(sql("worker_ids")).fetchall()}
        self._own = {id: own for id, own in self._own.items() if id in live}

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        def work(transaction: Transaction) -> Beat:
            transaction.execute(sql("beat"), (worker, transaction.now))
            if not transaction.connection.changes():
                self._own.pop(worker, None)
                raise lapsed(worker)
            transaction.add_done(done)
            return Beat(_cancelling(transaction, worker), transaction.now)

        return await self._write(work, now)

    async def retire(self, worker: str, *, now: int | None = None) -> None:
        def work(transaction: Transaction) -> None:
            for job in transaction.jobs_by_seq(transaction.execute(sql("running_of"), (worker,)).fetchall()):
                transaction.release(job)
            transaction.execute(sql("forget_worker"), (worker,))

        self._own.pop(worker, None)
        await self._write(work, now)

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
        own = self._own.get(worker) or self._own.setdefault(worker, Own())
        opening = Opening(worker, number, own)

        def work(transaction: Transaction) -> Exchanged:
            context = opening.context(transaction.now)
            opening.take_effect()
            refused = settle_reports(transaction, worker, reports, own.claims)
            transaction.admission.offer()
            transaction.ledger.claimer = worker
            ready = ReadyJobs(transaction, queues, context, suspects=suspects)
            more = want > 0 and transaction.admission.claim_many(
                want, context.known, ready, context.threaded, threads
            )
            transaction.finish()
            own.claims.update(transaction.ledger.claimed)
            return _exchanged(transaction, worker, refused, more)

        def glance(transaction: Transaction) -> Exchanged | None:
            context = opening.context(transaction.now)
            if want > 0 and ReadyJobs(transaction, queues, context, suspects=suspects).are_there(threads):
                return None
            opening.take_effect()
            return _exchanged(transaction, worker, [], False)

        try:
            return await self._opened().write(work, now, None if reports else glance, opening)
        except LeaseLost:
            self._own.pop(worker, None)
            raise

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        own = self._own.get(worker) or self._own.setdefault(worker, Own())
        opening = Opening(worker, number, own)
        named = set(known)

        def work(transaction: Transaction) -> Resumed:
            opening.context(transaction.now)
            opening.take_effect()
            transaction.execute(sql("put_number"), (worker, number))
            pairs = transaction.execute(sql("running_pairs"), (worker,)).fetchall()
            unknown = transaction.jobs_by_seq([row for row in pairs if row[1:] not in named])
            taken_back = transaction.take_back(unknown, ())
            transaction.finish()
            own.claims.clear()
            alive = {row[1:] for row in pairs} & named
            return Resumed(
                tuple(pair for pair in known if pair in alive),
                taken_back,
                _cancelling(transaction, worker),
                transaction.now,
            )

        try:
            return await self._opened().write(work, now, None, opening)
        except LeaseLost:
            self._own.pop(worker, None)
            raise

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        def work(transaction: Transaction) -> Lost:
            known = {id for (id,) in transaction.execute(sql("worker_ids")).fetchall()}
            lost = [transaction.lose_worker(worker) for worker in dict.fromkeys(workers) if worker in known]
            return Lost(sum(one.attempts for one in lost), tuple(job for one in lost for job in one.failed))

        return await self._write(work, now)

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        return await self._write(
            lambda transaction: recheck(transaction, after, most), now, healthy(after, most)
        )

    async def sweep(self, *, now: int | None = None) -> Swept:
        return await self._write(sweep, now, nothing_due)

    # ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._write(lambda t: steer(t, CANCEL, ids), now)

    async def restart(
        self, ids: Sequence[str], *, arguments: NewArguments | None = None, now: int | None = None
    ) -> list[Verdict]:
        return await self._write(lambda t: steering.restart(t, ids, arguments), now)

    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._write(lambda t: steer(t, EXPEDITE, ids), now)

    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._write(lambda t: steer(t, DELETE, ids), now)

    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        return await self._write(lambda transaction: _changed(transaction, "pause", queue), now)

    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        def work(transaction: Transaction) -> bool:
            transaction.call_workers = True
            return _changed(transaction, "resume", queue)

        return await self._write(work, now)

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        def known(transaction: Transaction) -> bool | None:
            known = transaction.book.limits
            return (
                all(known.get(one.name) == declared_anew(known.get(one.name), one) for one in limits) or None
            )

        await self._write(lambda transaction: transaction.declare(limits) or True, now, known)

    async def override(self, override: Override, *, now: int | None = None) -> None:
        await self._write(lambda t: steering.override(t, override), now)

    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        return await self._write(lambda t: steering.clear_override(t, (name, value, tenant)), now)

    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        await self._write(lambda transaction: transaction.compute(key, max), now)

    async def learn(
        self, key: str, max: int, *, seen: int | None, reason: str, now: int | None = None
    ) -> bool:
        return await self._write(lambda transaction: transaction.learn(key, max, seen, reason), now)

    async def declare_shares(self, weights: Sequence[ShareWeight], *, now: int | None = None) -> None:
        def known(transaction: Transaction) -> bool | None:
            book = transaction.book
            return all(book.declared_weight(weight.share) == weight.weight for weight in weights) or None

        await self._write(lambda transaction: transaction.declare_shares(weights) or True, now, known)

    async def set_share(self, weight: ShareWeight, *, now: int | None = None) -> None:
        await self._write(lambda transaction: transaction.set_share(weight.share, weight), now)

    async def clear_share(self, share: str, *, now: int | None = None) -> bool:
        def work(transaction: Transaction) -> bool:
            there = share in transaction.book.weights
            if there:
                transaction.set_share(share, None)
            return there

        return await self._write(work, now)

    async def shares(self, *, after: str | None = None, limit: int = 1000) -> list[ShareStatus]:
        return await self._read(lambda transaction: overview.shares(transaction, after, limit))

    async def keys_in_use(
        self,
        name: str,
        *,
        computed_before: int | None = None,
        after: str | None = None,
        limit: int = 1000,
        now: int | None = None,
    ) -> list[KeyInUse]:
        return await self._read(
            lambda transaction: reading.keys_in_use(transaction, name, computed_before, after, limit), now
        )

    async def limits(
        self,
        name: str | None = None,
        *,
        after: LimitPlace | None = None,
        limit: int | None = None,
        now: int | None = None,
    ) -> list[LimitStatus]:
        return await self._read(lambda transaction: listing.limits(transaction, name, after, limit), now)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._read(lambda transaction: reading.get(transaction, ids))

    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        return await self._read(lambda transaction: reading.states(transaction, ids))

    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        return await self._read(lambda transaction: reading.find(transaction, filter, limit, after))

    async def find_page(
        self, filter: Filter, *, limit: int = 100, after: str | None = None, looks: int = LOOKS
    ) -> JobPage:
        return await self._read(
            lambda transaction: reading.find_page(transaction, filter, limit, after, looks)
        )

    async def count(self, filter: Filter) -> int:
        return await self._read(lambda transaction: reading.count(transaction, filter))

    async def queues(self, *, most: int | None = None) -> list[QueueStatus]:
        return await self._read(lambda transaction: overview.queues(transaction, most))

    async def totals(self, *, most: int | None = None) -> Totals:
        return await self._read(lambda transaction: overview.totals(transaction, most))

    async def tightest(self, *, limit: int = 10, now: int | None = None) -> list[LimitStatus]:
        return await self._read(lambda transaction: overview.tightest(transaction, limit), now)

    async def keys(
        self, idents: Sequence[str], *, holders: int = 10, waiters: int = 0, now: int | None = None
    ) -> list[KeyStatus | None]:
        def work(transaction: Transaction) -> list[KeyStatus | None]:
            return [overview.key(transaction, ident, holders, waiters) for ident in idents]

        return await self._read(work, now)

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
        return await self._read(lambda t: overview.history(t, since, step, queue, task, each=each), now)

    async def select(self, sql: str, *, limit: int = 1000, timeout: int = 10 * SECOND) -> Rows:
        await self._read(lambda _: None)  # says what is wrong with the file, if anything is
        return await ask(self.path, self.settings, self._clock, sql, limit, timeout)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        return await self._read(reading.workers, now)

    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        return await self._read(lambda transaction: reading.explain(transaction, id), now)

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        return await self._read(reading.snapshot, now)

    # ── waking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        return also_on_moves(self._clock, wake, self._opened().watchers.on_work(wake, queues))

    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        return self._opened().watchers.on_ended(wake)


def _exchanged(
    transaction: Transaction, worker: str, refused: Sequence[tuple[str, int]], more: bool
) -> Exchanged:
    cancelling, next_due = end_exchange(transaction, worker)
    return Exchanged(
        attempts=tuple(transaction.ledger.started),
        refused=tuple(refused),
        cancelling=cancelling,
        next_due=next_due,
        more=more,
        now=transaction.now,
        set_aside=tuple(transaction.admission.unknown),
        parked=transaction.admission.parked(),
    )


def _cancelling(transaction: Transaction, worker: str) -> tuple[str, ...]:
    return tuple(shown(id) for (id,) in transaction.execute(sql("cancelling"), (worker,)).fetchall())


def _changed(transaction: Transaction, statement: str, *bindings: object) -> bool:
    transaction.execute(sql(statement), bindings)
    return bool(transaction.connection.changes())
