"""The memory engine's ledger: what admission asks and records, answered from the store's dictionaries."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence

from headgate.engine.memory.store import Holding, MemoryStore
from headgate.engine.rules.admission import Rule
from headgate.engine.rules.stored import NO_THREAD, UNKNOWN_TASK, Stored
from headgate.job import JobState
from headgate.keys import Use
from headgate.rates import Bucket, Meter, Pace, Window


class MemoryLedger:
    """One transaction's view of the store; `claimer` is the worker that claims in it."""

    def __init__(self, store: MemoryStore, now: int, reservation_ttl: int) -> None:
        self.store = store
        self.now = now
        self.reservation_ttl = reservation_ttl
        self.claimer: str | None = None
        self.started: list[Stored] = []
        self.readied: dict[str, str] = {}

    def uses(self, job: Stored) -> Sequence[Use]:
        return self.store.book.uses(job.task, job.queue, job.uses)

    def rule(self, key: str) -> Rule:
        return self.store.book.rule(key)

    def held(self, key: str) -> int:
        return len(self.store.holders.get(key, ()))

    def holds(self, key: str, job: Stored) -> bool:
        return key in self.store.held_by.get(job.id, ())

    def meter(self, key: str) -> Meter:
        exact = isinstance(rule := self.rule(key), Pace) and rule.exact
        found = self.store.meters.get(key)
        if isinstance(found, Window if exact else Bucket):
            return found
        return Window() if exact else Bucket()

    def offered(self, key: str, queue: str) -> int:
        return sum(self.store.offered.get((key, queue), {}).values())

    def has_waiters(self, key: str, queue: str) -> bool:
        return queue in self.store.waiting.get(key, ())

    def expect(self, keys: Collection[str]) -> None:
        pass

    def queues_waiting(self, key: str) -> Sequence[str]:
        return sorted(self.store.waiting.get(key, ()))

    def waiters(self, key: str, queue: str, most: int) -> Sequence[Stored]:
        line = self.store.waiting.get(key, {}).get(queue)
        return line.first(most) if line else []

    def take(self, key: str, job: Stored, *, reserved: bool) -> None:
        self.store.hold(key, Holding(job, self.now, reserved))

    def spend(self, key: str, pace: Pace, units: int) -> None:
        meter = copy.deepcopy(self.meter(key))
        meter.spend(pace, units, self.now)
        self.store.put(self.store.meters, key, meter)

    def drop(self, jobs: Sequence[Stored]) -> Iterable[str]:
        return [key for job in jobs for key in self.drop_except(job, ())]

    def drop_except(self, job: Stored, keep: Sequence[str]) -> Iterable[str]:
        gone = {
            key: holding for key, holding in self.store.held_by.get(job.id, {}).items() if key not in keep
        }
        for key, holding in gone.items():
            self.store.let_go(key, holding)
        return list(gone)

    def start(self, job: Stored) -> None:
        assert self.claimer is not None
        self.store.change(
            job,
            state=JobState.RUNNING, worker=self.claimer, attempt=job.attempt + 1, tries=job.tries + 1,
            started_at=self.now, ended_at=None, outcome=None, error=None, result=None, offered_by=None, units=0,
            set_aside=0,
        )  # fmt: skip
        self.started.append(job)
        self.readied.pop(job.id, None)

    def make_ready(self, job: Stored, offered_by: str | None, units: int) -> None:
        self.store.change(job, state=JobState.READY, waiting_on=None, offered_by=offered_by, units=units)
        self.readied[job.id] = job.queue
        self._limit_reservations(job, self.now + self.reservation_ttl)

    def park(self, job: Stored, on: Use, refusals: int) -> None:
        self.store.change(
            job, state=JobState.WAITING, waiting_on=on.key, offered_by=None, units=on.units, refusals=refusals,
            set_aside=0,
        )  # fmt: skip
        self._limit_reservations(job, None)

    def set_aside(self, job: Stored) -> None:
        self.store.change(job, set_aside=UNKNOWN_TASK, offered_by=None, units=0)

    def keep_for_thread(self, job: Stored) -> None:
        if not job.set_aside:
            self.store.change(job, set_aside=NO_THREAD)

    def arm(self, key: str, at: int | None) -> None:
        self.store.put(self.store.timers, key, at)

    def _limit_reservations(self, job: Stored, expires_at: int | None) -> None:
        for key, holding in list(self.store.held_by.get(job.id, {}).items()):
            limited = Holding(job, holding.since, holding.reserved)
            limited.expires_at = expires_at
            self.store.hold(key, limited)
