"""One transaction of the memory engine: the transitions over its store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headgate.engine.contract import Done, Limit, Lost, Override, Settings
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import MemoryStore
from headgate.engine.rules.admission import Admission
from headgate.engine.rules.history import minute_of, row_for, together
from headgate.engine.rules.in_force import Scope, in_scope
from headgate.engine.rules.stored import Stored
from headgate.engine.rules.transitions import Transitions
from headgate.job import NewJob
from headgate.keys import Key


class Transaction(Transitions):
    """The transitions, stored in dictionaries."""

    def __init__(self, store: MemoryStore, settings: Settings, now: int) -> None:
        self.store = store
        self.ledger = MemoryLedger(store, now, settings.reservation_ttl)
        super().__init__(Admission[Stored](self.ledger, now, settings.patience), store.book, settings, now)

    def job(self, id: str) -> Stored | None:
        return self.store.jobs.get(id)

    def existing(self, ids: Sequence[str]) -> set[str]:
        return {id for id in ids if id in self.store.jobs}

    def rival(self, tenant: str, unique: str) -> Stored | None:
        return self.store.unique.get((tenant, unique))

    def add(self, spec: NewJob, enqueued_at: int, due: int) -> Stored:
        self.store.arrivals += 1
        job = Stored(spec, self.store.arrivals, enqueued_at, due)
        self.store.add(job)
        return job

    def change(self, job: Stored, **fields: Any) -> None:
        self.store.change(job, **fields)

    def remove(self, job: Stored) -> None:
        self.store.remove(job)

    def last_tick(self, name: str) -> int | None:
        return self.store.ticks.get(name)

    def put_tick(self, name: str, at: int) -> None:
        self.store.put(self.store.ticks, name, at)

    def schedule_paused(self, name: str) -> bool:
        return name in self.store.paused_schedules

    def put_schedule_paused(self, name: str, *, paused: bool) -> None:
        self.store.put(self.store.paused_schedules, name, paused or None)

    def add_done(self, done: Done) -> None:
        """Add to the history."""
        at = minute_of(done.at)
        rows = self.store.history.setdefault(at, {})
        queue, task = row_for(done, rows)
        row = rows.get((queue, task), Done(at, queue, task))
        self.store.put(rows, (queue, task), together(row, done))

    def lose_worker(self, worker: str) -> Lost:
        """A worker is gone: so are its registration and its attempts."""
        entry = self.store.workers.get(worker)
        seen, lease = (entry.seen, entry.worker.lease) if entry else (0, 0)
        lost = self.lose(self.store.running_of(worker), seen, lease)
        self.store.put(self.store.workers, worker, None)
        return lost

    def adopt(self, key: str, *, task: str | None = None, queue: str | None = None) -> None:
        for job in [job for jobs in self.store.running.values() for job in jobs.values()]:
            if (task in (None, job.task) and queue in (None, job.queue)) and not self.ledger.holds(key, job):
                self.ledger.take(key, job, reserved=False)

    def keys_waiting(self, scope: Scope) -> Iterable[str]:
        return [key for key in self.store.waiting if in_scope(Key.of(key), scope)]

    def put_limit(self, limit: Limit) -> None:
        self._put(self.book.limits, limit.name, limit)

    def put_override(self, scope: Scope, override: Override | None) -> None:
        self._put(self.book.overrides, scope, override)

    def put_computed(self, key: str, number: int) -> None:
        self._put(self.book.computed, key, (number, self.now))

    def forget_computed(self, key: str) -> None:
        """The number of an idle key."""
        self._put(self.book.computed, key, None)
        self.book.changed()

    def _put(self, table: dict[Any, Any], name: Any, value: Any) -> None:
        self.store.put(table, name, value)
        self.store.undo.append(self.book.changed)
