"""The audit: does a store at rest obey the rules of admission? Decided from one snapshot, without a store.

Every problem is one sentence that names the job and the key. An empty list means: no slot outlives its attempt, no
waiter is forgotten, and every job stands where its fields say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.engine.contract import JobView, Snapshot
from headgate.engine.rules.admission import OFFER_MOST
from headgate.engine.rules.in_force import canonical_order
from headgate.job import JobState
from headgate.keys import Key, Use, is_rate

Line = tuple[str, str]
"""The waiters, or the offers, of one key in one queue."""


def audit(snapshot: Snapshot) -> list[str]:
    """Every violation of the rules that the snapshot shows."""
    return list(_Audit(snapshot).problems())


class _Audit:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.jobs = {job.id: job for job in snapshot.jobs}
        self.waiters: dict[Line, list[JobView]] = {}
        self.offers: dict[Line, list[JobView]] = {}
        for job in sorted(snapshot.jobs, key=_order):
            if job.state is JobState.WAITING and job.waiting_on is not None:
                self.waiters.setdefault((job.waiting_on, job.queue), []).append(job)
            if job.state is JobState.READY and job.offered_by is not None:
                self.offers.setdefault((job.offered_by, job.queue), []).append(job)

    def problems(self) -> Iterator[str]:
        yield from self._twice()
        for job in self.snapshot.jobs:
            yield from self._misplaced(job)
            yield from self._running_without(job)
        for key, holders in self.snapshot.holders.items():
            for id, reserved in holders.items():
                yield from self._wrong_holder(key, id, reserved)
        for key, queue in self.waiters:
            yield from self._forgotten(key, queue)
        for key in self.snapshot.timers:
            yield from self._stray_timer(key)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _twice(self) -> Iterator[str]:
        for id, times in Counter(job.id for job in self.snapshot.jobs).items():
            if times > 1:
                yield f"job {id!r} is there {times} times"

    def _misplaced(self, job: JobView) -> Iterator[str]:
        if job.state.ended:
            yield f"job {job.id!r} is {job.state} but still among the unfinished ones"
        yield from self._wrong_wait(job)
        yield from self._wrong_offer(job)
        yield from self._wrong_counts(job)
        if job.set_aside and job.state is not JobState.READY:
            yield f"job {job.id!r} is set aside although it is {job.state}"

    def _wrong_wait(self, job: JobView) -> Iterator[str]:
        waits = job.state is JobState.WAITING
        if waits and job.waiting_on is None:
            yield f"job {job.id!r} is waiting, but on no key"
        elif waits and not _may_use(job, job.waiting_on):
            yield f"job {job.id!r} waits on {_show(job.waiting_on)}, which it does not use"
        elif not waits and job.waiting_on is not None:
            yield f"job {job.id!r} is {job.state}, but is said to wait on {_show(job.waiting_on)}"

    def _wrong_offer(self, job: JobView) -> Iterator[str]:
        if job.offered_by is None:
            return
        if job.state is not JobState.READY:
            yield f"job {job.id!r} is {job.state}, but counts as offered by {_show(job.offered_by)}"
        elif job.set_aside:
            yield f"job {job.id!r} is set aside, but counts as offered by {_show(job.offered_by)}"
        elif not _may_use(job, job.offered_by):
            yield f"job {job.id!r} counts as offered by {_show(job.offered_by)}, which it does not use"

    def _wrong_counts(self, job: JobView) -> Iterator[str]:
        if not 0 <= job.tries <= job.attempt:
            yield f"job {job.id!r} has {job.tries} counted of {job.attempt} attempts"
        if job.share is None and job.tag:
            yield f"job {job.id!r} has tag {job.tag}, but belongs to no share"
        if job.share is not None and job.tag < 1 and job.state in (JobState.READY, JobState.WAITING):
            yield f"job {job.id!r} is {job.state} in share {job.share!r} without a tag"
        if job.state is JobState.WAITING and job.refusals is None:
            yield f"job {job.id!r} waits on {_show(job.waiting_on)} without a count of refusals"

    def _running_without(self, job: JobView) -> Iterator[str]:
        """A running job has a worker and a slot of each key, also of caps that were put up after its start."""
        if job.state is not JobState.RUNNING:
            if job.worker is not None:
                yield f"job {job.id!r} is {job.state}, but belongs to worker {job.worker!r}"
            return
        if job.worker not in self.snapshot.workers:
            yield f"job {job.id!r} runs on worker {job.worker!r}, which is not registered"
        if job.tries < 1:
            yield f"job {job.id!r} runs without a counted attempt"
        if job.start_by is not None:
            yield f"job {job.id!r} runs, but is still to be started by a time"
        if self.snapshot.virtual is not None:
            come = self.snapshot.virtual.get((job.queue, job.order[0]), 0)
            if job.tag > come:
                shares = f"the shares of queue {job.queue!r}"
                yield f"job {job.id!r} runs with tag {job.tag}, but {shares} have come to {come}"
        for use in job.uses:
            missing = job.id not in self.snapshot.holders.get(use.key, {})
            if missing and not is_rate(use.key):
                yield f"job {job.id!r} runs without a slot of {_show(use.key)}"

    # ── holders ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _wrong_holder(self, key: str, id: str, reserved: bool) -> Iterator[str]:
        job = self.jobs.get(id)
        units = self.snapshot.units.get(key, {}).get(id, 1)
        if job is not None and units != _units(job, key):
            yield f"job {id!r} holds {units} of {_show(key)}, but needs {_units(job, key)}"
        if is_rate(key):
            yield f"job {id!r} holds {_show(key)}, but rates are spent, never held"
        elif job is None:
            yield f"{_show(key)} is held by job {id!r}, which is unknown or ended"
        elif not _may_use(job, key):
            yield f"job {id!r} holds {_show(key)}, which it does not use"
        elif reserved:
            yield from self._wrong_reservation(job, key)
        elif job.state is not JobState.RUNNING:
            yield f"job {id!r} holds a slot of {_show(key)} although it is {job.state}"

    def _wrong_reservation(self, job: JobView, key: str) -> Iterator[str]:
        """Rule 7: kept only while it waits, or was offered, for a later key that is no rate."""
        if job.state not in (JobState.WAITING, JobState.READY):
            yield f"job {job.id!r} reserves {_show(key)} although it is {job.state}"
            return
        target = job.waiting_on or job.offered_by
        if target is None:
            yield f"job {job.id!r} reserves {_show(key)} but neither waits for a key nor was offered one"
        elif is_rate(target):
            yield f"job {job.id!r} reserves {_show(key)} while it waits for the rate {_show(target)}"
        elif canonical_order(Use(key)) >= canonical_order(Use(target)):
            yield f"job {job.id!r} reserves {_show(key)}, which does not come before {_show(target)}"

    # ── waiters ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _forgotten(self, key: str, queue: str) -> Iterator[str]:
        """Rule 5: what a key has left beyond its offers is too little for the first waiter of each queue.

        Unless a slice that is still to come looks at it: where transactions run side by side, another one may have held
        the head when its room came back.
        """
        if key in self.snapshot.unsettled:
            return
        head = self.waiters[key, queue][0]
        offers = self.offers.get((key, queue), [])
        needed = sum(_units(job, key) for job in offers) + _units(head, key)
        if key not in self.snapshot.free:
            yield f"job {head.id!r} waits on {_show(key)}, of which nothing is known"
            return
        free = self.snapshot.free[key]
        fits = free is None or needed <= free
        if is_rate(key) or key in self.snapshot.timers:
            yield from self._unarmed(head, key, needed, fits)
        elif fits and len(offers) < OFFER_MOST:
            yield f"job {head.id!r} of queue {queue!r} waits on {_show(key)}, which has room for it"

    def _unarmed(self, head: JobView, key: str, needed: int, fits: bool) -> Iterator[str]:
        """Tokens come with time: the timer must be there, and must have rung if the head's tokens are there."""
        timer = self.snapshot.timers.get(key)
        most = self.snapshot.most.get(key)
        can_come = most is None or needed <= most
        if timer is None and (fits or can_come):
            yield f"job {head.id!r} waits on the rate {_show(key)}, but no timer is armed"
        elif fits and timer is not None and timer > self.snapshot.now:
            yield f"job {head.id!r} waits on {_show(key)}, which has room for it before its timer rings"

    def _stray_timer(self, key: str) -> Iterator[str]:
        """Rates have timers, and throttled keys while they open again."""
        if key not in self.snapshot.unsettled and not any(waited == key for waited, _ in self.waiters):
            yield f"a timer is armed for {_show(key)}, on which no job waits"


def _order(job: JobView) -> tuple[int, int, int, int]:
    priority, arrival = job.order
    return priority, job.tag, job.due, arrival


def _caps(job: JobView) -> frozenset[str]:
    return frozenset({Key(f"task:{job.task}").ident, Key(f"queue:{job.queue}").ident})


def _may_use(job: JobView, key: str | None) -> bool:
    """The keys a job names, and the caps of its task and queue: these may have been lifted since it took them."""
    return any(use.key == key for use in job.uses) or key in _caps(job)


def _units(job: JobView, key: str) -> int:
    return next((use.units for use in job.uses if use.key == key), 1)


def _show(ident: str | None) -> str:
    if ident is None:
        return "no key"
    key = Key.of(ident)
    return f"{key.text!r} of tenant {key.tenant!r}" if key.tenant else repr(key.text)
