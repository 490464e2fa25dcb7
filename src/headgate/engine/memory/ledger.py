"""The memory engine's ledger: what admission asks and records, answered from the store's dictionaries."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence

from headgate.engine.memory.store import Holding, MemoryStore
from headgate.engine.rules.admission import Rule
from headgate.engine.rules.full import Policy
from headgate.engine.rules.stored import NO_THREAD, UNKNOWN_TASK, Stored
from headgate.job import JobState
from headgate.keys import Use
from headgate.rates import Bucket, Meter, Pace, Spending, Window


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
        return self.store.held(key)

    def holds(self, key: str, job: Stored) -> int:
        holding = self.store.held_by.get(job.id, {}).get(key)
        return 0 if holding is None else holding.units

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

    # ── those that wait already ──────────────────────────────────────────────────────────────────────────────────

    def policy(self, key: str) -> Policy | None:
        return self.store.book.policy(key)

    def count_waiting(self, key: str, most: int) -> int:
        return min(sum(len(line) for line in self.store.waiting.get(key, {}).values()), most)

    def count_pending(self, queue: str, most: int) -> int:
        return min(len(self._pending(queue)), most)

    def all_waiting(self, key: str, most: int) -> Sequence[Stored]:
        lines = self.store.waiting.get(key, {})
        return [job for queue in sorted(lines) for job in lines[queue]][:most]

    def last_in_line(self, key: str) -> Stored | None:
        return _last(job for line in self.store.waiting.get(key, {}).values() for job in line)

    def last_pending(self, queue: str) -> Stored | None:
        return _last(self._pending(queue))

    def _pending(self, queue: str) -> list[Stored]:
        states = (JobState.READY, JobState.WAITING)
        return [job for job in self.store.jobs.values() if job.queue == queue and job.state in states]

    def longest_running(self, key: str) -> Stored | None:
        running = [
            holding
            for holding in self.store.holders.get(key, {}).values()
            if not holding.reserved and not holding.job.cancel_requested
        ]
        return min(running, key=lambda held: (held.since, held.job.seq)).job if running else None

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, key: str, job: Stored, units: int, *, reserved: bool) -> None:
        self.store.hold(key, Holding(job, self.now, units, reserved))

    def spend(self, key: str, pace: Pace, units: int, job: Stored) -> None:
        meter = self._changing(key)
        meter.spend(pace, units, self.now)
        if pace.estimated:
            spending = Spending(units, self.now, meter.mark(self.now))
            self.store.change(job, spent={**job.spent, key: spending})

    def correct(self, key: str, pace: Pace, spent: Spending, units: int) -> None:
        self._changing(key).correct(pace, spent, units, self.now)

    def close(self, key: str, pace: Pace, until: int) -> None:
        self._changing(key).close(pace, until, self.now)

    def _changing(self, key: str) -> Meter:
        """A meter of this transaction's own, so that the one before can be put back."""
        meter = copy.deepcopy(self.meter(key))
        self.store.put(self.store.meters, key, meter)
        return meter

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
        if job.tag:
            self.store.advance(job.queue, job.priority, job.tag)
        until = job.unique_until
        if job.attempt == 0 and job.spec.unique_for is not None:
            until = self.now + job.spec.unique_for
        self.store.change(
            job,
            state=JobState.RUNNING, worker=self.claimer, attempt=job.attempt + 1, tries=job.tries + 1,
            started_at=self.now, ended_at=None, outcome=None, error=None, result=None, offered_by=None, units=0,
            set_aside=0, start_by=None, unique_until=until,
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
            limited = Holding(job, holding.since, holding.units, holding.reserved)
            limited.expires_at = expires_at
            self.store.hold(key, limited)


def _last(jobs: Iterable[Stored]) -> Stored | None:
    """The first in order among those of the least urgent priority."""
    found = list(jobs)
    lowest = max((job.priority for job in found), default=None)
    return min((job for job in found if job.priority == lowest), key=lambda job: job.order, default=None)
