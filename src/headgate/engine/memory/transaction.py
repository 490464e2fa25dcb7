"""One transaction of the memory engine: the transitions over its store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headgate.engine.contract import Done, KeyNumbers, Limit, Lost, Override, Settings, ShareWeight
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import MemoryStore
from headgate.engine.rules.admission import Admission, Gate
from headgate.engine.rules.history import minute_of, row_for, together
from headgate.engine.rules.in_force import Scope, in_scope
from headgate.engine.rules.shares import Mean, moved
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
                self.ledger.take(key, job, 1, reserved=False)

    def keys_waiting(self, scope: Scope) -> Iterable[str]:
        return [key for key in self.store.waiting if in_scope(Key.of(key), scope)]

    def put_limit(self, limit: Limit) -> None:
        self._put(self.book.limits, limit.name, limit)

    def put_override(self, scope: Scope, override: Override | None) -> None:
        self._put(self.book.overrides, scope, override)

    def put_numbers(self, key: str, numbers: KeyNumbers | None) -> None:
        self._put(self.book.numbers, key, numbers)

    def put_gate(self, key: str, gate: Gate | None) -> None:
        self._put(self.book.gates, key, gate)

    def virtual_time(self, queue: str, priority: int) -> int:
        return self.store.virtual.get((queue, priority), 0)

    def last_tag(self, queue: str, priority: int, share: str) -> int:
        line = self.store.shares.get((queue, priority), {}).get(share)
        tail = line.tail() if line else None
        return 0 if tail is None else tail[1]

    def mean(self, queue: str, share: str) -> Mean | None:
        return self.store.means.get((queue, share))

    def put_mean(self, queue: str, share: str, mean: Mean | None) -> None:
        self.store.put(self.store.means, (queue, share), mean)

    def queues_of_share(self, share: str) -> Iterable[str]:
        return sorted({queue for (queue, _), shares in self.store.shares.items() if share in shares})

    def retag(self, queue: str, share: str, old: int, new: int) -> None:
        for (name, priority), shares in list(self.store.shares.items()):
            if name == queue and share in shares:
                virtual = self.virtual_time(queue, priority)
                for job in list(shares[share]):
                    self.change(job, tag=moved(job.tag, virtual, old, new))

    def put_declared_weight(self, weight: ShareWeight) -> None:
        self._put(self.book.declared_weights, weight.share, weight)

    def put_weight(self, share: str, weight: ShareWeight | None) -> None:
        self._put(self.book.weights, share, weight)

    def _put(self, table: dict[Any, Any], name: Any, value: Any) -> None:
        self.store.put(table, name, value)
        self.store.undo.append(self.book.changed)
